//! Sums over the gradients of scores, or over rows: in a fixed order, without atomics.

use cubecl::prelude::*;

use super::pair::query_position;
use super::{Numbers, exp};

/// One unit for each number of the bias's gradient that this launch's queries reach: the sum of the
/// gradients of all scores to which it was added, put down or added to what is there.
///
/// `d_scores` is `[batch, n_heads, queries, n_keys]`, `out` has the bias's `dims`, row-major.
#[cube(launch_unchecked)]
pub(crate) fn d_bias(
    d_scores: &Array<f32>,
    out: &mut Array<f32>,
    n: &Numbers,
    batch: usize,
    dims: (usize, usize, usize, usize),
    adds: u32,
) {
    let (all_b, all_h, all_i, all_j) = dims;
    // Of this launch; an axis of 1 is summed over.
    let queries = select(all_i == 1, 1, n.queries);
    let at = ABSOLUTE_POS;
    if at < all_b * all_h * queries * all_j {
        let j = at % all_j;
        let i = at / all_j % queries;
        let h = at / all_j / queries % all_h;
        let b = at / all_j / queries / all_h;
        let mut sum = 0.0f32;
        for b in b..select(all_b == 1, batch, b + 1) {
            for h in h..select(all_h == 1, n.n_heads, h + 1) {
                for i in i..select(all_i == 1, n.queries, i + 1) {
                    let row = ((b * n.n_heads + h) * n.queries + i) * n.n_keys;
                    for j in j..select(all_j == 1, n.seq_k, j + 1) {
                        sum += d_scores[row + j];
                    }
                }
            }
        }
        let query = select(all_i == 1, 0, n.first + i);
        let to = ((b * all_h + h) * all_i + query) * all_j + j;
        if adds != 0 {
            sum += out[to];
        }
        out[to] = sum;
    }
}

/// One unit for each distance of each head: the sum over all pairs that far apart.
#[cube(launch_unchecked)]
pub(crate) fn d_relative(
    d_scores: &Array<f32>,
    side: &Array<u32>,
    out: &mut Array<f32>,
    n: &Numbers,
    batch: usize,
    adds: u32,
) {
    let width = 2 * n.reach as usize + 1;
    let at = ABSOLUTE_POS;
    if at < n.n_heads * width {
        let h = at / width;
        let column = at % width;
        let mut sum = 0.0f32;
        for b in 0..batch {
            for i in 0..n.queries {
                let position = query_position(side, n, b, n.first + i) + column as i32 - n.reach;
                // The outer distances stand for all beyond them.
                let start = select(column == 0, 0, keys_before(position, n));
                let end = select(column + 1 == width, n.seq_k, keys_before(position + 1, n));
                let row = ((b * n.n_heads + h) * n.queries + i) * n.n_keys;
                for j in start..end {
                    sum += d_scores[row + j];
                }
            }
        }
        if adds != 0 {
            sum += out[at];
        }
        out[at] = sum;
    }
}

/// How many keys stand before this position.
#[cube]
fn keys_before(position: i32, n: &Numbers) -> usize {
    let position = i32::max(position, 0) as usize;
    let behind = usize::max(select(position > n.gap, position - n.gap, 0), n.gap_after);
    usize::min(select(position <= n.gap_after, position, behind), n.seq_k)
}

/// One unit for each head: the sum over its rows from `first` to `end`, entry by entry, of what their sinks
/// weigh, times their delta, less than 0; added to what is there unless they are the first.
#[cube(launch_unchecked)]
pub(crate) fn d_sink(
    side: &Array<u32>,
    out: &mut Array<f32>,
    n: &Numbers,
    batch: usize,
    first: usize,
    end: usize,
) {
    let h = ABSOLUTE_POS;
    if h < n.n_heads {
        let logit = f32::reinterpret(side[n.sink + h]);
        let all = batch * n.n_heads * n.seq_q;
        let mut sum = 0.0f32;
        for row in first..end {
            let at = n.stats + (row / n.seq_q * n.n_heads + h) * n.seq_q + row % n.seq_q;
            let weight = exp(logit - f32::reinterpret(side[at]));
            let weight = weight * f32::reinterpret(side[at + all]);
            sum -= weight * f32::reinterpret(side[at + 2 * all]);
        }
        if first != 0 {
            sum += out[h];
        }
        out[h] = sum;
    }
}
