//! How long a call takes.

use std::time::{Duration, Instant};

use burn::tensor::{Tensor, backend::AutodiffBackend};
use mha_examples::statistics::median;

/// How often a call is timed, unless that takes longer than `ENOUGH`.
const RUNS: usize = 5;
const ENOUGH: Duration = Duration::from_secs(3);

/// Median milliseconds of the two passes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) forward_ms: f64,
    pub(crate) backward_ms: f64,
}

/// Times `forward`, which returns the loss, and the backward pass from there. The device has finished
/// when a time is taken.
pub(crate) fn median_ms<B: AutodiffBackend>(
    device: &B::Device,
    forward: impl Fn() -> Tensor<B, 1>,
) -> Result<Times, String> {
    let finish = || B::sync(device).map_err(|error| format!("{error:?}"));
    let begin = Instant::now();
    let [mut forwards, mut backwards] = [Vec::new(), Vec::new()];
    while forwards.len() < RUNS && (forwards.is_empty() || begin.elapsed() < ENOUGH) {
        finish()?;
        let start = Instant::now();
        let loss = forward();
        finish()?;
        let middle = Instant::now();
        let gradients = loss.backward();
        finish()?;
        forwards.push((middle - start).as_secs_f64() * 1e3);
        backwards.push(middle.elapsed().as_secs_f64() * 1e3);
        drop(gradients);
    }
    let of = |times: &[f64]| median(times).expect("it ran at least once");
    Ok(Times { forward_ms: of(&forwards), backward_ms: of(&backwards) })
}
