//! transformers, in processes of its own.

use std::path::Path;

use serde_json::json;

use super::{Entrant, work::Work};
use crate::{bert::Config, process::Process, turn::Turn};

/// What tables call it. The threads of the first wait for each other as PyTorch's do by default, which
/// is by spinning: faster, unless anything else wants a core. Those of the second sleep.
pub(super) const NAMES: [&str; 2] = ["transformers", "transformers-passive"];

pub(super) struct There {
    name: &'static str,
    process: Process,
    n_tokens: usize,
    /// Of transformers and of PyTorch.
    pub(super) version: String,
}

impl There {
    /// Starts the one of this name and lets it load the model.
    pub(super) fn start(
        name: &'static str,
        python: &Path,
        threads: usize,
        dir: &Path,
        config: &Config,
    ) -> Result<Self, String> {
        let mut process = Process::start(name, python, "embeddings.py", &[], threads, |command| {
            if name == NAMES[1] {
                command.env("OMP_WAIT_POLICY", "passive");
            }
        })?;
        let reply = process.ask(&json!({"do": "load", "model": dir}))?;
        let version = reply["version"].as_str().unwrap_or(name).to_string();
        Ok(Self { name, process, n_tokens: config.n_tokens, version })
    }
}

impl Entrant for There {
    fn name(&self) -> &'static str {
        self.name
    }

    fn prepare(&mut self, work: &Work) -> Result<(), String> {
        let tokens = work.tokens(self.n_tokens);
        self.process.ask(&json!({"do": "prepare", "part": work.part, "tokens": tokens}))?;
        Ok(())
    }

    fn take_turn(&mut self, turn: Turn) -> Result<Vec<f64>, String> {
        self.process.take_turn(turn)
    }

    fn outcome(&mut self) -> Result<Vec<f32>, String> {
        let reply = self.process.ask(&json!({"do": "outcome"}))?;
        let outcome = serde_json::from_value(reply["outcome"].clone());
        outcome.map_err(|error| format!("its outcome is none: {error}"))
    }
}
