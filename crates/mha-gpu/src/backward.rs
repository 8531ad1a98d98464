//! The backward pass, launched: one kernel for what the keys and values get, one for the queries.

mod biases;

use std::ops::Range;

use cubecl::client::ComputeClient;
use cubecl::prelude::*;
use cubecl::server::Handle;

use crate::call::{Call, Element, Sizes};
use crate::device::{Numbers, Spec, d_key_value as of_keys, d_query as of_queries, delta, reduce};
use crate::launch::{Rows, array, cut, grid};
use crate::limits::{Limits, Options, fours};
use crate::side::{Blocks, Side, bias};
use crate::{Error, Gradients, Saved, Strided, Wanted};

/// Computes the gradients of a call.
///
/// # Errors
///
/// Those of [`forward`](crate::forward()).
///
/// # Example
///
/// ```
/// use cubecl::client::ComputeClient;
/// use cubecl::prelude::Runtime;
/// use mha_gpu::{Call, Saved, Wanted, backward};
///
/// fn d_query<R: Runtime>(client: &ComputeClient<R>, call: &Call, saved: &Saved) {
///     let wanted = Wanted { query: true, ..Wanted::default() };
///     let gradients = backward(client, call, saved, wanted).expect("as the forward pass");
///     assert!(gradients.query.is_some());
/// }
/// ```
pub fn backward<R: Runtime>(
    client: &ComputeClient<R>,
    call: &Call<'_>,
    saved: &Saved,
    wanted: Wanted,
) -> Result<Gradients, Error> {
    within(client, call, saved, wanted, Limits::new(client))
}

/// The same, as if these were the device's limits.
pub(crate) fn within<R: Runtime>(
    client: &ComputeClient<R>,
    call: &Call<'_>,
    saved: &Saved,
    wanted: Wanted,
    limits: Limits,
) -> Result<Gradients, Error> {
    let pass = Pass::new(client, call, saved, limits)?;
    match call.element {
        Element::F32 => pass.run::<f32>(wanted),
        Element::F16 => pass.run::<half::f16>(wanted),
    }
}

struct Pass<'a, R: Runtime> {
    client: &'a ComputeClient<R>,
    call: &'a Call<'a>,
    sizes: Sizes,
    limits: Limits,
    query: Rows,
    key: Rows,
    value: Rows,
    context: Rows,
    d_context: Rows,
    statistics: &'a Handle,
}

impl<'a, R: Runtime> Pass<'a, R> {
    fn new(
        client: &'a ComputeClient<R>,
        call: &'a Call<'a>,
        saved: &'a Saved,
        limits: Limits,
    ) -> Result<Self, Error> {
        let sizes = call.check()?;
        limits.check(&sizes)?;
        let rows = |tensor: &Strided| Rows::of(client, tensor, call.element);
        Ok(Self {
            client,
            call,
            sizes,
            limits,
            query: rows(&call.query),
            key: rows(&call.key),
            value: rows(&call.value),
            context: rows(&saved.context),
            d_context: rows(&saved.d_context),
            statistics: &saved.statistics,
        })
    }

    fn run<E: Float + CubeElement>(&self, wanted: Wanted) -> Result<Gradients, Error> {
        let mut gradients = Gradients::default();
        let bias = self.call.bias.as_ref().filter(|_| wanted.bias);
        let relative = self.call.relative.as_ref().filter(|_| wanted.relative);
        let options = Options::of(self.call);
        let of_queries = self.limits.d_query(&self.sizes, options)?;
        let of_keys = self.limits.d_key_value(&self.sizes, options)?;
        let passes = [
            (Blocks::Queries, of_queries),
            (Blocks::Keys, of_keys),
            (Blocks::QueriesByAll, of_queries),
        ];
        let side = Side::new(self.client, self.call, &self.sizes, &self.limits, &passes, true)?;
        self.delta::<E>(&side);
        if wanted.key || wanted.value {
            let [key, value] = self.d_key_value::<E>(&side, side.fitted(Blocks::Keys, of_keys));
            gradients.key = wanted.key.then_some(key);
            gradients.value = wanted.value.then_some(value);
        }
        if wanted.query {
            gradients.query =
                Some(self.d_query::<E>(&side, side.fitted(Blocks::Queries, of_queries)));
        }
        if bias.is_some() || relative.is_some() {
            gradients.bias = bias.map(|bias| self.floats(bias.dims.iter().product()));
            gradients.relative =
                relative.map(|of| self.floats(self.sizes.n_heads * (2 * of.reach + 1)));
            self.d_biases::<E>(&side, of_queries, &gradients);
        }
        if wanted.sink && matches!(self.call.sink, crate::Sink::Learned(_)) {
            gradients.sink = Some(self.d_sink(&side));
        }
        Ok(gradients)
    }

