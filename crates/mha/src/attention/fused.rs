//! Attention by a backend's own kernels.

use std::sync::Arc;

use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;
use burn::tensor::{DType, Int, Shape, Tensor, TensorPrimitive};

use super::plain::{in_f32, scaled_heads};
use super::sink::SinkInput;
use super::table::Entry;
use super::{Attention, Problem, autodiff, distance};
use crate::backend::{
    Extent, InPlace, KernelCall, Kernels, LinearKernels, Numbers, Parts, TooLarge,
};

/// A backend with kernels of its own for attention and for linear layers. They store nothing of size
/// `seq_q × seq_k`, forward or backward.
///
/// The features `ndarray`, `flex`, `wgpu` and `cuda` bring kernels for those backends, whatever their
/// element types, with and without Burn's fusion, and for [`Autodiff`] over them with any checkpointing. This crate finds those in common use by
/// itself; [`register`](crate::register) adds the others. No other crate can implement the trait.
///
/// # Example
///
/// ```
/// use burn::backend::{Autodiff, NdArray};
/// use mha::FusedAttention;
///
/// fn has_kernels<B: FusedAttention>() -> bool {
///     mha::is_fused::<B>()
/// }
/// assert!(has_kernels::<Autodiff<NdArray>>());
/// ```
pub trait FusedAttention: InPlace {
    /// Whether the kernels take this element type.
    #[doc(hidden)]
    fn takes(dtype: DType) -> bool;

    /// Whether the device can compute a call of these sizes.
    #[doc(hidden)]
    fn fits(device: &Self::Device, extent: &Extent) -> Result<(), TooLarge>;

    /// The context, `[batch, seq_q, n_heads, value_dim]`, and the log-sum-exps, `[batch, n_heads,
    /// seq_q]`, which have no gradient.
    #[doc(hidden)]
    fn fused_attention(
        parts: Parts<FloatTensor<Self>>,
        call: KernelCall<Self>,
    ) -> [FloatTensor<Self>; 2];

    /// What computes `[.., d_input]` times `[d_input, d_output]`, plus a bias `[d_output]`, if the
    /// backend has better than Burn's.
    #[doc(hidden)]
    fn fused_linear() -> Option<LinearOf<Self>>;
}

/// A linear layer of input, weight and bias.
pub(super) type LinearOf<B> =
    fn(FloatTensor<B>, FloatTensor<B>, Option<FloatTensor<B>>) -> FloatTensor<B>;

/// Without gradients there is nothing to keep.
impl<B: Kernels> FusedAttention for B {
    fn takes(dtype: DType) -> bool {
        B::computes(dtype)
    }

    fn fits(device: &Self::Device, extent: &Extent) -> Result<(), TooLarge> {
        <B as Kernels>::fits(device, extent)
    }

    fn fused_attention(parts: Parts<FloatTensor<B>>, call: KernelCall<B>) -> [FloatTensor<B>; 2] {
        let [context, lse, rest] = B::attention_forward(&parts, &call);
        B::recycle(parts.list().into_iter().chain([rest]));
        [context, lse]
    }

    fn fused_linear() -> Option<LinearOf<B>> {
        B::linear_kernels()?;
        Some(|input, weight, bias| {
            let output = (linear_kernels::<B>().forward)(&input, &weight, bias.as_ref());
            B::recycle([input]);
            output
        })
    }
}

/// Over kernels, not over another autodiff: their gradients have no gradient.
impl<B: Kernels, C: CheckpointStrategy> FusedAttention for Autodiff<B, C> {
    fn takes(dtype: DType) -> bool {
        B::computes(dtype)
    }

    fn fits(device: &Self::Device, extent: &Extent) -> Result<(), TooLarge> {
        <B as Kernels>::fits(device, extent)
    }

    fn fused_attention(
        parts: Parts<FloatTensor<Self>>,
        call: KernelCall<Self>,
    ) -> [FloatTensor<Self>; 2] {
        let KernelCall { numbers, hidden, seed } = call;
        autodiff::attention::<B, C>(parts, KernelCall { numbers, hidden, seed })
    }

