//! Finding the example that a test runs.

use std::{env, process::Command};

/// The example `name`, ready to be run.
///
/// Cargo puts examples beside the folder of the test programs: target/PROFILE/deps has this test,
/// target/PROFILE/examples the example.
pub(crate) fn example(name: &str) -> Command {
    let test = env::current_exe().expect("a test has a path");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/test");
    let program = profile.join("examples").join(format!("{name}{}", env::consts::EXE_SUFFIX));
    assert!(
        program.exists(),
        "{} is missing: a plain `cargo test` builds it, with `--test` build the example first",
        program.display()
    );
    Command::new(program)
}
