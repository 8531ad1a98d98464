//! What the backends on a CPU share: from tensors to the kernels' views and back.

use std::borrow::Cow;

use burn::tensor::backend::Backend;
use burn::tensor::ops::{BoolTensor, FloatTensor};
use burn::tensor::{DType, Int, Tensor, TensorMetadata};
use mha_cpu::{Call, Dropout, Mask, Positions, Real, Relative, Runs, Segments, Wanted};

use super::rows::{offsets, segments, visible_rows, without_segments};
use super::strided::Strided;
use super::{InPlace, KernelCall, Kernels, LinearKernels, Numbers, Parts, Saved};
use crate::mask::Gap;

/// Reading and making float tensors of one element type.
pub(super) trait Storage<T: Real>: Backend {
    /// The numbers, where they lie if strides can tell.
    fn read(tensor: &FloatTensor<Self>) -> Strided<'_, T>;

    /// A tensor of these numbers, which are row-major; they stay where they are.
    fn make(numbers: Vec<T>, dims: Vec<usize>) -> FloatTensor<Self>;

    /// The memory of a tensor, unless others hold it too.
    fn unmake(tensor: FloatTensor<Self>) -> Option<Vec<T>>;
}

/// A backend whose tensors lie in memory that kernels can read.
pub(super) trait CpuBackend: InPlace + Storage<f32> + Storage<f64> {
    /// A Boolean tensor, where it lies if it can.
    fn read_bool(tensor: &BoolTensor<Self>) -> Strided<'_, bool>;
}

impl<B: CpuBackend> Kernels for B {
    fn computes(dtype: DType) -> bool {
        matches!(dtype, DType::F32 | DType::F64)
    }

    fn attention_forward(
        parts: &Parts<FloatTensor<B>>,
        call: &KernelCall<B>,
    ) -> [FloatTensor<B>; 3] {
        match parts.query.dtype() {
            DType::F64 => forward::<B, f64>(parts, call),
            _ => forward::<B, f32>(parts, call),
        }
    }

    fn attention_backward(
        parts: &Parts<FloatTensor<B>>,
        call: &KernelCall<B>,
        saved: &Saved<FloatTensor<B>>,
        wanted: &Parts<bool>,
    ) -> Parts<Option<FloatTensor<B>>> {
        match parts.query.dtype() {
            DType::F64 => backward::<B, f64>(parts, call, saved, wanted),
            _ => backward::<B, f32>(parts, call, saved, wanted),
        }
    }

    fn linear_kernels() -> Option<LinearKernels<B>> {
        Some(LinearKernels {
            forward: |input, weight, bias| match input.dtype() {
                DType::F64 => linear::<B, f64>(input, weight, bias),
                _ => linear::<B, f32>(input, weight, bias),
            },
            gradients: |input, weight, d_output, wanted| match input.dtype() {
                DType::F64 => linear_gradients::<B, f64>(input, weight, d_output, wanted),
                _ => linear_gradients::<B, f32>(input, weight, d_output, wanted),
            },
        })
    }

    fn recycle(tensors: impl IntoIterator<Item = FloatTensor<B>>) {
        for tensor in tensors {
            match tensor.dtype() {
                DType::F32 => recycle::<B, f32>(tensor),
                DType::F64 => recycle::<B, f64>(tensor),
                _ => {}
            }
        }
    }
}

/// Every call was checked against what it is asked to fit; the kernels check once more.
const CHECKED: &str = "the call was checked";

fn forward<B: CpuBackend + Storage<T>, T: Real>(
    parts: &Parts<FloatTensor<B>>,
    call: &KernelCall<B>,
) -> [FloatTensor<B>; 3] {
    let [batch, seq_q, n_heads, _] = parts.query.shape().dims();
    let [.., value_dim] = parts.value.shape().dims::<4>();
    let run = |call: Call<'_, T>| mha_cpu::forward(&call);
    let output = with_call(parts, call, run).expect(CHECKED);
    let context = B::make(output.context, vec![batch, seq_q, n_heads, value_dim]);
    let [lse, rest] =
        [output.lse, output.rest].map(|all| B::make(all, vec![batch, n_heads, seq_q]));
    [context, lse, rest]
}

