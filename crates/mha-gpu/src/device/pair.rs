//! What becomes of the score of one pair of query and key.
//!
//! An option is a loop that runs once or not at all: a device that computes both sides of an `if`
//! still skips a loop.

use cubecl::prelude::*;

use super::{Numbers, exp};

/// The score that goes into the softmax, given the scaled product: capped, with all biases, and -∞ for
/// a hidden pair.
#[cube]
pub(super) fn score(
    product: f32,
    side: &Array<u32>,
    bias: &Array<f32>,
    n: &Numbers,
    b: usize,
    h: usize,
    i: usize,
    j: usize,
) -> f32 {
    let mut score = product;
    for _ in 0..n.caps {
        score = n.cap * tanh(product / n.cap);
    }
    let memory = j >= n.seq_k;
    let extra = select(memory, 0.0f32, extra(side, bias, n, b, h, i, j));
    select(sees(side, n, b, h, i, j), score + extra, n.hidden)
}

/// The derivative of the capped score by the product: 4 p / (1 + p)² with p = e^(-2 |x|), where 1 - tanh² x
/// would be the difference of two numbers near 1.
#[cube]
pub(super) fn slope(product: f32, n: &Numbers) -> f32 {
    let mut slope = 1.0f32;
    for _ in 0..n.caps {
        let p = exp(f32::abs(product / n.cap) * -2.0);
        slope = 4.0 * p / ((1.0 + p) * (1.0 + p));
    }
    slope
}

/// To the last place or two, which devices do not promise of theirs.
#[cube]
fn tanh(x: f32) -> f32 {
    let size = f32::abs(x);
    // Near 0 the series: 1 - 2 / (e²ˣ + 1) would lose what is small.
    let s = x * x;
    let series = 21844.0f32 / 6081075.0;
    let series = series * s - 1382.0f32 / 155925.0;
    let series = series * s + 62.0f32 / 2835.0;
    let series = series * s - 17.0f32 / 315.0;
    let series = series * s + 2.0f32 / 15.0;
    let series = series * s - 1.0f32 / 3.0;
    let near = x + x * s * series;
    let far = 1.0 - 2.0 / (exp(f32::min(size, 40.0) * 2.0) + 1.0);
    let tanh = select(size < 0.3, near, select(x < 0.0, -far, far));
    select(x.is_nan(), x, tanh)
}

/// Whether query `i` of head `h` sees key `j`, which may be behind the last one.
#[cube]
pub(super) fn sees(side: &Array<u32>, n: &Numbers, b: usize, h: usize, i: usize, j: usize) -> bool {
    let mut seen = j < n.n_keys;
    for _ in 0..n.ruled {
        let row = n.runs + b * n.runs_per_entry + i;
        let mut inside = false;
        for run in side[row] as usize..side[row + 1] as usize {
            let at = n.run_list + 2 * run;
            inside = inside || (j >= side[at] as usize && j < side[at + 1] as usize);
        }
        seen = seen && inside;
    }
    let memory = j >= n.seq_k;
    let j = select(memory, 0, j);
    for pair in 0..n.n_segments {
        let at = n.segments + 4 * pair;
        let query = side[at] as usize + b * side[at + 1] as usize + i;
        let key = side[at + 2] as usize + b * side[at + 3] as usize + j;
        seen = seen && (memory || side[query] == side[key]);
    }
    for mask in 0..n.n_masks {
        let at = n.masks + 5 * mask;
        let bit = b * side[at + 1] as usize
            + h * side[at + 2] as usize
            + i * side[at + 3] as usize
            + j * side[at + 4] as usize;
        let word = side[side[at] as usize + bit / 32] >> (bit % 32) as u32;
        seen = seen && (memory || (word & 1) == 0);
    }
    seen
}

/// The sum of all biases of a pair.
#[cube]
fn extra(
    side: &Array<u32>,
    bias: &Array<f32>,
    n: &Numbers,
    b: usize,
    h: usize,
    i: usize,
    j: usize,
) -> f32 {
    let j = select(j < n.seq_k, j, 0);
    let mut sum = 0.0f32;
    for _ in 0..n.sloped {
        let distance = distance(side, n, b, i, j);
        sum -= f32::reinterpret(side[n.slopes + h]) * f32::abs(f32::cast_from(distance));
    }
    for _ in 0..n.related {
        let distance = distance(side, n, b, i, j);
        let column = i32::max(i32::min(distance, n.reach), -n.reach) + n.reach;
        let at = n.relative + h * (2 * n.reach as usize + 1) + column as usize;
        sum += f32::reinterpret(side[at]);
    }
    for _ in 0..n.biased {
        sum += bias[b * n.bias_batch + h * n.bias_head + i * n.bias_query + j * n.bias_key];
    }
    sum
}

/// How far key `j` stands behind query `i`; negative before it.
#[cube]
fn distance(side: &Array<u32>, n: &Numbers, b: usize, i: usize, j: usize) -> i32 {
    let gap = select(j < n.gap_after, 0, n.gap);
    (j + gap) as i32 - query_position(side, n, b, i)
}

/// Where query `i` of an entry stands.
#[cube]
pub(super) fn query_position(side: &Array<u32>, n: &Numbers, b: usize, i: usize) -> i32 {
    i32::reinterpret(side[n.offsets + b * n.offsets_per_entry]) + i as i32
}
