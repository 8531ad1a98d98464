//! Memory for the time of a task, which each thread keeps for its next one.
//!
//! A task's buffers are a few hundred kilobytes. An allocator gives so much back to the system when the
//! task ends, and gets it again page by page for the next: up to half of the time of a short backward pass.

use std::cell::Cell;

use bumpalo::Bump;

use crate::Real;
use crate::simd::Lanes;

/// Bytes that a thread keeps. The largest tasks, of 4,096 queries with 128 features, take 11 MB. Miri
/// takes minutes to fill so much.
const MOST: usize = if cfg!(miri) { 64 << 10 } else { 16 << 20 };

thread_local! {
    static SPARE: Cell<Option<Bump>> = const { Cell::new(None) };
}

/// Frees what the calling thread keeps.
pub(crate) fn free() {
    drop(SPARE.take());
}

/// Where a task's buffers lie.
#[derive(Debug)]
pub(crate) struct Arena(Bump);

impl Arena {
    /// Of the memory that an earlier task of this thread had, if there was one.
    pub(crate) fn new() -> Self {
        Self(SPARE.take().unwrap_or_default())
    }

    /// Zeros.
    #[inline(always)]
    pub(crate) fn numbers<T: Real>(&self, count: usize) -> &mut [T] {
        self.0.alloc_slice_fill_copy(count, T::default())
    }

    /// Rows of zeros.
    #[inline(always)]
    pub(crate) fn rows<T: Real, L: Lanes<T>, const N: usize>(&self, count: usize) -> &mut [[L; N]] {
        self.0.alloc_slice_fill_copy(count, [L::all(T::default()); N])
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut spare = std::mem::take(&mut self.0);
        spare.reset();
        if spare.allocated_bytes() <= MOST {
            SPARE.set(Some(spare));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that the thread keeps.
    fn kept() -> usize {
        let spare = SPARE.take();
        let bytes = spare.as_ref().map_or(0, Bump::allocated_bytes);
        SPARE.set(spare);
        bytes
    }

    #[test]
    fn the_next_task_gets_zeros_in_the_same_memory() {
        free();
        let mut places = Vec::new();
        for _ in 0..3 {
            let arena = Arena::new();
            let numbers = arena.numbers::<f32>(MOST / 64);
            assert!(numbers.iter().all(|&x| x == 0.0));
            numbers.fill(f32::NAN);
            places.push(numbers.as_ptr());
        }
        assert_eq!(places[1], places[2]);
    }

    #[test]
    fn a_thread_keeps_only_so_much() {
        free();
        Arena::new().numbers::<f64>(MOST / 8);
        assert_eq!(kept(), 0);
        Arena::new().numbers::<f64>(MOST / 16);
        assert!((MOST / 2..=MOST).contains(&kept()));
        free();
        assert_eq!(kept(), 0);
    }
}
