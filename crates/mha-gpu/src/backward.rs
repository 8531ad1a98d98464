//! The backward pass, launched: one kernel for what the keys and values get, one for the queries, and
//! for biases the gradients of the scores, a strip of queries at a time.

use std::ops::Range;

use cubecl::client::ComputeClient;
use cubecl::prelude::*;
use cubecl::server::Handle;

use crate::call::{Call, Element, Sizes};
use crate::device::{Numbers, Spec, d_key_value as of_keys, d_query as of_queries, delta, reduce};
use crate::launch::{Rows, array, copied, grid};
use crate::limits::{Limits, fours};
use crate::side::{Blocks, Side, bias};
use crate::{Error, Strided};

/// What the forward pass left, and the gradient that came back.
///
/// # Example
///
/// ```
/// use mha_gpu::{Output, Saved, Strided};
///
/// fn saved(output: Output, context: Strided, d_context: Strided) -> Saved {
///     Saved { context, d_context, statistics: output.statistics }
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Saved {
    /// `[batch, seq_q, n_heads, value_dim]`
    pub context: Strided,
    /// The gradient of the context.
    pub d_context: Strided,
    /// As the forward pass gave them.
    pub statistics: Handle,
}

/// Which gradients are wanted.
///
/// # Example
///
/// ```
/// let wanted = mha_gpu::Wanted { query: true, ..Default::default() };
/// assert!(!wanted.bias);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of the queries.
    pub query: bool,
    /// Of the keys.
    pub key: bool,
    /// Of the values.
    pub value: bool,
    /// Of the bias, if there is one.
    pub bias: bool,
    /// Of the biases by distance, if there are any.
    pub relative: bool,
    /// Of the learned sinks, if there are any.
    pub sink: bool,
}

/// The gradients that were wanted, row-major; those of bias, relative and sink are f32.
///
/// # Example
///
/// ```
/// assert!(mha_gpu::Gradients::default().query.is_none());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Gradients {
    /// `[batch, seq_q, n_heads, head_dim]`
    pub query: Option<Handle>,
    /// `[batch, n_keys, n_kv_heads, head_dim]`
    pub key: Option<Handle>,
    /// `[batch, n_keys, n_kv_heads, value_dim]`
    pub value: Option<Handle>,
    /// As the bias.
    pub bias: Option<Handle>,
    /// As the table.
    pub relative: Option<Handle>,
    /// `[n_heads]`
    pub sink: Option<Handle>,
}

/// Gradients of scores that are held at once, so that there are never `seq_q × seq_k` of them.
const STRIP: usize = 1 << 22;

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
    match call.element {
        Element::F32 => Pass::<R>::new(client, call, saved)?.run::<f32>(wanted),
        Element::F16 => Pass::<R>::new(client, call, saved)?.run::<half::f16>(wanted),
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
    ) -> Result<Self, Error> {
        let sizes = call.check()?;
        let limits = Limits::new(client);
        limits.check(&sizes, call.element.size())?;
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
        let dropout = self.call.dropout.is_some();
        let of_queries = self.limits.d_query(&self.sizes, dropout)?;
        let of_keys = self.limits.d_key_value(&self.sizes, dropout)?;
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

    /// The gradients of bias and table, whose buffers `gradients` has: a strip of queries at a time.
    fn d_biases<E: Float + CubeElement>(&self, side: &Side, spec: Spec, gradients: &Gradients) {
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
            let adds = u32::from(first > 0);
            if let Some((bias, out)) = self.call.bias.as_ref().zip(gradients.bias.as_ref()) {
                self.d_bias(scores(), n, bias.dims, out, adds);
            }
            if let Some(out) = &gradients.relative {
                self.d_relative(scores(), side, n, out, adds);
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
        adds: u32,
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
                adds,
            )
        }
    }

    fn d_relative(&self, d_scores: ArrayArg<R>, side: &Side, n: Numbers, out: &Handle, adds: u32) {
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
                adds,
            )
        }
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

    /// Rows without what fills them up to whole fours, in the call's element.
    fn cut(&self, handle: Handle, dims: [usize; 4], width: usize, element: Element) -> Handle {
        if dims[3] == width && element == self.call.element {
            return handle;
        }
        let rows = Strided::contiguous(handle, dims);
        copied(self.client, &rows, [element, self.call.element], width)
    }
}
