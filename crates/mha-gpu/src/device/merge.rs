//! The parts of a row whose keys were split, put together by their log-sum-exps.

use cubecl::prelude::*;

use super::{Four, Numbers, exp};

/// One unit for each four of a row; what it reads and writes is [`forward`](super::forward)'s.
#[cube(launch_unchecked)]
pub(crate) fn merge<O: Float>(
    sums: &Array<Four<f32>>,
    part_stats: &Array<f32>,
    context: &mut Array<Four<O>>,
    stats: &mut Array<f32>,
    n: &Numbers,
    batch: usize,
    parts: usize,
    v: usize,
) {
    let n_rows = n.group * n.queries;
    let all = batch * n.n_kv_heads * n_rows;
    let at = ABSOLUTE_POS / v;
    let d = ABSOLUTE_POS % v;
    if at < all {
        let mut max = n.hidden;
        for part in 0..parts {
            max = f32::max(max, part_stats[2 * (part * all + at)]);
        }
        let base = select(max == n.hidden, 0.0f32, max);
        let mut sum = 0.0f32;
        let mut four = Four::<f32>::new(0.0f32);
        for part in 0..parts {
            let from = part * all + at;
            let share = exp(part_stats[2 * from] - base);
            sum += part_stats[2 * from + 1] * share;
            four += sums[from * v + d] * Four::new(share);
        }
        let inverse = select(sum == 0.0, 0.0f32, 1.0 / sum);
        let row = at % n_rows;
        let h = at / n_rows % n.n_kv_heads * n.group + row / n.queries;
        let i = n.first + row % n.queries;
        let b = at / n_rows / n.n_kv_heads;
        context[((b * n.seq_q + i) * n.n_heads + h) * v + d] =
            Four::cast_from(four * Four::new(inverse));
        if d == 0 {
            let to = (b * n.n_heads + h) * n.seq_q + i;
            let all = batch * n.n_heads * n.seq_q;
            stats[to] = select(sum == 0.0, n.hidden, max + sum.ln());
            stats[all + to] = base;
            stats[2 * all + to] = inverse;
        }
    }
}
