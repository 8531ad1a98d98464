//! Where the gradients of scores go: sums over queries, and over whatever shares a bias.

use std::ops::Range;

use super::Shared;
use super::block::Block;
use super::derive::Tile;
use super::partial::Partial;
use crate::product::{Row, add_lanes, lane as lane_of, load, store};
use crate::simd::{Lanes, Simd};
use crate::{Real, Wanted};

/// Adds to `to`, `[piece of features][key]` with room for `height` keys, the products of the first
/// `count` rows of a tile with those of the queries.
#[inline(always)]
pub(crate) fn sum_over_queries<T: Real, S: Simd<T>, const M: usize, const N: usize>(
    simd: S,
    tile: &[Row<T, S, N>],
    queries: &[Row<T, S, N>],
    (count, height): (usize, usize),
    to: &mut [Row<T, S, N>],
) {
    let pieces = queries.chunks_exact(N * S::LANES).zip(to.chunks_exact_mut(height));
    for (queries, to) in pieces {
        let panels = tile.as_chunks::<M>().0.iter().take(count.div_ceil(M));
        for (panel, to) in panels.zip(to.as_chunks_mut::<M>().0) {
            let mut sums = load::<T, S, M, N>(simd, to);
            add_lanes::<T, S, M, N>(simd, &mut sums, panel, queries);
            store::<T, S, M, N>(simd, sums, to);
        }
    }
}

/// From `[piece of features][key]`, with room for `height` keys, to rows of `width` features.
#[inline(always)]
pub(crate) fn out_of_pieces<T: Real, S: Simd<T>, const N: usize>(
    pieces: &[Row<T, S, N>],
    (keys, height): (&Range<usize>, usize),
    width: usize,
    to: &mut [T],
) {
    for (n, piece) in pieces.chunks_exact(height).enumerate() {
        for (row, j) in piece.iter().zip(keys.clone()) {
            let to = &mut to[j * width..][..width][n * N * S::LANES..];
            for (to, lanes) in to.chunks_mut(S::LANES).zip(row) {
                lanes.copy_to(to);
            }
        }
    }
}

/// Adds ds to the gradients of the biases. `d_bias`: the rows of the block's queries, if they have some.
#[inline(always)]
pub(crate) fn add_to_biases<T: Real, S: Simd<T>, const N: usize>(
    tile: &Tile<'_, T>,
    of_group: usize,
    block: &Block<'_, T, S, N>,
    d_scores: &[Row<T, S, N>],
    d_bias: &mut [&mut [T]],
    partial: &mut Partial<T>,
) {
    let &Tile { shared, b, ref keys, .. } = tile;
    let Shared { tiles, plan, wanted: Wanted { bias, relative, .. }, .. } = shared;
    let keys = keys.start..keys.end.min(tiles.sizes.seq_k);
    let width = plan.row_width();
    let slot = plan.slot(of_group);
    for (lane, i) in block.rows.clone().enumerate() {
        let d_score = |n: usize| lane_of::<T, S, N>(&d_scores[n], lane);
        if *bias && width > 0 {
            let row = match d_bias.get_mut(lane) {
                Some(row) => row,
                None => &mut partial.bias[slot * width..][..width],
            };
            for (n, j) in keys.clone().enumerate() {
                let place = &mut row[if width == 1 { 0 } else { j }];
                *place = *place + d_score(n);
            }
        }
        if let Some(all) = tiles.call.relative.filter(|_| *relative) {
            let row = &mut partial.relative[of_group * all.width()..][..all.width()];
            for (n, j) in keys.clone().enumerate() {
                let distance = tiles.call.positions.distance(b, i, j);
                let place = &mut row[all.index(distance)];
                *place = *place + d_score(n);
            }
        }
    }
}
