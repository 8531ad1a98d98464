//! Running the example as a user would.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub(crate) use crate::outcome::{fail, names, succeed};
use crate::{outcome, program::example};

/// Sizes small enough that a run takes about a second.
const TINY: [&str; 13] = [
    "--steps=10",
    "--batch-size=4",
    "--learning-rate=0.01",
    "--dropout=0.1",
    "--context=8",
    "--d-model=8",
    "--heads=4",
    "--kv-heads=2",
    "--layers=2",
    "--tokens=30",
    "--seed=7",
    "--backend=ndarray",
    "--temperature=0.9",
];

/// A directory of this test's own, which does not exist yet.
pub(crate) fn fresh_dir(name: &str) -> PathBuf {
    outcome::fresh_dir("tiny_lm", name)
}

/// The example with `args`; its output can be read.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = example("tiny_lm");
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The [`TINY`] example with its model in `dir`, a small text, and more flags.
pub(crate) fn tiny(dir: &Path, more: &[&str]) -> Command {
    let text = dir.with_extension("txt");
    text_file(&text, &"The fox saw the hare.\n".repeat(20));
    let mut command = command(&TINY);
    command.arg("--text").arg(text).arg("--out").arg(dir).args(more);
    command
}

/// Writes with the model in `dir`.
pub(crate) fn again(dir: &Path, more: &[&str]) -> Command {
    let mut command = command(&["--backend=ndarray", "--seed=7", "--temperature=0.9"]);
    command.arg("--generate").arg(dir).arg("--tokens=30").args(more);
    command
}

pub(crate) fn text_file(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
}

/// What a run wrote: between the empty lines around it.
pub(crate) fn written(output: &str) -> &str {
    let speed = output.find(" characters with").expect(output);
    let end = output[..speed].rfind("\n\n").expect(output);
    let begin = output.find("picture of the loss: ").unwrap_or(0);
    let begin = begin + output[begin..].find('\n').unwrap();
    &output[begin + 1..end]
}
