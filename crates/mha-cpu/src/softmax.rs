//! The softmax over keys that come tile by tile, for as many queries as vectors have lanes.

use std::f64::consts::LN_2;

use crate::Real;
use crate::simd::{Lanes, Simd, exp2};

/// Running softmax of some queries: after any keys, `2^max · sum` is the sum of the exponentials of
/// their scores, and the context, divided by `sum`, the attention over them (Milakov and Gimelshein
/// 2018, algorithm 3: <https://arxiv.org/abs/1805.02867>). Scores are powers of two here: the natural
/// ones times log₂ e.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running<L, const N: usize> {
    /// The largest score, or -∞.
    pub(crate) max: [L; N],
    pub(crate) sum: [L; N],
}

/// The log-sum-exp of scores, given `2^max · sum` as the sum of their exponentials, and what rounding took
/// from it; -∞ if there is nothing.
pub(crate) fn log_sum_exp<T: Real>(max: T, sum: T) -> [T; 2] {
    if sum.to_f64() == 0.0 {
        return [T::from_f64(f64::NEG_INFINITY), T::default()];
    }
    let exact = max.to_f64() * LN_2 + sum.to_f64().ln();
    let rounded = T::from_f64(exact);
    let rest = exact - rounded.to_f64();
    [rounded, T::from_f64(if rest.is_finite() { rest } else { 0.0 })]
}

impl<L, const N: usize> Running<L, N> {
    pub(crate) fn new<T: Real>() -> Self
    where
        L: Lanes<T>,
    {
        let max = [L::all(T::from_f64(f64::NEG_INFINITY)); N];
        Self { max, sum: [L::all(T::default()); N] }
    }

    /// Starts with one more key, of this score and without a value: a sink.
    pub(crate) fn start<T: Real>(&mut self, score: T)
    where
        L: Lanes<T>,
    {
        self.max = [L::all(score); N];
        self.sum = [L::all(T::from_f64(1.0)); N];
    }

    /// Makes of a tile's scores, times `unit`, their exponentials, and adds them to the sum. Returns
    /// what is left of what was summed up before: a factor for each query.
    #[inline(always)]
    pub(crate) fn absorb<T: Real, S: Simd<T, Lanes = L>>(
        &mut self,
        simd: S,
        unit: f64,
        scores: &mut [[L; N]],
    ) -> [S::Vector; N]
    where
        L: Lanes<T>,
    {
        let unit = simd.splat(T::from_f64(unit));
        let none = simd.splat(T::from_f64(f64::NEG_INFINITY));
        let zero = simd.splat(T::default());

        // 1. the largest score of each query, in this tile and before
        let mut largest = [none; N];
        for row in scores.iter() {
            for n in 0..N {
                largest[n] = simd.max(largest[n], simd.load(&row[n]));
            }
        }
        let mut shift = [zero; N];
        let mut decay = [zero; N];
        for n in 0..N {
            let before = simd.load(&self.max[n]);
            let max = simd.max(before, simd.mul(largest[n], unit));
            simd.store(max, &mut self.max[n]);
            // Where nothing was seen, -∞ - -∞ would be NaN; any number will do.
            let least = simd.splat(T::LEAST);
            shift[n] = simd.sub(zero, simd.max(least, max));
            decay[n] = exp2(simd, simd.add(before, shift[n])); // 2. what the older keys keep
        }
        // 3. what each key weighs, and their sum
        let mut sums = [zero; N];
        for row in scores.iter_mut() {
            for n in 0..N {
                let weight = exp2(simd, simd.fma(simd.load(&row[n]), unit, shift[n]));
                simd.store(weight, &mut row[n]);
                sums[n] = simd.add(sums[n], weight);
            }
        }
        for n in 0..N {
            let sum = simd.fma(simd.load(&self.sum[n]), decay[n], sums[n]);
            simd.store(sum, &mut self.sum[n]);
        }
        decay
    }
}
