//! Buffers that are used again.
//!
//! What an allocator gets back in large blocks it returns to the system, which hands out each page
//! anew, filled with zeros, when it is next touched. For the outputs of a layer over 1,000 tokens that
//! takes a tenth of the layer's time. So what is handed over by [`recycle`] is kept for the next output
//! of about that size: the most recent of them, and only so many bytes.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::simd::Arithmetic;
use crate::{Real, arena};

/// Smaller ones, in bytes, are as well off with the allocator.
const LEAST: usize = 64 << 10;

/// Bytes that are kept, for each type of number.
const MOST: usize = 64 << 20;

/// Hands over a buffer that is no longer needed, so that the output of a later call may be written
/// into it. At most 64 MiB are kept for each type of number; what has waited longest is freed first.
///
/// # Example
///
/// ```
/// use mha_cpu::{View, linear, recycle};
///
/// let numbers = [1.0_f32; 6];
/// let output = linear(View::contiguous(&numbers, [3, 2])?, View::contiguous(&numbers, [2, 3])?, None)?;
/// assert_eq!(output, [2.0; 9]);
/// recycle(output);
/// # Ok::<(), mha_cpu::Error>(())
/// ```
pub fn recycle<T: Real>(buffer: Vec<T>) {
    T::buffers().keep(buffer);
}

/// Frees the buffers that [`recycle`] keeps, and those that each thread keeps between its tasks.
///
/// # Example
///
/// ```
/// mha_cpu::recycle(vec![0.0_f64; 1 << 20]);
/// mha_cpu::free_buffers();
/// ```
pub fn free_buffers() {
    f32::buffers().free();
    f64::buffers().free();
    arena::free();
    rayon::broadcast(|_| arena::free());
}

/// A buffer of so many numbers, whose values are any.
pub(crate) fn stale<T: Real>(len: usize) -> Vec<T> {
    let mut buffer = T::buffers().take(len).unwrap_or_default();
    buffer.resize(len, T::default());
    buffer
}

/// A buffer of so many zeros.
pub(crate) fn zeros<T: Real>(len: usize) -> Vec<T> {
    match T::buffers().take(len) {
        Some(mut buffer) => {
            buffer.clear();
            buffer.resize(len, T::default());
            buffer
        }
        // The system's pages are zeros already.
        None => vec![T::default(); len],
    }
}

/// A buffer that is handed over when it goes out of scope.
#[derive(Debug, Default)]
pub(crate) struct Recycled<T: Real>(Vec<T>);

impl<T: Real> Recycled<T> {
    pub(crate) fn new(buffer: Vec<T>) -> Self {
        Self(buffer)
    }
}

impl<T: Real> Deref for Recycled<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Real> DerefMut for Recycled<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: Real> Drop for Recycled<T> {
    fn drop(&mut self) {
        recycle(std::mem::take(&mut self.0));
    }
}

/// Buffers that wait, the one that came first in front.
#[doc(hidden)]
#[derive(Debug)]
pub struct Buffers<T>(Mutex<VecDeque<Vec<T>>>);

impl<T> Buffers<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Vec<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free(&self) {
        drop(std::mem::take(&mut *self.waiting()));
    }

    /// The smallest one that holds `len` numbers, unless it is larger than that by more than a quarter.
    fn take(&self, len: usize) -> Option<Vec<T>> {
        if len * size_of::<T>() < LEAST {
            return None;
        }
        let mut waiting = self.waiting();
        let fits = |buffer: &Vec<T>| (len..=len + len / 4).contains(&buffer.capacity());
        let sizes = waiting.iter().enumerate().filter(|(_, buffer)| fits(buffer));
        let (best, _) = sizes.min_by_key(|(_, buffer)| buffer.capacity())?;
        waiting.remove(best)
    }

    fn keep(&self, buffer: Vec<T>) {
        let bytes = |buffer: &Vec<T>| buffer.capacity() * size_of::<T>();
        if !(LEAST..=MOST).contains(&bytes(&buffer)) {
            return;
        }
        let mut freed = Vec::new();
        let mut waiting = self.waiting();
        waiting.push_back(buffer);
        let mut all: usize = waiting.iter().map(bytes).sum();
        while all > MOST {
            let oldest = waiting.pop_front().expect("bytes are of buffers");
            all -= bytes(&oldest);
            freed.push(oldest);
        }
        // The system may take its time, and nobody should wait for it.
        drop(waiting);
        drop(freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: usize = LEAST / size_of::<f32>();

    fn buffer(len: usize) -> Vec<f32> {
        Vec::with_capacity(len)
    }

    #[test]
    fn the_smallest_that_is_large_enough_and_not_much_larger() {
        let buffers = Buffers::new();
        for n in [5 * N, 4 * N + 7, 4 * N, 2 * N] {
            buffers.keep(buffer(n));
        }
        let capacity = |buffer: Option<Vec<f32>>| buffer.map(|buffer| buffer.capacity());
        assert_eq!(capacity(buffers.take(4 * N + 1)), Some(4 * N + 7));
        assert_eq!(capacity(buffers.take(4 * N + 1)), Some(5 * N));
        assert_eq!(capacity(buffers.take(4 * N + 1)), None);
        assert_eq!(capacity(buffers.take(3 * N)), None);
        assert_eq!(capacity(buffers.take(2 * N)), Some(2 * N));
    }

    #[test]
    fn small_and_huge_ones_are_not_kept() {
        let buffers = Buffers::new();
        let huge = MOST / size_of::<f32>() + 1;
        for n in [0, N - 1, huge] {
            buffers.keep(buffer(n));
            assert_eq!(buffers.take(n), None, "{n}");
        }
    }

    #[test]
    fn all_can_be_freed() {
        let buffers = Buffers::new();
        buffers.keep(buffer(N));
        buffers.free();
        assert_eq!(buffers.take(N), None);
    }

    #[test]
    fn what_waited_longest_is_freed_first() {
        let buffers = Buffers::new();
        let half = MOST / size_of::<f32>() / 2;
        for n in [half, half - 1, half - 2] {
            buffers.keep(buffer(n));
        }
        assert_eq!(buffers.take(half), None);
        assert_eq!(buffers.take(half - 1).map(|buffer| buffer.capacity()), Some(half - 1));
        assert_eq!(buffers.take(half - 2).map(|buffer| buffer.capacity()), Some(half - 2));
    }

    #[test]
    fn zeros_are_zeros_whatever_was_there() {
        let mut used = stale::<f64>(N);
        used.fill(f64::NAN);
        recycle(used);
        assert_eq!(zeros::<f64>(N), vec![0.0; N]);
    }
}
