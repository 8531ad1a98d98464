//! The forward pass, launched.

use std::ops::Range;

use cubecl::client::ComputeClient;
use cubecl::prelude::*;
use cubecl::server::Handle;

use crate::call::{Call, Element, Sizes};
use crate::device::{Spec, forward as whole, merge};
use crate::launch::{Rows, array, cut, grid};
use crate::limits::{Limits, Options, fours};
use crate::side::{Blocks, Side, bias};
use crate::{Error, Strided};

/// What the forward pass gives, all row-major.
///
/// # Example
///
/// ```
/// fn context(output: mha_gpu::Output) -> cubecl::server::Handle {
///     output.context
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Output {
    /// `[batch, seq_q, n_heads, value_dim]`, as the queries' elements.
    pub context: Handle,
    /// The log-sum-exps, f32, `[batch, n_heads, seq_q]`.
    pub lse: Handle,
    /// The same again, and what the backward pass needs: of each softmax its largest score and the
    /// inverse of its sum, f32, `[3, batch, n_heads, seq_q]`.
    pub statistics: Handle,
}

/// Computes the context of a call.
///
/// # Errors
///
/// When parts of the call do not fit together, or sizes go beyond the device. Nothing has been
/// launched then.
///
/// The example is that of the [crate](crate).
pub fn forward<R: Runtime>(client: &ComputeClient<R>, call: &Call<'_>) -> Result<Output, Error> {
    within(client, call, Limits::new(client))
}

/// The same, as if these were the device's limits.
pub(crate) fn within<R: Runtime>(
    client: &ComputeClient<R>,
    call: &Call<'_>,
    limits: Limits,
) -> Result<Output, Error> {
    let sizes = call.check()?;
    limits.check(&sizes)?;
    let mut spec = limits.forward(&sizes, Options::of(call))?;
    let n_rows = sizes.group() * sizes.seq_q;
    let blocks = n_rows.div_ceil(spec.rows * if spec.spread { 1 } else { spec.units });
    let tiles = sizes.n_keys.div_ceil(spec.tile * if spec.spread { spec.units } else { 1 });
    let parts = limits.parts(blocks * sizes.n_kv_heads * sizes.batch, tiles);
    let side = Side::new(client, call, &sizes, &limits, &[(Blocks::Queries, spec)], false)?;
    spec = side.fitted(Blocks::Queries, spec);
    let at_once = limits.tiles(spec, side.turns_of_pair).saturating_mul(parts).min(tiles);
    spec.several = at_once < tiles;
    spec.split = spec.spread || parts > 1 || spec.several;

    let rows = [&call.query, &call.key, &call.value];
    let rows = rows.map(|tensor| Rows::of(client, tensor, call.element));
    let (all, v) = (sizes.all_rows(), fours(sizes.value_dim));
    let statistics = client.empty(3 * all * size_of::<f32>());
    let output = Output {
        context: client.empty(all * 4 * v * call.element.size()),
        lse: statistics.clone().offset_end((2 * all * size_of::<f32>()) as u64),
        statistics,
    };
    let parts = Parts { of_keys: parts, all: parts * if spec.spread { spec.units } else { 1 } };
    let pass = Pass { client, call, sizes, spec, side, rows, blocks, parts, tiles, at_once };
    match call.element {
        Element::F32 => pass.run::<f32>(&output),
        Element::F16 => pass.run::<half::f16>(&output),
    }
    let Sizes { batch, seq_q, n_heads, value_dim, .. } = sizes;
    let padded = Strided::contiguous(output.context, [batch, seq_q, n_heads, 4 * v]);
    Ok(Output { context: cut(client, padded, [call.element; 2], value_dim), ..output })
}

/// How many parts the keys are split into: over cubes, and with the units of each that meet keys of their
/// own.
#[derive(Debug, Clone, Copy)]
struct Parts {
    of_keys: usize,
    all: usize,
}

/// One launch of the kernel.
struct Pass<'a, R: Runtime> {
    client: &'a ComputeClient<R>,
    call: &'a Call<'a>,
    sizes: Sizes,
    spec: Spec,
    side: Side,
    rows: [Rows; 3],
    blocks: usize,
    parts: Parts,
    tiles: usize,
    /// Tiles that one launch may meet.
    at_once: usize,
}

impl<R: Runtime> Pass<'_, R> {
    /// Writes the output, if the keys are split by way of sums that are merged.
    fn run<E: Float + CubeElement>(&self, output: &Output) {
        let (all, parts) = (self.sizes.all_rows(), self.parts.all);
        if !self.spec.split {
            self.launch::<E, E>(&output.context, &output.statistics, 3 * all);
            return;
        }
        let floats = |len: usize| self.client.empty(len * size_of::<f32>());
        let (sums, stats) = (floats(parts * all * 4 * self.spec.v), floats(2 * parts * all));
        self.launch::<E, f32>(&sums, &stats, 2 * parts * all);
        self.merge::<E>(&sums, &stats, output);
    }

    fn launch<E: Float + CubeElement, O: Float + CubeElement>(
        &self,
        context: &Handle,
        stats: &Handle,
        n_stats: usize,
    ) {
        for first in (0..self.tiles).step_by(self.at_once) {
            let tiles = first..self.tiles.min(first + self.at_once);
            self.launch_over::<E, O>(context, stats, n_stats, tiles);
        }
    }

    fn launch_over<E: Float + CubeElement, O: Float + CubeElement>(
        &self,
        context: &Handle,
        stats: &Handle,
        n_stats: usize,
        tiles: Range<usize>,
    ) {
        let Self { sizes, spec, side, rows: [query, key, value], .. } = self;
        let x = (self.blocks * self.parts.of_keys) as u32;
        let count = CubeCount::Static(x, sizes.n_kv_heads as u32, sizes.batch as u32);
        let len = sizes.all_rows() * if spec.split { self.parts.all } else { 1 };
        let n = side.numbers(Blocks::Queries, 0..sizes.seq_q);
        // SAFETY: rows, keys and places outside of the call are checked or clamped by the kernel, and
        // the side buffer holds what its numbers say.
        unsafe {
            whole::forward::launch_unchecked::<E, O, R>(
                self.client,
                count,
                CubeDim::new_1d(spec.units as u32),
                spec.rows.min(4),
                query.arg(),
                key.arg(),
                value.arg(),
                bias(self.call, &side.handle),
                side.arg(),
                array(context, len * spec.v),
                array(stats, n_stats),
                n.launch(),
                query.strides.launch(),
                key.strides.launch(),
                value.strides.launch(),
                self.blocks,
                tiles.start,
                tiles.end,
                tiles.len().div_ceil(self.parts.of_keys),
                *spec,
            )
        }
    }

    fn merge<O: Float + CubeElement>(&self, sums: &Handle, stats: &Handle, output: &Output) {
        let (all, v, parts) = (self.sizes.all_rows(), self.spec.v, self.parts.all);
        let (count, dim) = grid(self.client, all * v);
        // SAFETY: each unit writes its own four, and those behind the last one nothing.
        unsafe {
            merge::merge::launch_unchecked::<O, R>(
                self.client,
                count,
                dim,
                array(sums, parts * all * v),
                array(stats, 2 * parts * all),
                array(&output.context, all * v),
                array(&output.statistics, 3 * all),
                self.side.numbers(Blocks::Queries, 0..self.sizes.seq_q).launch(),
                self.sizes.batch,
                parts,
                v,
            )
        }
    }
}
