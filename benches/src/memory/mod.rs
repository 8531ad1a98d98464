//! Peak memory: how far one run raises it above what was resident before.
//!
//! Linux keeps the peak of a process and can set it back. Each figure comes from a process of its own,
//! in which a small case has started threads and libraries and the weights and tokens are there.

mod proc;
mod room;

use std::{io, process::Command};

use crate::{
    case::Case,
    data::{self, Weights},
    implementation::Implementation,
    layers,
};

pub(crate) use room::too_much;

/// The hidden flag that turns this program into such a process, before an implementation's name and
/// a case.
const FLAG: &str = "--peak-of";

/// Tokens of the case before the one that is measured.
const WARM_UP_LENGTH: usize = 16;

/// Whether this system tells.
pub(crate) fn can_be_measured() -> Result<(), String> {
    match cfg!(target_os = "linux") {
        true => Ok(()),
        false => Err("only Linux tells the peak of a process and sets it back".into()),
    }
}

/// A small case that starts all that `case` needs.
pub(crate) fn warm_up_case(case: &Case) -> Case {
    Case { batch: 1, length: WARM_UP_LENGTH, ..*case }
}

/// Makes a process that is to be started give freed memory back, so that none is used again unseen.
///
/// Only where memory is what is measured: it costs time.
pub(crate) fn return_freed_memory(command: &mut Command) -> &mut Command {
    command.env("MALLOC_MMAP_THRESHOLD_", "65536").env("MALLOC_TRIM_THRESHOLD_", "65536")
}

/// Measures in a new process, in MB.
pub(crate) fn peak_in_fresh_process(
    implementation: Implementation,
    case: &Case,
) -> Result<f64, String> {
    let start = |error: io::Error| format!("cannot start a process to measure in: {error}");
    let mut command = Command::new(std::env::current_exe().map_err(start)?);
    let output = return_freed_memory(&mut command)
        .args([FLAG, implementation.name(), &case.to_string()])
        .output()
        .map_err(start)?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| match output.status.success() {
        true => format!("no number of MB: {text:?}"),
        false => format!("{} {}", output.status, String::from_utf8_lossy(&output.stderr).trim()),
    })
}

/// Measures in this process, in MB.
pub(crate) fn peak_here(implementation: Implementation, case: &Case) -> Result<f64, String> {
    let weights = Weights::draw();
    let small = warm_up_case(case);
    layers::prepare(implementation, &small, &weights, &data::tokens(&small))?.run()?;

    let mut step = layers::prepare(implementation, case, &weights, &data::tokens(case))?;
    mha::free_buffers();
    let before = proc::reset_peak().map_err(|error| format!("peak memory: {error}"))?;
    step.run()?;
    Ok(proc::peak_mb().map_err(|error| format!("peak memory: {error}"))? - before)
}
