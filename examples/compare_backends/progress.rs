//! Which configuration is being compared, on a terminal.

use std::io::{IsTerminal, stderr};

/// A line on stderr that is written over again; nothing where stderr is no terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    all: usize,
    shown: bool,
}

impl Progress {
    pub(crate) fn new(all: usize) -> Self {
        Self { all, shown: stderr().is_terminal() }
    }

    /// Shows the configuration with this index.
    pub(crate) fn show(&self, index: usize, name: &str) {
        if self.shown {
            eprint!("\r\x1b[Kcomparing {} of {}: {name}", index + 1, self.all);
        }
    }
}

/// Leaves an empty line to whatever is printed next, an error too.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}
