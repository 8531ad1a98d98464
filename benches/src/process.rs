//! A Python process that answers requests, a line of JSON each.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::turn::Turn;

/// Where the programs that answer lie, beside this package's sources.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/rivals/");

/// The process; it ends when its requests do.
pub(crate) struct Process {
    name: &'static str,
    process: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a program of `rivals/` that may use so many threads, after `prepare` has seen the
    /// command. Messages call it `name`.
    pub(crate) fn start(
        name: &'static str,
        python: &Path,
        program: &str,
        arguments: &[&str],
        threads: usize,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self, String> {
        let threads = threads.to_string();
        let mut command = Command::new(python);
        command
            .arg(format!("{PROGRAMS}{program}"))
            .args(arguments)
            .arg(&threads)
            .env("OMP_NUM_THREADS", &threads)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        prepare(&mut command);
        let mut process = command
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", python.display()))?;
        let (Some(requests), Some(replies)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the process has no pipes".into());
        };
        Ok(Self { name, process, requests: Some(requests), replies: BufReader::new(replies) })
    }

    /// The reply to a request.
    pub(crate) fn ask(&mut self, request: &Value) -> Result<Value, String> {
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

    /// The seconds of each run of a turn.
    pub(crate) fn take_turn(&mut self, turn: Turn) -> Result<Vec<f64>, String> {
        let Turn { seconds, runs } = turn;
        let reply = self.ask(&json!({"do": "turn", "seconds": seconds, "runs": runs}))?;
        let seconds = serde_json::from_value(reply["seconds"].clone());
        seconds.map_err(|error| format!("its seconds are none: {error}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.requests = None; // the end of the requests ends it
        let _ = self.process.wait();
    }
}
