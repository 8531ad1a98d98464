//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use mha_examples::backend::BackendName;

/// What `--config` reads.
const CONFIG_HELP: &str = r#"The file of --config has a saved module configuration and the sizes of a call:

  {
    "module": {"d_model": 64, "n_heads": 4, "n_kv_heads": 2, "position": "Alibi"},
    "batch": 2, "seq_q": 32, "seq_k": 48,
    "rules": [{"Causal": {}}, {"Lengths": {"lengths": [48, 20]}}]
  }

"module" is what MultiHeadAttentionConfig::save writes; "rules" are mha::Rule. "seq_k" may be left
out where it is seq_q, "rules" where nothing is hidden.

Query, key and value have tokens of their own; for self-attention, whose tokens are the same, nothing
else changes.

Exit status: 0, 1 where an error is over its allowance, 2 where a file or an adapter is missing or
cannot be used."#;

/// Runs the same weights and inputs through every backend and path that is compiled in, and compares
/// output and gradients with plain loops in f64.
#[derive(Debug, Parser)]
#[command(name = "compare_backends", after_help = CONFIG_HELP)]
pub(crate) struct Args {
    /// Compare the module of this JSON file in place of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Write every comparison to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Print the table as Markdown
    #[arg(long)]
    pub(crate) markdown: bool,

    /// A backend to compare, as often as wanted [default: all that are compiled in]
    #[arg(long = "backend", value_enum, value_name = "BACKEND")]
    backends: Vec<BackendName>,
}

impl Args {
    /// The backends to compare, each once; at least one.
    pub(crate) fn backends(&self) -> Vec<BackendName> {
        let wanted = |name: &BackendName| self.backends.is_empty() || self.backends.contains(name);
        BackendName::value_variants().iter().copied().filter(wanted).collect()
    }
}
