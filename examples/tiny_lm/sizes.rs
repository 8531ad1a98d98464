//! The sizes of the model, as flags and in `config.json`.

use clap::Args;
use mha_examples::flags::from_1_to;
use serde::{Deserialize, Serialize};

/// What decides the shapes of the parameters, beside the characters.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sizes {
    /// Characters that the model sees at once
    #[arg(long, default_value_t = 64, value_parser = from_1_to(65_536))]
    pub(crate) context: usize,

    /// Features of a token
    #[arg(long, default_value_t = 64, value_parser = from_1_to(8_192))]
    pub(crate) d_model: usize,

    /// Attention heads; they must divide `--d-model` into even parts
    #[arg(long, default_value_t = 4, value_parser = from_1_to(8_192))]
    pub(crate) heads: usize,

    /// Heads of keys and values; they must divide `--heads`
    #[arg(long, default_value_t = 2, value_parser = from_1_to(8_192))]
    pub(crate) kv_heads: usize,

    /// Blocks of attention and feed-forward
    #[arg(long, default_value_t = 3, value_parser = from_1_to(64))]
    pub(crate) layers: usize,
}
