//! How far a conversion is, on a terminal.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use crate::words::bytes;

/// How long a line stays before it is written over.
const INTERVAL: Duration = Duration::from_millis(100);

/// A line on stderr that is written over again; nothing where stderr is no terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    total: u64,
    done: u64,
    /// When the line was last written; none where there is no terminal.
    last: Option<Instant>,
}

impl Progress {
    pub(crate) fn of(total: u64) -> Self {
        Self { total, done: 0, last: stderr().is_terminal().then(Instant::now) }
    }

    /// Takes note of more bytes that are written.
    pub(crate) fn add(&mut self, count: usize) {
        self.done += count as u64;
        if self.last.is_none_or(|last| last.elapsed() < INTERVAL) {
            return;
        }
        let percent = 100.0 * self.done as f64 / self.total.max(1) as f64;
        let (done, total) = (bytes(self.done), bytes(self.total));
        eprint!("\r\x1b[Kconverting: {percent:.0} %, {done} of {total}");
        self.last = Some(Instant::now());
    }
}

/// Leaves an empty line to whatever is printed next, an error too.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.last.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
