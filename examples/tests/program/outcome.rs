//! What a run of an example printed and left.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A directory for the test `name` of `example`, which does not exist yet.
pub(crate) fn fresh_dir(example: &str, name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(example).join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir).unwrap();
    }
    fs::create_dir_all(dir.parent().unwrap()).unwrap();
    dir
}

/// Runs to the end and returns stdout; the run must succeed.
pub(crate) fn succeed(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    stdout(&output)
}

/// Runs to the end and returns stderr; the run must fail with status `code` and without a panic.
pub(crate) fn fail(mut command: Command, code: i32) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains("panic"), "{stderr}");
    stderr
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Names in `dir`, sorted; none when it is missing.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
