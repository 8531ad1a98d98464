//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use mha::weights::Family;
use mha_examples::{backend::BackendName, flags::from_1_to};

/// What `FILE` may be, for every command.
const FILE_HELP: &str = r#"FILE is a safetensors file, the index of a sharded one (*.index.json), a PyTorch file (.pt, .pth, .bin)
or a folder that has one of these. The config.json in the same folder, or Meta's params.json, says how
many heads there are and how positions are told apart; where there is none, --config names another and
--heads is enough for layers without rotary positions.

Exit status: 0; 1 where a file cannot be used, or a layer differs from its fixture; 2 for wrong usage."#;

/// The widest module has fewer heads than this.
const MOST_HEADS: u64 = 65_535;

/// Attention layers in the files of weights of PyTorch, transformers, Meta, flash-attn, Flax, Keras, Equinox,
/// MLX, burn-nn and mha.
#[derive(Debug, Parser)]
#[command(name = "mha-weights", after_help = FILE_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prints which attention layers a file has, and what would be loaded where
    #[command(after_help = FILE_HELP)]
    Inspect(Inspect),
    /// Writes a file again with its attention layers under the names of another library
    #[command(after_help = FILE_HELP)]
    Convert(Convert),
    /// Runs a layer on stored inputs and compares with what its own library computed
    #[command(after_help = FILE_HELP)]
    Verify(Verify),
}

/// A file of weights, and what it does not say itself.
#[derive(Debug, Args)]
pub(crate) struct Weights {
    /// The file of weights, or its folder
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// How many heads there are, whatever config.json says
    #[arg(long, value_name = "N", value_parser = from_1_to(MOST_HEADS))]
    pub(crate) heads: Option<usize>,

    /// How many heads of keys and values there are, whatever config.json says
    #[arg(long, value_name = "N", value_parser = from_1_to(MOST_HEADS))]
    pub(crate) kv_heads: Option<usize>,

    /// Read this file in place of the config.json beside FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    pub(crate) weights: Weights,

    /// Name every tensor, also where there are many and those that belong to no attention layer
    #[arg(long)]
    pub(crate) tensors: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) weights: Weights,

    /// The safetensors file to write
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,

    /// Whose names and layout to write: mha, burn-nn, pytorch, bert, gpt2, nanogpt, llama, phi3,
    /// meta-llama, gpt-neox, bloom, t5, whisper, flash-attn, flax, keras, equinox or mlx
    #[arg(long, value_name = "FAMILY")]
    pub(crate) to: Family,

    /// Replace OUT if it exists; never FILE itself
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    pub(crate) weights: Weights,

    /// Inputs and what the layer's own library makes of them: a safetensors file as in
    /// tests/fixtures/weights, whose families.py describes it
    #[arg(long, value_name = "FIXTURE")]
    pub(crate) against: PathBuf,

    /// What the names of the layer's tensors begin with [default: as the fixture says]
    #[arg(long, value_name = "PREFIX")]
    pub(crate) layer: Option<String>,

    /// Where the layer is computed
    #[arg(long, value_enum, default_value_t)]
    pub(crate) backend: BackendName,
}
