//! transformers, in a process of its own.

use std::path::Path;

use serde_json::json;

use super::{Entrant, work::Work};
use crate::{bert::Config, process::Process, turn::Turn};

/// What tables call it.
pub(super) const NAME: &str = "transformers";

pub(super) struct There {
    process: Process,
    n_tokens: usize,
    /// Of transformers and of PyTorch.
    pub(super) version: String,
}

impl There {
    /// Starts it and lets it load the model.
    pub(super) fn start(
        python: &Path,
        threads: usize,
        dir: &Path,
        config: &Config,
    ) -> Result<Self, String> {
        let mut process = Process::start(NAME, python, "embeddings.py", &[], threads, |_| ())?;
        let reply = process.ask(&json!({"do": "load", "model": dir}))?;
        let version = reply["version"].as_str().unwrap_or(NAME).to_string();
        Ok(Self { process, n_tokens: config.n_tokens, version })
    }
}

impl Entrant for There {
    fn name(&self) -> &'static str {
        NAME
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