    fn fused_linear() -> Option<LinearOf<Self>> {
        B::linear_kernels()?;
        Some(autodiff::linear::<B, C>)
    }
}

/// Those of a backend that has some.
pub(super) fn linear_kernels<B: Kernels>() -> LinearKernels<B> {
    B::linear_kernels().expect("asked for before")
}

impl<B: Kernels, C: CheckpointStrategy> InPlace for Autodiff<B, C> {
    fn reshape(tensor: FloatTensor<Self>, shape: Shape) -> FloatTensor<Self> {
        autodiff::reshape::<B, C>(tensor, shape)
    }
}

/// The attention of a problem that [`path`](super::path) found the kernels to be able to compute.
pub(super) fn attention<B: Backend>(problem: Problem<B>, kernels: Entry<B>) -> Attention<B> {
    let dtype = problem.query.dtype();
    let (head_scale, wants_lse) = (problem.options.head_scale.clone(), problem.options.lse);
    let (parts, call) = arguments(problem, kernels);
    let [context, lse] = (kernels.attention)(parts, call);
    let context = Tensor::from_primitive(TensorPrimitive::Float(context));
    let lse = || Tensor::from_primitive(TensorPrimitive::Float(lse));
    Attention {
        context: scaled_heads(context, head_scale, dtype),
        weights: None,
        lse: wants_lse.then(lse),
    }
}

/// The problem in the kernels' terms: queries, keys and values as they are if the kernels take them,
/// else in f32, and all that is added to scores in f32 at least.
fn arguments<B: Backend>(
    problem: Problem<B>,
    kernels: Entry<B>,
) -> (Parts<FloatTensor<B>>, KernelCall<B>) {
    let Problem { query, key, value, sizes, n_memory, frame, options, .. } = problem;
    let device = query.device();
    let seed = options.dropout.is_on::<B>(&device).then(|| {
        let seed: Tensor<B, 1, Int> = options.dropout.seed(&device);
        seed.into_primitive()
    });
    // Biases, masks and places are of the call's own keys, of which there may be none.
    let own_keys = sizes.seq_k > 0;
    let (mut relative, mut reach) = (None, 0);
    if let Some((buckets, table)) = options.t5.filter(|_| own_keys) {
        reach = distance::reach(&buckets, &frame);
        relative = Some(distance::by_distance(&buckets, in_f32(table), reach));
    }
    let hidden = options.mask.dense_masks().filter(|_| own_keys);
    let hidden = hidden.map(|(_, hidden)| hidden.clone().into_primitive()).collect();
    let rules = if own_keys { options.mask.rules().to_vec() } else { Vec::new() };
    let numbers = Numbers {
        n_memory,
        #[cfg(any(feature = "ndarray", feature = "flex"))]
        n_heads: sizes.n_heads,
        scale: options.scale.unwrap_or(1.0 / (sizes.head_dim as f64).sqrt()),
        softcap: options.softcap,
        rules,
        frame,
        alibi: options.alibi.filter(|_| own_keys),
        reach,
        quiet: matches!(options.sink, SinkInput::Quiet | SinkInput::ZeroKey),
        dropout: options.dropout.probability,
        #[cfg(any(feature = "ndarray", feature = "flex"))]
        runs: Default::default(),
        #[cfg(feature = "cube")]
        seen: Default::default(),
    };
    let rows = |tensor: Tensor<B, 4>| match (kernels.takes)(tensor.dtype()) {
        true => tensor.into_primitive().tensor(),
        false => primitive(tensor),
    };
    let parts = Parts {
        query: rows(query),
        key: rows(key),
        value: rows(value),
        bias: options.bias.filter(|_| own_keys).map(primitive),
        relative: relative.map(primitive),
        sink: match options.sink {
            SinkInput::Learned(logits) => Some(primitive(logits)),
            SinkInput::None | SinkInput::Quiet | SinkInput::ZeroKey => None,
        },
    };
    (parts, KernelCall { numbers: Arc::new(numbers), hidden, seed })
}

fn primitive<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> FloatTensor<B> {
    in_f32(tensor).into_primitive().tensor()
}
