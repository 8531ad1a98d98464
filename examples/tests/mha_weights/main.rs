//! The example `mha-weights`: what it says of a file, what it writes, and what it verifies.

mod convert;
mod damaged;
mod inspect;
mod kept;
#[path = "../program/outcome.rs"]
mod outcome;
#[path = "../program/mod.rs"]
mod program;
mod support;
mod verify;

// The example's own module, compiled into the test as it stands.
#[allow(dead_code, reason = "the example prints what layers have in common")]
#[path = "../../mha_weights/group.rs"]
mod group;
