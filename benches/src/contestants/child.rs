//! A Python process that answers requests, a line of JSON each.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    case::{Case, D_MODEL, N_HEADS},
    implementation::Implementation,
    memory,
    scratch::Scratch,
};

/// The program that answers, which lies beside this package's sources.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/rivals/main.py");

/// What a process is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    Time,
    Memory,
}

/// The process; it ends when its requests do.
pub(super) struct PythonChild {
    name: &'static str,
    process: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
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
        let mut command = Command::new(python);
        if measured == Measured::Memory {
            memory::return_freed_memory(&mut command);
        }
        let mut process = command
            .arg(PROGRAM)
            .arg(name)
            .arg(threads.to_string())
            .env("OMP_NUM_THREADS", threads.to_string())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", python.display()))?;
        let (Some(requests), Some(replies)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the process has no pipes".into());
        };
        let replies = BufReader::new(replies);
        let version = String::new();
        let mut child = Self { name, process, requests: Some(requests), replies, version };
        let reply = child.ask(&json!({
            "do": "load", "weights": scratch.weights(), "d_model": D_MODEL, "n_heads": N_HEADS,
        }))?;
        child.version = reply["version"].as_str().unwrap_or(name).to_string();
        Ok(child)
    }

    /// Prepares a case and returns the variant of the library that does it, the fastest if none is
    /// given.
    pub(super) fn prepare(
        &mut self,
        case: &Case,
        tokens: &Path,
        variant: &Value,
    ) -> Result<Value, String> {
        let reply = self.ask(&json!({
            "do": "prepare", "op": case.op, "batch": case.batch, "d_model": D_MODEL,
            "tokens": tokens, "causal": case.causal(), "window": case.window(),
            "variant": variant,
        }))?;
        Ok(reply["variant"].clone())
    }

    /// The reply to a request.
    pub(super) fn ask(&mut self, request: &Value) -> Result<Value, String> {
        let gone = |error| format!("{} does not answer: {error}", self.name);
        let requests = self.requests.as_mut().expect("it is there until the end");
        writeln!(requests, "{request}").map_err(gone)?;
        let mut line = String::new();
        if self.replies.read_line(&mut line).map_err(gone)? == 0 {
            return Err(format!("{} ended without an answer", self.name));
        }
        let reply: Value = serde_json::from_str(&line)
            .map_err(|error| format!("{} answers no JSON: {error}", self.name))?;
        match reply["error"].as_str() {
            Some(error) => Err(error.to_string()),
            None => Ok(reply),
        }
    }
}

impl Drop for PythonChild {
    fn drop(&mut self) {
        self.requests = None; // the end of the requests ends it
        let _ = self.process.wait();
    }
}
