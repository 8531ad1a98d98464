//! Running the example as a user would.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub(crate) use crate::outcome::{fail, names, succeed};
use crate::{outcome, program::example};

/// The folder of a golden layer.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/weights").join(name)
}

/// The file of a golden layer.
pub(crate) fn model(name: &str) -> PathBuf {
    fixture(name).join("model.safetensors")
}

/// The example with these arguments; its output can be read.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = example("mha-weights");
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn inspect(file: &Path, flags: &[&str]) -> Command {
    let mut command = command(&["inspect"]);
    command.arg(file).args(flags);
    command
}

pub(crate) fn convert(file: &Path, to: &str, out: &Path, flags: &[&str]) -> Command {
    let mut command = command(&["convert", "--to", to]);
    command.arg(file).arg(out).args(flags);
    command
}

/// Verifies on NdArray.
pub(crate) fn verify(file: &Path, case: &Path, flags: &[&str]) -> Command {
    let mut command = command(&["verify", "--backend", "ndarray"]);
    command.arg(file).arg("--against").arg(case).args(flags);
    command
}

/// A directory of this test's own, which is empty.
pub(crate) fn empty_dir(name: &str) -> PathBuf {
    let dir = outcome::fresh_dir("mha_weights", name);
    fs::create_dir(&dir).unwrap();
    dir
}

/// Runs to the end with status 1 and returns the one sentence that it says.
pub(crate) fn sentence(command: Command) -> String {
    let stderr = fail(command, 1);
    assert!(stderr.starts_with("error: ") && stderr.lines().count() == 1, "{stderr}");
    stderr
}

/// A safetensors file with this header and so many bytes of zeros behind it.
pub(crate) fn write_header(file: &Path, header: &str, zeros: usize) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + zeros, 0);
    fs::write(file, bytes).unwrap();
}
