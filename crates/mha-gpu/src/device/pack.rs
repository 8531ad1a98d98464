//! What is small and comes from tensors, moved into the side buffer: a kernel can count on no more
//! than eight buffers.

use cubecl::prelude::*;

/// One unit for each of `len` numbers: f32 by its bits, whole numbers by their lowest 32 bits.
#[cube(launch_unchecked)]
pub(crate) fn pack_words<T: Numeric>(
    source: &Array<T>,
    side: &mut Array<u32>,
    to: usize,
    len: usize,
    #[comptime] bits: bool,
) {
    if ABSOLUTE_POS < len {
        if comptime!(bits) {
            side[to + ABSOLUTE_POS] = u32::reinterpret(source[ABSOLUTE_POS]);
        } else {
            side[to + ABSOLUTE_POS] = u32::cast_from(source[ABSOLUTE_POS]);
        }
    }
}

/// One unit for each word of 32 keys: a mask, of four axes, in bits; each row starts a word of its own.
#[cube(launch_unchecked)]
pub(crate) fn pack_mask<T: Numeric>(
    source: &Array<T>,
    side: &mut Array<u32>,
    to: usize,
    words: usize,
    dims: (usize, usize, usize),
    strides: (usize, usize, usize, usize),
    words_per_row: usize,
) {
    if ABSOLUTE_POS < words {
        let row = ABSOLUTE_POS / words_per_row;
        let (n_heads, seq_q, n_keys) = dims;
        let from = row / seq_q / n_heads * strides.0
            + row / seq_q % n_heads * strides.1
            + row % seq_q * strides.2;
        let start = ABSOLUTE_POS % words_per_row * 32;
        let mut word = 0u32;
        for bit in 0..usize::min(32, n_keys - start) {
            let hides = u32::cast_from(source[from + (start + bit) * strides.3]) != 0;
            word |= select(hides, 1u32, 0u32) << bit as u32;
        }
        side[to + ABSOLUTE_POS] = word;
    }
}
