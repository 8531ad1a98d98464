//! How much memory a call takes.

use peak_alloc::PeakAlloc;

/// Counts what the process allocates.
#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Bytes of the heap at the peak of `run`, besides those that were there before.
pub(crate) fn peak<R>(run: impl FnOnce() -> R) -> usize {
    mha::free_buffers(); // those of an earlier run would come for nothing
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    let result = run();
    let peak = ALLOCATED.peak_usage();
    drop(result);
    peak.saturating_sub(before)
}