    fn floats(&self, len: usize) -> Handle {
        self.client.empty(len * size_of::<f32>())
    }

    /// Moves the statistics of all rows into the side buffer, and their delta.
    fn delta<E: Float + CubeElement>(&self, side: &Side) {
        let all = self.sizes.all_rows();
        let (count, dim) = grid(self.client, all);
        // SAFETY: each unit writes its own row, and those behind the last one nothing.
        unsafe {
            delta::delta::launch_unchecked::<E, R>(
                self.client,
                count,
                dim,
                self.context.arg(),
                self.d_context.arg(),
                array(self.statistics, 3 * all),
                side.arg(),
                self.numbers(side, Blocks::Queries).launch(),
                self.context.strides.launch(),
                self.d_context.strides.launch(),
                all,
                fours(self.sizes.value_dim),
            )
        }
    }

    fn numbers(&self, side: &Side, blocks: Blocks) -> Numbers {
        side.numbers(blocks, 0..self.sizes.seq_q)
    }

    /// How many tiles one launch meets, with a kernel that knows whether others follow.
    fn at_once(&self, side: &Side, spec: Spec, tiles: usize) -> (Spec, usize) {
        let at_once = self.limits.tiles(spec, side.turns_of_pair).min(tiles);
        (Spec { several: at_once < tiles, ..spec }, at_once)
    }

    fn d_key_value<E: Float + CubeElement>(&self, side: &Side, spec: Spec) -> [Handle; 2] {
        let Sizes { batch, seq_q, n_keys, n_kv_heads, head_dim, value_dim, .. } = self.sizes;
        let tiles = (self.sizes.group() * seq_q).div_ceil(spec.tile);
        let (spec, at_once) = self.at_once(side, spec, tiles);
        // What several launches add up is f32.
        let element = if spec.several { Element::F32 } else { self.call.element };
        let (rows, size) = (batch * n_keys * n_kv_heads, 4 * element.size());
        // The values' gradients start where a buffer can.
        let align = self.client.properties().memory.alignment as usize;
        let values_at = (rows * spec.qk * size).next_multiple_of(align.max(size)) / size;
        let len = values_at + rows * spec.v;
        let out = self.client.empty(len * size);
        for first in (0..tiles).step_by(at_once) {
            let met = first..tiles.min(first + at_once);
            let out = array(&out, len);
            if spec.several {
                self.launch_d_key_value::<E, f32>(side, spec, out, values_at, met);
            } else {
                self.launch_d_key_value::<E, E>(side, spec, out, values_at, met);
            }
        }
        let start = (values_at * size) as u64;
        let end = |used: usize| (len * size - used) as u64;
        let keys = out.clone().offset_end(end(rows * spec.qk * size));
        let values = out.offset_start(start);
        let dims = |width| [batch, n_keys, n_kv_heads, width];
        [
            self.cut(keys, dims(4 * spec.qk), head_dim, element),
            self.cut(values, dims(4 * spec.v), value_dim, element),
        ]
    }

