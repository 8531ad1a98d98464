//! Launches of one unit for each number, and arguments.

use cubecl::client::ComputeClient;
use cubecl::prelude::*;
use cubecl::server::Handle;

use crate::call::{Element, Strided};
use crate::device::{Strides, copy};
use crate::limits::fours;

/// Units in a cube where each works for itself.
const UNITS: usize = 64;

/// Cubes for this many units, in as many axes as it takes.
pub(crate) fn grid<R: Runtime>(client: &ComputeClient<R>, units: usize) -> (CubeCount, CubeDim) {
    let hardware = &client.properties().hardware;
    let dim = UNITS.min(hardware.max_units_per_cube as usize);
    let cubes = units.div_ceil(dim).max(1);
    let x = cubes.min(hardware.max_cube_count.0 as usize);
    let count = CubeCount::Static(x as u32, cubes.div_ceil(x) as u32, 1);
    (count, CubeDim::new_1d(dim as u32))
}

/// A buffer of this many elements, as an argument.
pub(crate) fn array<R: Runtime>(handle: &Handle, len: usize) -> ArrayArg<R> {
    // SAFETY: every caller passes the number of elements that it made the buffer for, or what `reach`
    // tells of a tensor that lies in it.
    unsafe { ArrayArg::from_raw_parts(handle.clone(), len) }
}

/// Rows of whole fours, `[batch, seq, heads, fours]`.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub(crate) handle: Handle,
    /// In fours, up to the last row.
    pub(crate) len: usize,
    pub(crate) strides: Strides,
}

impl Rows {
    /// The rows of a tensor where they lie, or a copy where a row is not whole fours, one after another.
    pub(crate) fn of<R: Runtime>(
        client: &ComputeClient<R>,
        tensor: &Strided,
        element: Element,
    ) -> Self {
        let [batch, seq, heads, features] = tensor.dims;
        let width = 4 * fours(features);
        let [of_batch, of_seq, of_head, of_feature] = tensor.strides;
        let whole = [of_batch, of_seq, of_head].iter().all(|stride| stride % 4 == 0);
        if features == width && whole && of_feature == 1 {
            let strides = Strides { batch: of_batch / 4, seq: of_seq / 4, head: of_head / 4 };
            return Self {
                handle: tensor.handle.clone(),
                len: tensor.reach().div_ceil(4),
                strides,
            };
        }
        let handle = copied(client, tensor, [element; 2], width);
        Self::in_order(handle, [batch, seq, heads, width])
    }

    /// Rows in row-major order.
    pub(crate) fn in_order(handle: Handle, [batch, seq, heads, width]: [usize; 4]) -> Self {
        let row = width / 4;
        let strides = Strides { batch: seq * heads * row, seq: heads * row, head: row };
        Self { handle, len: batch * seq * heads * row, strides }
    }

    pub(crate) fn arg<R: Runtime>(&self) -> ArrayArg<R> {
        array(&self.handle, self.len)
    }
}

/// A copy in row-major order, as another element or the same, with rows of this width, longer ones cut,
/// shorter ones filled with 0.
pub(crate) fn copied<R: Runtime>(
    client: &ComputeClient<R>,
    tensor: &Strided,
    [from, to]: [Element; 2],
    width: usize,
) -> Handle {
    let [batch, seq, heads, features] = tensor.dims;
    let all = batch * seq * heads * width;
    let out = client.empty(all * to.size());
    let (count, dim) = grid(client, all);
    let [a, b, c, d] = tensor.strides;
    macro_rules! launch {
        ($from:ty, $to:ty) => {
            // SAFETY: `source` reaches as far as the tensor does, `out` has `all` elements, and the
            // kernel writes none behind them.
            unsafe {
                copy::copy_rows::launch_unchecked::<$from, $to, R>(
                    client,
                    count,
                    dim,
                    array(&tensor.handle, tensor.reach()),
                    array(&out, all),
                    seq,
                    heads,
                    (a, b, c, d),
                    features.min(width),
                    width,
                    all,
                )
            }
        };
    }
    match (from, to) {
        (Element::F32, Element::F32) => launch!(f32, f32),
        (Element::F32, Element::F16) => launch!(f32, half::f16),
        (Element::F16, Element::F32) => launch!(half::f16, f32),
        (Element::F16, Element::F16) => launch!(half::f16, half::f16),
    }
    out
}

/// Rows without what fills them up to whole fours, as another element or the same: the buffer itself where
/// that is what it holds.
pub(crate) fn cut<R: Runtime>(
    client: &ComputeClient<R>,
    rows: Strided,
    elements: [Element; 2],
    width: usize,
) -> Handle {
    let [from, to] = elements;
    match rows.dims[3] == width && from == to {
        true => rows.handle,
        false => copied(client, &rows, elements, width),
    }
}
