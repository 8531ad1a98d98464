//! The process of a library for Python that has the layer.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    case::{Case, D_MODEL, N_HEADS},
    implementation::Implementation,
    memory,
    process::Process,
    scratch::Scratch,
};

/// What a process is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    Time,
    Memory,
}

pub(super) struct PythonChild {
    pub(super) process: Process,
    /// The library and its version.
    pub(super) version: String,
}

impl PythonChild {
    /// Starts it and hands it the weights.
    pub(super) fn start(
        implementation: Implementation,
        python: &Path,
        threads: usize,
        scratch: &Scratch,
        measured: Measured,
    ) -> Result<Self, String> {
        let name = implementation.name();
        let mut process = Process::start(name, python, "main.py", &[name], threads, |command| {
            if measured == Measured::Memory {
                memory::return_freed_memory(command);
            }
        })?;
        let reply = process.ask(&json!({
            "do": "load", "weights": scratch.weights(), "d_model": D_MODEL, "n_heads": N_HEADS,
        }))?;
        let version = reply["version"].as_str().unwrap_or(name).to_string();
        Ok(Self { process, version })
    }

    /// Prepares a case and returns the variant of the library that does it, the fastest if none is
    /// given.
    pub(super) fn prepare(
        &mut self,
        case: &Case,
        tokens: &Path,
        variant: &Value,
    ) -> Result<Value, String> {
        let reply = self.process.ask(&json!({
            "do": "prepare", "op": case.op, "batch": case.batch, "d_model": D_MODEL,
            "tokens": tokens, "causal": case.causal(), "window": case.window(),
            "variant": variant,
        }))?;
        Ok(reply["variant"].clone())
    }
}
