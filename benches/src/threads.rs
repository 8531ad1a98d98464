//! As many threads as asked for, in every library.

use std::{
    io,
    process::{Command, ExitCode},
};

/// What the thread pools in this process read when they start: rayon's, which `gemm`, Burn and candle
/// use, and matrixmultiply's, which Burn's NdArray uses.
const VARIABLES: [&str; 2] = ["RAYON_NUM_THREADS", "MATMUL_NUM_THREADS"];

/// Threads that the machine has.
pub(crate) fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Whether the pools of this process will have so many threads.
pub(crate) fn are_set(threads: usize) -> bool {
    let expected = threads.to_string();
    VARIABLES.iter().all(|variable| std::env::var(variable).as_ref() == Ok(&expected))
}

/// Starts this program again with so many threads, and waits for it.
pub(crate) fn run_again_with(threads: usize) -> Result<ExitCode, String> {
    let start = |error: io::Error| format!("cannot start with {threads} threads: {error}");
    let mut command = Command::new(std::env::current_exe().map_err(start)?);
    command.args(std::env::args_os().skip(1));
    command.envs(VARIABLES.map(|variable| (variable, threads.to_string())));
    let status = command.status().map_err(start)?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
