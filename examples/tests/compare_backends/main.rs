//! The example `compare_backends`: what it prints, files of the user's own, and wrong numbers.

mod files;
#[allow(dead_code, reason = "no run of this example leaves a directory to list")]
#[path = "../program/outcome.rs"]
mod outcome;
#[path = "../program/mod.rs"]
mod program;
mod run;
mod support;
mod wrong;

// The example's own modules, compiled into the test as they stand.
#[path = "../../compare_backends/judge.rs"]
mod judge;
#[path = "../../compare_backends/record.rs"]
mod record;
#[path = "../../compare_backends/report.rs"]
mod report;
#[path = "../../compare_backends/timing.rs"]
#[allow(dead_code, reason = "the test fills in times, the example takes them")]
mod timing;
