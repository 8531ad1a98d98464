//! The backends that bring kernels of their own, and what kernels are asked to compute.
//!
//! One file per backend; what those on a CPU share is in [`cpu`]. Everything here is on Burn's
//! primitives, off the graph: gradients are the business of [`attention`](crate::attention).

mod call;
#[cfg(any(feature = "ndarray", feature = "flex"))]
mod cpu;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(all(feature = "cube", feature = "fusion"))]
mod fusion;
mod in_place;
#[cfg(feature = "ndarray")]
mod ndarray;
mod parts;
#[cfg(any(feature = "ndarray", feature = "flex", feature = "cube"))]
mod rows;
#[cfg(any(feature = "ndarray", feature = "flex"))]
mod strided;

use burn::tensor::DType;
use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;

pub(crate) use call::{Extent, Numbers, TooLarge};
pub(crate) use call::{KernelCall, Saved};
pub(crate) use in_place::InPlace;
pub(crate) use parts::Parts;

/// Frees the memory that the kernels on a CPU keep for later results: at most 64 MiB for f32 and as
/// much for f64, of tensors that nobody needed any more.
///
/// # Example
///
/// ```
/// mha::free_buffers();
/// ```
pub fn free_buffers() {
    #[cfg(any(feature = "ndarray", feature = "flex"))]
    mha_cpu::free_buffers();
}

/// What a backend without autodiff brings. All tensors of a call have one element type, which is
/// among those that [`computes`](Self::computes) tells. The functions' names are none of Burn's.
pub trait Kernels: InPlace {
    /// Whether the kernels take this element type.
    fn computes(dtype: DType) -> bool;

    /// Whether the device can compute a call of these sizes, or what is too large for it.
    fn fits(_device: &Self::Device, _extent: &Extent) -> Result<(), TooLarge> {
        Ok(())
    }

    /// The context, `[batch, seq_q, n_heads, value_dim]`, the log-sum-exps, `[batch, n_heads, seq_q]`,
    /// and what else the backward pass needs.
    fn attention_forward(
        parts: &Parts<FloatTensor<Self>>,
        call: &KernelCall<Self>,
    ) -> [FloatTensor<Self>; 3];

    /// The gradients of the parts that are wanted, in their shapes.
    fn attention_backward(
        parts: &Parts<FloatTensor<Self>>,
        call: &KernelCall<Self>,
        saved: &Saved<FloatTensor<Self>>,
        wanted: &Parts<bool>,
    ) -> Parts<Option<FloatTensor<Self>>>;

    /// Kernels of linear layers, where the backend's own are not as fast.
    fn linear_kernels() -> Option<LinearKernels<Self>> {
        None
    }

    /// Lets later results have the memory of tensors that nobody else needs.
    fn recycle(_tensors: impl IntoIterator<Item = FloatTensor<Self>>) {}
}

/// A linear layer, forward and backward.
#[derive(Debug)]
pub struct LinearKernels<B: Backend> {
    /// `[.., d_input]` times `[d_input, d_output]`, plus a bias `[d_output]`.
    pub forward: LinearForward<B>,
    /// The gradients of input, weight and bias, each if wanted, given that of the output.
    pub gradients: LinearGradients<B>,
}

type LinearForward<B> =
    fn(&FloatTensor<B>, &FloatTensor<B>, Option<&FloatTensor<B>>) -> FloatTensor<B>;
type LinearGradients<B> =
    fn(&FloatTensor<B>, &FloatTensor<B>, &FloatTensor<B>, [bool; 3]) -> [Option<FloatTensor<B>>; 3];
