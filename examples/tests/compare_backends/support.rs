//! Running the example as a user would.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{outcome, program::example};

/// The example on NdArray with more flags; its output can be read.
pub(crate) fn command(flags: &[&str]) -> Command {
    let mut command = example("compare_backends");
    command.args(["--backend", "ndarray"]).args(flags);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A directory of this test's own, which is empty.
pub(crate) fn empty_dir(name: &str) -> PathBuf {
    let dir = outcome::fresh_dir("compare_backends", name);
    fs::create_dir(&dir).unwrap();
    dir
}

pub(crate) fn read_json(file: &std::path::Path) -> Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// The numbers of a last line of the right form: worst, allowed, comparisons, backends.
pub(crate) fn last_line(stdout: &str) -> [f64; 4] {
    let last = stdout.lines().last().expect("it prints lines");
    let words: Vec<_> = last.split(' ').collect();
    let numbers = [2, 8, 9, 11].map(|at| words[at].trim_matches([')', ',']).parse().unwrap());
    let [worst, allowed, comparisons, backends] = numbers;
    let form = format!(
        "worst error: {worst:.1} times the textbook error (allowed {allowed:.1}), \
         {comparisons} comparisons, {backends} backends"
    );
    assert_eq!(last, form);
    numbers
}
