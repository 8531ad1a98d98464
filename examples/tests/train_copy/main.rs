//! The example `train_copy`: its sequences, its command line, and resuming after a kill.

mod data;
mod flags;
#[path = "../program/outcome.rs"]
mod outcome;
#[path = "../program/mod.rs"]
mod program;
mod resume;
mod run;
mod support;

// The example's own modules, compiled into the test as they stand.
#[path = "../../train_copy/epochs.rs"]
mod epochs;
#[path = "../../train_copy/loader.rs"]
mod loader;
#[allow(dead_code, reason = "the test only loads the model, the example also trains it")]
#[path = "../../train_copy/model.rs"]
mod model;
#[allow(dead_code, reason = "the labels are for the example's picture")]
#[path = "../../train_copy/task.rs"]
mod task;
