//! How fast memory is read.

use std::{hint::black_box, time::Instant};

use rayon::prelude::*;

/// More than any cache holds, in bytes.
pub(super) const BYTES: usize = 512 << 20;

/// What one thread sums at a time: 1 MB.
const CHUNK: usize = 1 << 17;

/// Sums a large vector, with all threads.
pub(super) fn read() -> impl FnMut() -> Result<f64, String> {
    let numbers: Vec<u64> = (0..(BYTES / size_of::<u64>()) as u64).collect();
    move || {
        let begin = Instant::now();
        let sum = numbers.par_chunks(CHUNK).map(sum).reduce(|| 0, u64::wrapping_add);
        black_box(sum);
        Ok(begin.elapsed().as_secs_f64())
    }
}

fn sum(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |sum, &number| sum.wrapping_add(number))
}