fn backward<B: CpuBackend + Storage<T>, T: Real>(
    parts: &Parts<FloatTensor<B>>,
    call: &KernelCall<B>,
    saved: &Saved<FloatTensor<B>>,
    wanted: &Parts<bool>,
) -> Parts<Option<FloatTensor<B>>> {
    let saved = [&saved.context, &saved.lse, &saved.rest, &saved.d_context];
    let [context, lse, rest, d_context] = saved.map(|tensor| B::read(tensor));
    let (lse, rest) = (lse.in_order(), rest.in_order());
    let (context, d_context) = (context.view(), d_context.view());
    let saved = mha_cpu::Saved { context, lse: &lse, rest: &rest, d_context };
    let wanted = Wanted {
        query: wanted.query,
        key: wanted.key,
        value: wanted.value,
        bias: wanted.bias.unwrap_or(false),
        relative: wanted.relative.unwrap_or(false),
        sink: wanted.sink.unwrap_or(false),
    };
    let run = |call: Call<'_, T>| mha_cpu::backward(&call, &saved, wanted);
    let gradients = with_call(parts, call, run).expect(CHECKED);
    let gradient = |of: &FloatTensor<B>, numbers: Option<Vec<T>>| {
        numbers.map(|numbers| B::make(numbers, of.shape().to_vec()))
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

/// Calls `run` with the call in the kernels' own terms.
fn with_call<B: CpuBackend + Storage<T>, T: Real, R>(
    parts: &Parts<FloatTensor<B>>,
    call: &KernelCall<B>,
    run: impl FnOnce(Call<'_, T>) -> R,
) -> R {
    let KernelCall { numbers, hidden, seed } = call;
    let parts = parts.as_ref().map(B::read);
    let hidden: Vec<_> = hidden.iter().map(B::read_bool).collect();
    let table = parts.relative.as_ref().map(Strided::in_order);
    let quiet = || vec![T::default(); numbers.n_heads];
    let sink = match &parts.sink {
        Some(sink) => Some(sink.in_order()),
        None => numbers.quiet.then(quiet).map(Cow::Owned),
    };

    let mut call = Call::new(parts.query.view(), parts.key.view(), parts.value.view());
    call.n_memory = numbers.n_memory;
    call.scale = numbers.scale;
    call.softcap = numbers.softcap;
    call.mask = Mask {
        runs: numbers.runs.get_or_init(|| runs(numbers)).as_ref(),
        // Ids are compared pair by pair: runs of equal ids may be as many as the pairs.
        segments: segments(&numbers.rules).map(|[query, key]| Segments { query, key }).collect(),
        dense: hidden.iter().map(Strided::view).collect(),
    };
    call.bias = parts.bias.as_ref().map(Strided::view);
    call.alibi = numbers.alibi.as_deref();
    call.relative = table.as_deref().map(|table| Relative { table, reach: numbers.reach });
    call.positions = positions(numbers);
    call.sink = sink.as_deref();
    call.dropout = seed.as_ref().map(|seed| {
        let seed = Tensor::<B, 1, Int>::from_primitive(seed.clone()).into_data();
        let words: Vec<u32> = seed.iter::<i64>().map(|word| word as u32).collect();
        let words = words.try_into().expect("a seed has two words");
        Dropout { probability: numbers.dropout, words }
    });
    run(call)
}

/// What all rules but the segments leave visible, if that is not everything.
fn runs(numbers: &Numbers) -> Option<Runs> {
    let rows = visible_rows(without_segments(&numbers.rules), &numbers.frame)?;
    Some(Runs::new(rows.len(), numbers.frame.seq_q, |b, i| rows[b][i].clone()))
}

fn positions(numbers: &Numbers) -> Positions {
    let Gap { after, length } = numbers.frame.gap;
    Positions { offsets: offsets(&numbers.frame), gap_after: after, gap: length }
}

fn linear<B: Storage<T>, T: Real>(
    input: &FloatTensor<B>,
    weight: &FloatTensor<B>,
    bias: Option<&FloatTensor<B>>,
) -> FloatTensor<B> {
    let mut dims = input.shape().to_vec();
    *dims.last_mut().expect("features") = weight.shape()[1];
    let [input, weight] = [input, weight].map(B::read);
    let bias = bias.map(B::read);
    let bias = bias.as_ref().map(Strided::in_order);
    let output = mha_cpu::linear(input.matrix().view(), weight.view(), bias.as_deref());
    B::make(output.expect(CHECKED), dims)
}

fn linear_gradients<B: Storage<T>, T: Real>(
    input: &FloatTensor<B>,
    weight: &FloatTensor<B>,
    d_output: &FloatTensor<B>,
    wanted: [bool; 3],
) -> [Option<FloatTensor<B>>; 3] {
    let (of_input, of_weight) = (input.shape().to_vec(), weight.shape().to_vec());
    let of_bias = of_weight[1..].to_vec();
    let [input, weight, d_output] = [input, weight, d_output].map(B::read);
    let (rows, d_rows) = (input.matrix(), d_output.matrix());
    let gradients =
        mha_cpu::linear_backward(rows.view(), weight.view(), d_rows.view(), wanted).expect(CHECKED);
    let mut dims = [of_input, of_weight, of_bias].into_iter();
    gradients.map(|numbers| {
        let dims = dims.next().expect("three of each");
        numbers.map(|numbers| B::make(numbers, dims))
    })
}

fn recycle<B: Storage<T>, T: Real>(tensor: FloatTensor<B>) {
    if let Some(numbers) = B::unmake(tensor) {
        mha_cpu::recycle(numbers);
    }
}
