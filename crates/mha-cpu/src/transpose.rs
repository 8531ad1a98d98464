//! From rows of features to lanes of queries, and back: squares of as many rows as a vector has lanes.

use std::ops::Range;

use rayon::prelude::*;

use crate::buffers::stale;
use crate::product::Row;
use crate::simd::{Isa, Kernel, Lanes, Simd};
use crate::{Real, View};

/// How many rows hold `features` in whole vectors, piece by piece: a piece is `N` vectors of features of
/// as many queries as the lanes of a tile.
pub(crate) fn rows_of_pieces<T: Real, S: Simd<T>, const N: usize>(features: usize) -> usize {
    features.div_ceil(N * S::LANES) * N * S::LANES
}

/// Copies rows of a head into pieces: feature d of row r to `to[piece of d][r]`. What is not there keeps
/// what it had.
#[inline(always)]
pub(crate) fn into_pieces<T: Real, S: Simd<T>, const N: usize>(
    view: &View<'_, T, 4>,
    [b, head]: [usize; 2],
    rows: Range<usize>,
    scratch: &mut [T],
    to: &mut [Row<T, S, N>],
) {
    let lanes = N * S::LANES;
    for (at, i) in rows.enumerate() {
        let row = view.row([b, i, head, 0], scratch);
        for (features, piece) in row.chunks(lanes).zip(to.chunks_exact_mut(lanes)) {
            for (features, vector) in features.chunks(S::LANES).zip(&mut piece[at]) {
                vector.copy_from(features);
            }
        }
    }
}

/// From pieces to lanes: feature d of row r to lane r of `to[d]`.
#[inline(always)]
pub(crate) fn pieces_into_lanes<T: Real, S: Simd<T>, const N: usize>(
    simd: S,
    pieces: &[Row<T, S, N>],
    to: &mut [Row<T, S, N>],
) {
    let lanes = N * S::LANES;
    for (piece, to) in pieces.chunks_exact(lanes).zip(to.chunks_mut(lanes)) {
        for (v, rows) in piece.chunks_exact(S::LANES).enumerate() {
            for (n, to) in to.chunks_mut(S::LANES).enumerate() {
                let mut square = [simd.splat(T::default()); LARGEST];
                for (side, row) in square.iter_mut().zip(rows) {
                    *side = simd.load(&row[n]);
                }
                transpose(simd, &mut square);
                for (to, side) in to.iter_mut().zip(square) {
                    simd.store(side, &mut to[v]);
                }
            }
        }
    }
}

/// From lanes to rows of features: lane r of `from[d]` to feature d of the r-th row.
#[inline(always)]
pub(crate) fn lanes_into_rows<T: Real, S: Simd<T>, const N: usize>(
    simd: S,
    from: &[Row<T, S, N>],
    rows: &mut [&mut [T]],
) {
    for (v, rows) in rows.chunks_mut(S::LANES).enumerate() {
        for (n, from) in from.chunks(S::LANES).enumerate() {
            let mut square = [simd.splat(T::default()); LARGEST];
            for (side, features) in square.iter_mut().zip(from) {
                *side = simd.load(&features[v]);
            }
            transpose(simd, &mut square);
            for (row, side) in rows.iter_mut().zip(square) {
                let Some(row) = row.get_mut(n * S::LANES..) else { break };
                simd.store_to(side, row);
            }
        }
    }
}

/// Rows of `width` numbers, `stride` apart, as columns: `[width, rows]`, row-major.
pub(crate) fn transposed<T: Real>(from: &[T], [rows, width]: [usize; 2], stride: usize) -> Vec<T> {
    /// Columns of a task.
    const STRIP: usize = 64;
    let mut all = stale(rows * width);
    all.par_chunks_mut((STRIP * rows).max(1)).enumerate().for_each(|(strip, to)| {
        let first = strip * STRIP;
        T::dispatch(Isa::best(), Transpose { from, rows, stride, first, to });
    });
    all
}

/// Some columns, from the first on, into rows.
struct Transpose<'a, T> {
    from: &'a [T],
    rows: usize,
    stride: usize,
    first: usize,
    to: &'a mut [T],
}

impl<T: Real> Kernel<T> for Transpose<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd<T>, const M: usize, const N: usize>(self, simd: S) {
        let Self { from, rows, stride, first, to } = self;
        let width = to.len() / rows;
        for column in (0..width).step_by(S::LANES) {
            let columns = S::LANES.min(width - column);
            for row in (0..rows).step_by(S::LANES) {
                let mut square = [simd.splat(T::default()); LARGEST];
                for (side, row) in square.iter_mut().zip(row..rows.min(row + S::LANES)) {
                    *side = simd.load_from(&from[row * stride + first + column..][..columns]);
                }
                transpose(simd, &mut square);
                for (n, side) in square.into_iter().enumerate().take(columns) {
                    simd.store_to(
                        side,
                        &mut to[(column + n) * rows + row..][..S::LANES.min(rows - row)],
                    );
                }
            }
        }
    }
}

/// Lanes of the longest vector.
const LARGEST: usize = 16;

/// Transposes the square of the first `LANES` vectors: each round interleaves the first half of them
/// with the second, a perfect shuffle.
#[inline(always)]
fn transpose<T: Real, S: Simd<T>>(simd: S, square: &mut [S::Vector; LARGEST]) {
    let half = S::LANES / 2;
    let mut rounds = 1;
    while rounds < S::LANES {
        let old = *square;
        for n in 0..half {
            [square[2 * n], square[2 * n + 1]] = simd.interleave(old[n], old[n + half]);
        }
        rounds *= 2;
    }
}
