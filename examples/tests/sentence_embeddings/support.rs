//! Running the example as a user would.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub(crate) use crate::outcome::{fail, names, succeed};
use crate::{outcome, program::example};

/// A directory of this test's own, which does not exist yet.
pub(crate) fn fresh_dir(name: &str) -> PathBuf {
    outcome::fresh_dir("sentence_embeddings", name)
}

/// The example with the model in `dir` and more flags; its output can be read.
pub(crate) fn command(dir: &Path, more: &[&str]) -> Command {
    let mut command = example("sentence_embeddings");
    command.args(["--backend", "ndarray", "--model"]).arg(dir).args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Replaces the only `old` in a file by `new`.
pub(crate) fn edit(file: &Path, old: &str, new: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert_eq!(text.matches(old).count(), 1, "{old:?} in {text}");
    fs::write(file, text.replace(old, new)).unwrap();
}
