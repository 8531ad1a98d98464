//! Which weights are dropped: the same words as on every other path.
//!
//! Each weight gets a word of 31 bits by the mixing step of Wellons 2018, "Prospecting for hash
//! functions", <https://nullprogram.com/blog/2018/07/31/>, on 31 bits: two keys per row and one per
//! column are mixed into it, so that forward and backward find the same pattern.

use cubecl::prelude::*;

use super::Numbers;

const MASK: u32 = 0x7fff_ffff;
const M1: u32 = 0x21f0_aaad;
const M2: u32 = 0x735a_2d97;
/// Starts the second row key elsewhere than the first: the fraction of the golden ratio.
const SECOND: u32 = 0x1e37_79b9;

#[cube]
fn mix(x: u32) -> u32 {
    let x = ((x ^ (x >> 16u32)) * M1) & MASK;
    let x = ((x ^ (x >> 15u32)) * M2) & MASK;
    x ^ (x >> 15u32)
}

/// One of the two keys of a row.
#[cube]
pub(super) fn row_key(
    side: &Array<u32>,
    n: &Numbers,
    b: usize,
    h: usize,
    i: usize,
    #[comptime] second: bool,
) -> u32 {
    let mut start = side[n.seed] & MASK;
    if comptime!(second) {
        start = (side[n.seed + 1] & MASK) ^ SECOND;
    }
    mix(mix(mix(mix(start) ^ b as u32) ^ h as u32) ^ i as u32)
}

/// What a weight is multiplied by, given the keys of its row.
#[cube]
pub(super) fn factor(n: &Numbers, first: u32, second: u32, j: usize) -> f32 {
    let x = first ^ mix((j as u32 & MASK) ^ SECOND);
    let x = (((x ^ (x >> 16u32)) * M1) & MASK) ^ second;
    let x = ((x ^ (x >> 15u32)) * M2) & MASK;
    let word = x ^ (x >> 15u32);
    select(word < n.threshold, 0.0f32, n.kept)
}
