//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser};
use mha_examples::{
    backend::BackendName,
    flags::{from_1_to, learning_rate},
};
use serde::{Deserialize, Serialize};

use crate::{generate::Way, sizes::Sizes};

/// Trains a small language model on the characters of a text, then lets it write.
///
/// The model, its config and a picture of the loss go to the directory `--out`; `--generate` writes
/// on from there without training.
#[derive(Debug, Parser)]
#[command(name = "tiny_lm", version, args_override_self = true)]
pub(crate) struct Cli {
    /// The text, a UTF-8 file [default: fables that come with the example]
    #[arg(long, value_name = "PATH")]
    pub(crate) text: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) sizes: Sizes,

    #[command(flatten)]
    pub(crate) training: Training,

    /// Directory of the model; an earlier one in it is replaced
    #[arg(long, value_name = "DIR", default_value = "target/tiny_lm")]
    pub(crate) out: PathBuf,

    /// Write with the model that an earlier run left in this directory, without training
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["text", "out", "Sizes", "Training"],
    )]
    pub(crate) generate: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) writing: Writing,

    /// Decides the initial weights, the order of the text in training, and what is drawn in writing
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,

    /// Where the tensors live
    #[arg(long, value_enum, default_value_t)]
    pub(crate) backend: BackendName,
}

/// How the model is trained.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Training {
    /// Training steps
    #[arg(long, default_value_t = 450, value_parser = from_1_to(10_000_000))]
    pub(crate) steps: usize,

    /// Stretches of text in a step, each a context long
    #[arg(long, default_value_t = 32, value_parser = from_1_to(65_536))]
    pub(crate) batch_size: usize,

    /// Learning rate after the first steps, which lead up to it; a cosine takes it to 0
    #[arg(long, default_value_t = 5e-3, value_parser = learning_rate)]
    pub(crate) learning_rate: f64,

    /// Share of attention weights and of what blocks add that a step drops at random, below 1
    #[arg(long, default_value_t = 0.1, value_parser = dropout)]
    pub(crate) dropout: f64,
}

/// How the model writes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Writing {
    /// What the model writes on from [default: a new line]
    #[arg(long)]
    pub(crate) prompt: Option<String>,

    /// Characters to write
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = from_1_to(10_000_000))]
    pub(crate) tokens: usize,

    /// How freely: 0 takes the likeliest character, 1 draws them as the model expects them
    #[arg(long, default_value_t = 0.6, value_parser = temperature)]
    pub(crate) temperature: f64,

    /// Compute all characters so far again for each new one, instead of caching keys and values
    #[arg(long)]
    pub(crate) no_cache: bool,

    /// Write with the cache and without it, and exit with status 1 if a character differs
    #[arg(long, conflicts_with = "no_cache")]
    pub(crate) check_cache: bool,
}

impl Writing {
    pub(crate) fn way(&self) -> Way {
        if self.no_cache { Way::Recomputed } else { Way::Cached }
    }
}

fn dropout(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if (0.0..1.0).contains(&value) { Ok(value) } else { Err("not in 0..1".to_string()) }
}

fn temperature(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if (0.0..=100.0).contains(&value) { Ok(value) } else { Err("not in 0..=100".to_string()) }
}
