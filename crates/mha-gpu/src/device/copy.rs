//! Rows of features of any width, anywhere, as rows of whole fours, and back.

use cubecl::prelude::*;

/// One unit for each number of `out`, `[batch, seq, heads, to_width]`, row-major: that of `source`, or
/// 0 behind its `from_width` features.
#[cube(launch_unchecked)]
pub(crate) fn copy_rows<E: Float, O: Float>(
    source: &Array<E>,
    out: &mut Array<O>,
    seq: usize,
    heads: usize,
    strides: (usize, usize, usize, usize),
    from_width: usize,
    to_width: usize,
    all: usize,
) {
    if ABSOLUTE_POS < all {
        let d = ABSOLUTE_POS % to_width;
        let row = ABSOLUTE_POS / to_width;
        let from =
            row / heads / seq * strides.0 + row / heads % seq * strides.1 + row % heads * strides.2;
        let inside = d < from_width;
        let number = source[from + select(inside, d, 0) * strides.3];
        out[ABSOLUTE_POS] = O::cast_from(select(inside, number, E::new(0.0)));
    }
}
