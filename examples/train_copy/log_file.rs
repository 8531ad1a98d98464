//! burn-train's log file, without what it prints of a panic.

use std::{panic, path::Path};

use burn::train::{ApplicationLoggerInstaller, FileApplicationLoggerInstaller};

/// Logs to `experiment.log`. burn-train's own installer also has every panic printed as a notice of three
/// lines; whoever runs the training says in a sentence what went wrong.
pub(crate) struct LogFile(FileApplicationLoggerInstaller);

impl LogFile {
    pub(crate) fn in_dir(dir: &Path) -> Self {
        Self(FileApplicationLoggerInstaller::new(dir.join("experiment.log")))
    }
}

impl ApplicationLoggerInstaller for LogFile {
    fn install(&self) -> Result<(), String> {
        let hook = panic::take_hook();
        let installed = self.0.install();
        panic::set_hook(hook);
        installed
    }
}
