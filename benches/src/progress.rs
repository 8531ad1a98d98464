//! Lines on standard error that say what is being done.

use std::{
    fmt,
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

/// How long nothing is said after something was.
const INTERVAL: Duration = Duration::from_secs(1);

/// Says what is being done about every second; on a terminal in one line that changes.
#[derive(Debug)]
pub(crate) struct Progress {
    last: Option<Instant>,
    one_line: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { last: None, one_line: io::stderr().is_terminal() }
    }

    /// Says it, unless something was said just now.
    pub(crate) fn say(&mut self, text: fmt::Arguments<'_>) {
        if self.last.is_some_and(|last| last.elapsed() < INTERVAL) {
            return;
        }
        self.last = Some(Instant::now());
        // Whoever reads it may have gone.
        let _ = match self.one_line {
            true => write!(io::stderr(), "\r\x1b[K{text}"),
            false => writeln!(io::stderr(), "{text}"),
        };
    }

    /// Clears the line that changes.
    pub(crate) fn end(&mut self) {
        if self.one_line && self.last.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
