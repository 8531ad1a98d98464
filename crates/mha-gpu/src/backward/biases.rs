//! The gradients of bias and table: sums over those of the scores, a strip of queries at a time.

use cubecl::prelude::*;
use cubecl::server::Handle;

use super::Pass;
use crate::Gradients;
use crate::call::Sizes;
use crate::device::{Numbers, Spec, reduce};
use crate::launch::{array, grid};
use crate::side::{Blocks, Side};

/// Gradients of scores that are held at once, so that there are never `seq_q × seq_k` of them.
const STRIP: usize = 1 << 22;

impl<R: Runtime> Pass<'_, R> {
    /// The gradients of bias and table, whose buffers `gradients` has: a strip of queries at a time.
    pub(super) fn d_biases<E: Float + CubeElement>(
        &self,
        side: &Side,
        spec: Spec,
        gradients: &Gradients,
    ) {
        let Sizes { batch, seq_q, n_heads, n_keys, .. } = self.sizes;
        let spec = Spec { scores: true, ..side.fitted(Blocks::QueriesByAll, spec) };
        let per_query = batch * n_heads * n_keys;
        let strip = (STRIP / per_query).min(self.queries_at_once(gradients)).clamp(1, seq_q);
        let d_scores = self.floats(strip * per_query);
        let tiles = n_keys.div_ceil(spec.tile);
        let (spec, at_once) = self.at_once(side, spec, tiles);
        for first in (0..seq_q).step_by(strip) {
            let queries = first..seq_q.min(first + strip);
            let scores = || array(&d_scores, queries.len() * per_query);
            let n = side.numbers(Blocks::QueriesByAll, queries.clone());
            for first in (0..tiles).step_by(at_once) {
                let met = first..tiles.min(first + at_once);
                self.launch_d_query::<E, f32>(side, n, spec, scores(), met);
            }
            if let Some((bias, out)) = self.call.bias.as_ref().zip(gradients.bias.as_ref()) {
                // Queries with a bias of their own meet the numbers of no other strip.
                let adds = first > 0 && bias.dims[2] == 1;
                self.d_bias(scores(), n, bias.dims, out, adds);
            }
            if let Some(out) = &gradients.relative {
                self.d_relative(scores(), side, n, out, first > 0);
            }
        }
    }

    /// How many queries' gradients one unit may add up in one launch.
    fn queries_at_once(&self, gradients: &Gradients) -> usize {
        let Sizes { batch, n_heads, n_keys, .. } = self.sizes;
        let bias = self.call.bias.as_ref().filter(|_| gradients.bias.is_some());
        let of_bias = bias.map_or(1, |bias| {
            let repeats = |axis: usize, n: usize| if bias.dims[axis] == 1 { n + 1 } else { 2 };
            repeats(0, batch) * repeats(1, n_heads) * repeats(3, n_keys)
        });
        let of_table = if gradients.relative.is_some() { batch * (n_keys + 2) } else { 1 };
        self.limits.steps(of_bias.max(of_table))
    }

    fn d_bias(
        &self,
        d_scores: ArrayArg<R>,
        n: Numbers,
        [batch, n_heads, seq_q, seq_k]: [usize; 4],
        out: &Handle,
        adds: bool,
    ) {
        let queries = seq_q.min(n.queries);
        let (count, dim) = grid(self.client, batch * n_heads * queries * seq_k);
        // SAFETY: each unit writes its own number of the gradient, and those behind the last nothing.
        unsafe {
            reduce::d_bias::launch_unchecked::<R>(
                self.client,
                count,
                dim,
                d_scores,
                array(out, batch * n_heads * seq_q * seq_k),
                n.launch(),
                self.sizes.batch,
                (batch, n_heads, seq_q, seq_k),
                u32::from(adds),
            )
        }
    }

    fn d_relative(&self, d_scores: ArrayArg<R>, side: &Side, n: Numbers, out: &Handle, adds: bool) {
        let len = self.sizes.n_heads * (2 * n.reach as usize + 1);
        let (count, dim) = grid(self.client, len);
        // SAFETY: each unit writes its own number of the gradient, and those behind the last nothing.
        unsafe {
            reduce::d_relative::launch_unchecked::<R>(
                self.client,
                count,
                dim,
                d_scores,
                side.arg(),
                array(out, len),
                n.launch(),
                self.sizes.batch,
                u32::from(adds),
            )
        }
    }
}
