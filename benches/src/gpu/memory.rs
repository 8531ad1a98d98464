//! What the device reserves for a training step, in a process of its own: the device's memory pools
//! never tell a peak.

use std::process::Command;

use burn::backend::wgpu::WgpuRuntime;
use burn::cubecl::Runtime;
use mha::Path;

use super::work;

/// The hidden flag that turns this program into such a process, before the number of tokens.
const FLAG: &str = "--reserved-by";

/// In MB, after a training step and before it.
pub(super) fn in_fresh_process(tokens: usize) -> Result<[f64; 2], String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args(["--backend", "wgpu", FLAG, &tokens.to_string()])
        .output()
        .map_err(|error| format!("cannot start a process to measure in: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let error = || format!("{} {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    numbers.try_into().map_err(|_| error())
}

/// The two numbers of this process, with our kernels.
pub(super) fn here(tokens: usize) -> Result<String, String> {
    let reserved = || {
        let usage = WgpuRuntime::client(&Default::default()).memory_usage();
        usage.map(|usage| usage.bytes_reserved as f64 / 1e6).map_err(|error| format!("{error:?}"))
    };
    let (layer, tokens) = work::layer(tokens);
    let _ = tokens.clone().sum().into_scalar();
    let before = reserved()?;
    work::wait_for(&work::train_step(&layer, &tokens, Path::Fused));
    Ok(format!("{} {before}", reserved()?))
}
