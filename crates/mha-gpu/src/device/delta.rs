//! What the softmax takes from the gradient of each of a row's weights.

use cubecl::prelude::*;

use super::{Four, Numbers, Strides, total};

/// One unit for each query of each head: its statistics, as [`forward`](super::forward) leaves them,
/// and the product of context and gradient, moved to where [`Numbers::stats`] says.
#[cube(launch_unchecked)]
pub(crate) fn delta<E: Float>(
    context: &Array<Four<E>>,
    d_context: &Array<Four<E>>,
    stats: &Array<f32>,
    side: &mut Array<u32>,
    n: &Numbers,
    context_strides: &Strides,
    d_context_strides: &Strides,
    all: usize,
    v: usize,
) {
    let at = ABSOLUTE_POS;
    if at < all {
        let i = at % n.seq_q;
        let h = at / n.seq_q % n.n_heads;
        let b = at / n.seq_q / n.n_heads;
        let from = context_strides.at(b, i, h);
        let d_from = d_context_strides.at(b, i, h);
        let mut product = Four::<f32>::new(0.0f32);
        for d in 0..v {
            let number = Four::<f32>::cast_from(context[from + d]);
            product = fma(number, Four::<f32>::cast_from(d_context[d_from + d]), product);
        }
        let inverse = stats[2 * all + at];
        // A row that sees nothing gives nothing back, whatever came.
        let delta = select(inverse == 0.0, 0.0f32, total(product));
        side[n.stats + at] = u32::reinterpret(stats[all + at]);
        side[n.stats + all + at] = u32::reinterpret(inverse);
        side[n.stats + 2 * all + at] = u32::reinterpret(delta);
    }
}

/// Such a number of a row, by which of the three it is.
#[cube]
pub(super) fn stat(side: &Array<u32>, n: &Numbers, #[comptime] which: usize, row: usize) -> f32 {
    let all = CUBE_COUNT_Z as usize * n.n_heads * n.seq_q;
    f32::reinterpret(side[n.stats + which * all + row])
}
