//! Which keys somebody sees: those that nobody does may hold anything.

use cubecl::prelude::*;

use super::Numbers;
use super::pair::sees;

/// One unit for each key of each key head, which sets its word of the side buffer if one of the rows from
/// `first` to `end` sees the key, which a mask or a bias of -∞ may hide.
#[cube(launch_unchecked)]
pub(crate) fn seen(
    bias: &Array<f32>,
    side: &mut Array<u32>,
    n: &Numbers,
    all: usize,
    first: usize,
    end: usize,
) {
    let at = ABSOLUTE_POS;
    if at < all {
        let j = at % n.n_keys;
        let g = at / n.n_keys % n.n_kv_heads;
        let b = at / n.n_keys / n.n_kv_heads;
        let mut found = side[n.seen + at];
        let mut row = first;
        while found == 0 && row < end {
            let h = g * n.group + row / n.seq_q;
            let i = row % n.seq_q;
            let mut seen = sees(side, n, b, h, i, j);
            for _ in 0..n.biased {
                let memory = j >= n.seq_k;
                let key = select(memory, 0, j);
                let at = b * n.bias_batch + h * n.bias_head + i * n.bias_query + key * n.bias_key;
                seen = seen && (memory || bias[at] != n.hidden);
            }
            found = select(seen, 1u32, 0u32);
            row += 1;
        }
        side[n.seen + at] = found;
    }
}
