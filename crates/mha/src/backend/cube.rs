//! Every backend on CubeCL: wgpu, CUDA and others.

use burn::tensor::ops::FloatTensor;
use burn::tensor::{DType, Shape, TensorMetadata};
use burn_cubecl::kernel::{cast, into_contiguous};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement};
use cubecl::server::Handle;
use mha_gpu::{
    Bools, Call, Dropout, Element, Hidden, Positions, Relative, Segments, Size, Strided, Visible,
    Wanted,
};

use super::rows::{Seen, offsets, segments};
use super::{Extent, InPlace, KernelCall, Kernels, Parts, Saved, TooLarge};
use crate::mask::Gap;

impl<R, F, I, T> InPlace for CubeBackend<R, F, I, T>
where
    R: CubeRuntime,
    F: FloatElement,
    I: IntElement,
    T: BoolElement,
{
}

/// Every call was checked against what it is asked to fit; the kernels check once more.
const CHECKED: &str = "the call was checked";

impl<R, F, I, T> Kernels for CubeBackend<R, F, I, T>
where
    R: CubeRuntime,
    F: FloatElement,
    I: IntElement,
    T: BoolElement,
{
    fn computes(dtype: DType) -> bool {
        matches!(dtype, DType::F32 | DType::F16)
    }

    fn fits(device: &R::Device, extent: &Extent) -> Result<(), TooLarge> {
        let sizes = &extent.sizes;
        let size = Size {
            batch: sizes.batch,
            seq_q: sizes.seq_q,
            n_keys: sizes.seq_k + extent.n_memory,
            n_heads: sizes.n_heads,
            n_kv_heads: sizes.n_kv_heads,
            head_dim: sizes.head_dim,
            value_dim: sizes.value_dim,
            pairs: extent.pairs.clone(),
            farthest: extent.farthest,
        };
        mha_gpu::fits(&R::client(device), &size).map_err(|error| match error {
            mha_gpu::Error::Limit { what, is, most } => TooLarge { what, is, most },
            other => unreachable!("{CHECKED}: {other}"),
        })
    }

    fn attention_forward(
        parts: &Parts<FloatTensor<Self>>,
        call: &KernelCall<Self>,
    ) -> [FloatTensor<Self>; 3] {
        let [batch, seq_q, n_heads, _] = parts.query.shape().dims();
        let [.., value_dim] = parts.value.shape().dims::<4>();
        let run = |call: Call<'_>| mha_gpu::forward(&parts.query.client, &call);
        let output = with_call(parts, call, run).expect(CHECKED);
        let like = |handle, dims: &[usize], dtype| made(&parts.query, handle, dims, dtype);
        [
            like(output.context, &[batch, seq_q, n_heads, value_dim], parts.query.dtype),
            like(output.lse, &[batch, n_heads, seq_q], DType::F32),
            like(output.statistics, &[3, batch, n_heads, seq_q], DType::F32),
        ]
    }

    fn attention_backward(
        parts: &Parts<FloatTensor<Self>>,
        call: &KernelCall<Self>,
        saved: &Saved<FloatTensor<Self>>,
        wanted: &Parts<bool>,
    ) -> Parts<Option<FloatTensor<Self>>> {
        let saved = mha_gpu::Saved {
            context: strided(&saved.context),
            d_context: strided(&saved.d_context),
            statistics: in_order(&saved.rest),
        };
        let wanted = Wanted {
            query: wanted.query,
            key: wanted.key,
            value: wanted.value,
            bias: wanted.bias.unwrap_or(false),
            relative: wanted.relative.unwrap_or(false),
            sink: wanted.sink.unwrap_or(false),
        };
        let run = |call: Call<'_>| mha_gpu::backward(&parts.query.client, &call, &saved, wanted);
        let gradients = with_call(parts, call, run).expect(CHECKED);
        let gradient = |of: &CubeTensor<R>, handle: Option<Handle>| {
            handle.map(|handle| made(of, handle, of.meta.shape(), of.dtype))
        };
        Parts {
            query: gradient(&parts.query, gradients.query),
            key: gradient(&parts.key, gradients.key),
            value: gradient(&parts.value, gradients.value),
            bias: parts.bias.as_ref().map(|bias| gradient(bias, gradients.bias)),
            relative: parts.relative.as_ref().map(|table| gradient(table, gradients.relative)),
            sink: parts.sink.as_ref().map(|sink| gradient(sink, gradients.sink)),
        }
    }
}

