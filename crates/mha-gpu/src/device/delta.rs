//! What the softmax takes from the gradient of each of a row's weights.

use cubecl::prelude::*;

use super::{Four, Numbers, Strides, total};

/// One unit for each query of each head: its statistics, and behind them the product of context and
/// gradient: `[3, batch, n_heads, seq_q]`.
#[cube(launch_unchecked)]
pub(crate) fn delta<E: Float>(
    context: &Array<Four<E>>,
    d_context: &Array<Four<E>>,
    stats: &Array<f32>,
    out: &mut Array<f32>,
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
        let inverse = stats[all + at];
        out[at] = stats[at];
        out[all + at] = inverse;
        // A row that sees nothing gives nothing back, whatever came.
        out[2 * all + at] = select(inverse == 0.0, 0.0f32, total(product));
    }
}
