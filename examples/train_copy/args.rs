//! The command line, and the part of it that a run's `config.json` remembers.

use std::path::PathBuf;

use clap::{Args, Parser};
use mha_examples::{
    backend::BackendName,
    flags::{from_1_to, learning_rate},
};
use serde::{Deserialize, Serialize};

/// Trains a small transformer to copy random symbols, which only attention can do.
///
/// The model reads random symbols, a separator, then blanks, and must repeat the symbols over the
/// blanks. Config, checkpoints, metrics, the model and pictures of the loss and of each head's
/// attention go to the directory `--out`.
#[derive(Debug, Parser)]
#[command(name = "train_copy", version, args_override_self = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) hyper: Hyperparameters,

    /// Where the tensors live
    #[arg(long, value_enum, default_value_t)]
    pub(crate) backend: BackendName,

    /// Directory of the run; without `--resume` an earlier run in it is replaced
    #[arg(long, value_name = "DIR", default_value = "target/train_copy")]
    pub(crate) out: PathBuf,

    /// Go on from the newest complete checkpoint in `--out`, from the beginning if there is none;
    /// the other flags must be those that the run began with
    #[arg(long)]
    pub(crate) resume: bool,

    /// Token accuracy in percent that the run must reach, or exit with status 1
    #[arg(long, value_name = "PERCENT", default_value_t = 99.0, value_parser = percent)]
    pub(crate) min_accuracy: f64,

    /// Steps between two lines of progress (without a terminal; on one there is a dashboard)
    #[arg(long, value_name = "STEPS", default_value_t = 10, value_parser = from_1_to(1_000_000))]
    pub(crate) log_every: usize,
}

/// What decides the trained weights, beside the backend.
#[derive(Args, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hyperparameters {
    /// Training steps in all
    #[arg(long, default_value_t = 300, value_parser = from_1_to(10_000_000))]
    pub(crate) steps: usize,

    /// Steps in an epoch, at whose end the model is validated and a checkpoint written
    #[arg(long, default_value_t = 50, value_parser = from_1_to(10_000_000))]
    pub(crate) steps_per_epoch: usize,

    /// Sequences in a batch
    #[arg(long, default_value_t = 32, value_parser = from_1_to(65_536))]
    pub(crate) batch_size: usize,

    /// Symbols to copy
    #[arg(long, default_value_t = 10, value_parser = from_1_to(256))]
    pub(crate) sequence_length: usize,

    /// Different symbols; with few of them and short sequences, the test sequences are no longer
    /// unseen
    #[arg(long, default_value_t = 16, value_parser = from_1_to(65_536))]
    pub(crate) vocabulary: usize,

    /// Features of a token
    #[arg(long, default_value_t = 64, value_parser = from_1_to(8_192))]
    pub(crate) d_model: usize,

    /// Attention heads; they must divide `--d-model`
    #[arg(long, default_value_t = 4, value_parser = from_1_to(8_192))]
    pub(crate) heads: usize,

    /// Attention blocks
    #[arg(long, default_value_t = 1, value_parser = from_1_to(64))]
    pub(crate) layers: usize,

    /// Learning rate of the first step; a cosine takes it to 0 at the last
    #[arg(long, default_value_t = 3e-3, value_parser = learning_rate)]
    pub(crate) learning_rate: f64,

    /// Decides the initial weights and every training sequence
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
}

fn percent(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if (0.0..=100.0).contains(&value) { Ok(value) } else { Err("not in 0..=100".to_string()) }
}
