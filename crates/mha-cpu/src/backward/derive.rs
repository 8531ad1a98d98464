//! The scores of one tile, and their gradients.

use std::ops::Range;

use super::Shared;
use super::block::Block;
use crate::Real;
use crate::forward::{drop_weights, scores_of};
use crate::product::Row;
use crate::simd::{Lanes, Simd, exp2};
use crate::tile::{KEYS, Padded};

/// Some queries of an entry by some keys.
pub(crate) struct Tile<'a, T> {
    pub(crate) shared: &'a Shared<'a, T>,
    pub(crate) b: usize,
    pub(crate) keys: Range<usize>,
    /// Whether pairs are hidden that the scratch's bits tell.
    pub(crate) masked: bool,
}

/// The scores of a tile, and what becomes of them: a row for each key.
pub(crate) struct Scratch<'a, T: Real, S: Simd<T>, const N: usize> {
    /// Scores, then weights, then what dropout left of them.
    pub(crate) weights: &'a mut [Row<T, S, N>],
    /// dp, then ds.
    pub(crate) d_scores: &'a mut [Row<T, S, N>],
    pub(crate) slopes: &'a mut [Row<T, S, N>],
    /// Biases, then factors of dropout.
    pub(crate) extra: &'a mut [Row<T, S, N>],
    pub(crate) bits: [u32; KEYS],
}

/// The scores of a tile, but for their unit, into `weights`.
#[inline(always)]
pub(crate) fn weigh<T: Real, S: Simd<T>, const M: usize, const N: usize>(
    simd: S,
    tile: &Tile<'_, T>,
    block: &Block<'_, T, S, N>,
    key: &Padded<'_, T>,
    scratch: &mut Scratch<'_, T, S, N>,
) {
    let Tile { shared: Shared { tiles, .. }, b, keys, masked } = tile;
    let Scratch { weights, slopes, extra, bits, .. } = scratch;
    scores_of::<T, S, M, N>(simd, key, keys.len(), block.query, weights);
    let has_extra = !tiles.extras.is_none();
    if has_extra {
        tiles.extras.write::<S, N>([*b, block.h], &block.rows, keys, extra);
    }
    let extra = has_extra.then(|| &extra[..keys.len()]);
    let slopes = (!slopes.is_empty()).then_some(&mut slopes[..]);
    let bits = masked.then_some(&bits[..keys.len()]);
    let weights = &mut weights[..keys.len()];
    tiles.scoring().apply(simd, weights, slopes, extra, bits);
}

/// Makes weights of scores, and ds of dp if it is wanted.
#[inline(always)]
pub(crate) fn derive<T: Real, S: Simd<T>, const N: usize>(
    simd: S,
    tile: &Tile<'_, T>,
    block: &Block<'_, T, S, N>,
    scratch: &mut Scratch<'_, T, S, N>,
) {
    let &Tile { shared: Shared { tiles, wanted, .. }, b, ref keys, masked } = tile;
    let Scratch { weights, d_scores, extra, bits, .. } = scratch;
    let unit = simd.splat(T::from_f64(tiles.scoring().unit()));
    let zero = simd.splat(T::default());
    let mut shift = [zero; N];
    let mut factor = [zero; N];
    let mut delta = [zero; N];
    for n in 0..N {
        shift[n] = simd.load(&block.shift[n]);
        factor[n] = simd.load(&block.factor[n]);
        delta[n] = simd.load(&block.delta[n]);
    }
    let dropout = tiles.call.dropout.as_ref();
    if let Some(dropout) = dropout {
        let factors = &mut extra[..keys.len()];
        factors.fill([S::Lanes::all(T::from_f64(1.0)); N]);
        drop_weights::<T, S, N>(dropout, [b, block.h], &block.rows, keys, factors);
    }
    let mut sums = [zero; N];
    for weights in &mut weights[..keys.len()] {
        for n in 0..N {
            let weight = exp2(simd, simd.fma(simd.load(&weights[n]), unit, shift[n]));
            let weight = simd.mul(weight, factor[n]);
            sums[n] = simd.add(sums[n], weight);
            simd.store(weight, &mut weights[n]);
        }
    }
    // Where all keys are in one tile, weights and δ are those of the textbook, of the very numbers
    // that they are taken from: what few keys leave of a difference is small.
    let whole = keys.len() == tiles.sizes.n_keys;
    if whole {
        normalize::<T, S, N>(simd, block, sums, &mut weights[..keys.len()]);
    }
    let d_rows = if wanted.needs_d_scores() { keys.len() } else { 0 };
    let mut sums = [zero; N];
    for row in 0..d_rows {
        let (weights, d_scores) = (&weights[row], &mut d_scores[row]);
        for n in 0..N {
            let mut d_weight = simd.load(&d_scores[n]);
            if dropout.is_some() {
                d_weight = simd.mul(d_weight, simd.load(&extra[row][n]));
            }
            if masked {
                // 0 times what overflowed would be NaN.
                d_weight = simd.select(bits[row] >> (n * S::LANES), d_weight, zero);
            }
            sums[n] = simd.fma(simd.load(&weights[n]), d_weight, sums[n]);
            simd.store(d_weight, &mut d_scores[n]);
        }
    }
    if whole {
        delta = sums;
    }
    for row in 0..d_rows {
        let (weights, d_scores) = (&weights[row], &mut d_scores[row]);
        for n in 0..N {
            let d_score =
                simd.mul(simd.load(&weights[n]), simd.sub(simd.load(&d_scores[n]), delta[n]));
            simd.store(d_score, &mut d_scores[n]);
        }
    }
    if dropout.is_some() {
        for (weights, extra) in weights[..keys.len()].iter_mut().zip(extra.iter()) {
            for n in 0..N {
                let kept = simd.mul(simd.load(&weights[n]), simd.load(&extra[n]));
                simd.store(kept, &mut weights[n]);
            }
        }
    }
}

/// Divides weights by their sum, with that of the sink.
#[inline(always)]
fn normalize<T: Real, S: Simd<T>, const N: usize>(
    simd: S,
    block: &Block<'_, T, S, N>,
    sums: [S::Vector; N],
    weights: &mut [Row<T, S, N>],
) {
    let least = simd.splat(T::from_f64(f32::MIN_POSITIVE.into()));
    let mut sums = sums;
    for (sum, sink) in sums.iter_mut().zip(&block.sink) {
        // Queries that see nothing have weights of 0, and a sum of 0.
        *sum = simd.max(least, simd.add(*sum, simd.load(sink)));
    }
    for weights in weights {
        for n in 0..N {
            simd.store(simd.div(simd.load(&weights[n]), sums[n]), &mut weights[n]);
        }
    }
}

/// From the gradient of capped scores to that of scores.
#[inline(always)]
pub(crate) fn uncap<T: Real, S: Simd<T>, const N: usize>(
    simd: S,
    scratch: &mut Scratch<'_, T, S, N>,
    count: usize,
) {
    let rows = scratch.d_scores[..count].iter_mut().flatten();
    for (d_score, slope) in rows.zip(scratch.slopes.iter().flatten()) {
        simd.store(simd.mul(simd.load(d_score), simd.load(slope)), d_score);
    }
}