    fn launch_d_key_value<E: Float + CubeElement, O: Float + CubeElement>(
        &self,
        side: &Side,
        spec: Spec,
        out: ArrayArg<R>,
        values_at: usize,
        tiles: Range<usize>,
    ) {
        let Sizes { batch, n_keys, n_kv_heads, .. } = self.sizes;
        let x = n_keys.div_ceil(spec.rows * spec.units) as u32;
        // SAFETY: rows, keys and places outside of the call are checked or clamped by the kernel, and
        // the side buffer holds what its numbers say.
        unsafe {
            of_keys::d_key_value::launch_unchecked::<E, O, R>(
                self.client,
                CubeCount::Static(x, n_kv_heads as u32, batch as u32),
                CubeDim::new_1d(spec.units as u32),
                self.query.arg(),
                self.key.arg(),
                self.value.arg(),
                self.d_context.arg(),
                bias(self.call, &side.handle),
                side.arg(),
                out,
                self.numbers(side, Blocks::Keys).launch(),
                self.query.strides.launch(),
                self.key.strides.launch(),
                self.value.strides.launch(),
                self.d_context.strides.launch(),
                values_at,
                tiles.start,
                tiles.end,
                spec,
            )
        }
    }

    fn d_query<E: Float + CubeElement>(&self, side: &Side, spec: Spec) -> Handle {
        let Sizes { batch, seq_q, n_heads, head_dim, n_keys, .. } = self.sizes;
        let tiles = n_keys.div_ceil(spec.tile);
        let (spec, at_once) = self.at_once(side, spec, tiles);
        let element = if spec.several { Element::F32 } else { self.call.element };
        let len = self.sizes.all_rows() * spec.qk;
        let out = self.client.empty(len * 4 * element.size());
        let n = self.numbers(side, Blocks::Queries);
        for first in (0..tiles).step_by(at_once) {
            let met = first..tiles.min(first + at_once);
            let out = array(&out, len);
            if spec.several {
                self.launch_d_query::<E, f32>(side, n, spec, out, met);
            } else {
                self.launch_d_query::<E, E>(side, n, spec, out, met);
            }
        }
        self.cut(out, [batch, seq_q, n_heads, 4 * spec.qk], head_dim, element)
    }

    fn launch_d_query<E: Float + CubeElement, O: Float + CubeElement>(
        &self,
        side: &Side,
        n: Numbers,
        spec: Spec,
        out: ArrayArg<R>,
        tiles: Range<usize>,
    ) {
        let Sizes { batch, n_kv_heads, .. } = self.sizes;
        let rows = self.sizes.group() * n.queries;
        let x = rows.div_ceil(spec.rows * spec.units) as u32;
        // SAFETY: rows, keys and places outside of the call are checked or clamped by the kernel, and
        // the side buffer holds what its numbers say.
        unsafe {
            of_queries::d_query::launch_unchecked::<E, O, R>(
                self.client,
                CubeCount::Static(x, n_kv_heads as u32, batch as u32),
                CubeDim::new_1d(spec.units as u32),
                if spec.scores { 1 } else { 4 },
                self.query.arg(),
                self.key.arg(),
                self.value.arg(),
                self.d_context.arg(),
                bias(self.call, &side.handle),
                side.arg(),
                out,
                n.launch(),
                self.query.strides.launch(),
                self.key.strides.launch(),
                self.value.strides.launch(),
                self.d_context.strides.launch(),
                tiles.start,
                tiles.end,
                spec,
            )
        }
    }

    fn cut(&self, handle: Handle, dims: [usize; 4], width: usize, from: Element) -> Handle {
        cut(self.client, Strided::contiguous(handle, dims), [from, self.call.element], width)
    }

    fn d_sink(&self, side: &Side) -> Handle {
        let out = self.floats(self.sizes.n_heads);
        let rows = self.sizes.batch * self.sizes.seq_q;
        let at_once = self.limits.steps(2);
        for first in (0..rows).step_by(at_once) {
            self.launch_d_sink(side, &out, first..rows.min(first + at_once));
        }
        out
    }

    fn launch_d_sink(&self, side: &Side, out: &Handle, rows: Range<usize>) {
        let n_heads = self.sizes.n_heads;
        let (count, dim) = grid(self.client, n_heads);
        // SAFETY: each unit writes its own head's number, and those behind the last nothing.
        unsafe {
            reduce::d_sink::launch_unchecked::<R>(
                self.client,
                count,
                dim,
                side.arg(),
                array(out, n_heads),
                self.numbers(side, Blocks::Queries).launch(),
                self.sizes.batch,
                rows.start,
                rows.end,
            )
        }
    }
}