/// Calls `run` with the call in the kernels' own terms.
fn with_call<R, B, Out>(
    parts: &Parts<CubeTensor<R>>,
    call: &KernelCall<B>,
    run: impl FnOnce(Call<'_>) -> Out,
) -> Out
where
    R: CubeRuntime,
    B: burn::tensor::backend::Backend<
            BoolTensorPrimitive = CubeTensor<R>,
            IntTensorPrimitive = CubeTensor<R>,
        >,
{
    let KernelCall { numbers, hidden, seed } = call;
    let seen = numbers.seen.get_or_init(|| Seen::of(numbers));
    let row = |b: usize, i: usize| seen.rows.as_ref().map_or(Vec::new(), |rows| rows[b][i].clone());
    let [query, key, value] = [&parts.query, &parts.key, &parts.value].map(strided);
    let mut call = Call::new(element(parts.query.dtype), query, key, value);
    call.n_memory = numbers.n_memory;
    call.scale = numbers.scale;
    call.softcap = numbers.softcap;
    call.visible = seen.rows.as_ref().map(|rows| Visible { entries: rows.len(), row: &row });
    let ids = segments(&numbers.rules).filter(|_| seen.by_id);
    call.segments = ids.map(|[query, key]| Segments { query, key }).collect();
    call.hidden = hidden
        .iter()
        .map(|mask| Hidden {
            mask: strided(mask),
            bools: match mask.dtype.size() {
                1 => Bools::U8,
                _ => Bools::U32,
            },
        })
        .collect();
    call.bias = parts.bias.as_ref().map(strided);
    call.alibi = numbers.alibi.as_deref();
    call.relative = parts
        .relative
        .as_ref()
        .map(|table| Relative { table: in_order(table), reach: numbers.reach });
    let Gap { after, length } = numbers.frame.gap;
    call.positions = Positions { offsets: offsets(&numbers.frame), gap_after: after, gap: length };
    call.sink = match &parts.sink {
        Some(logits) => mha_gpu::Sink::Learned(in_order(logits)),
        None if numbers.quiet => mha_gpu::Sink::Zero,
        None => mha_gpu::Sink::None,
    };
    call.dropout = seed.as_ref().map(|seed| {
        // Of 64 bits where the device has those.
        let seed = in_order(&cast(seed.clone(), DType::I32));
        Dropout { probability: numbers.dropout, seed }
    });
    run(call)
}

/// A tensor as kernels take it.
fn strided<R: CubeRuntime>(tensor: &CubeTensor<R>) -> Strided {
    let axes = |numbers: &[usize]| numbers.try_into().expect("four axes");
    Strided {
        handle: tensor.handle.clone(),
        dims: axes(tensor.meta.shape()),
        strides: axes(tensor.meta.strides()),
    }
}

/// The buffer of a tensor in row-major order.
fn in_order<R: CubeRuntime>(tensor: &CubeTensor<R>) -> Handle {
    into_contiguous(tensor.clone()).handle
}

/// A tensor beside another.
fn made<R: CubeRuntime>(
    beside: &CubeTensor<R>,
    handle: Handle,
    dims: &[usize],
    dtype: DType,
) -> CubeTensor<R> {
    let (client, device) = (beside.client.clone(), beside.device.clone());
    CubeTensor::new_contiguous(client, device, Shape::from(dims.to_vec()), handle, dtype)
}

fn element(dtype: DType) -> Element {
    match dtype {
        DType::F16 => Element::F16,
        _ => Element::F32,
    }
}
