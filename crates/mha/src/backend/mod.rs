//! The backends that bring kernels of their own, and what kernels are asked to compute.
//!
//! One file per backend; what those on a CPU share is in [`cpu`]. Everything here is on Burn's
//! primitives, off the graph: gradients are the business of [`attention`](crate::attention).

mod call;
#[cfg(any(feature = "ndarray", feature = "flex"))]
mod cpu;
#[cfg(feature = "flex")]
mod flex;
mod in_place;
#[cfg(feature = "ndarray")]
mod ndarray;
mod parts;
#[cfg(any(feature = "ndarray", feature = "flex"))]
mod strided;

use burn::tensor::DType;
use burn::tensor::ops::FloatTensor;

pub(crate) use call::Numbers;
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

    /// The context, `[batch, seq_q, n_heads, value_dim]`, the log-sum-exps and what rounding took from
    /// them, `[batch, n_heads, seq_q]` both.
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

    /// `[.., d_input]` times `[d_input, d_output]`, plus a bias `[d_output]`.
    fn linear_forward(
        input: &FloatTensor<Self>,
        weight: &FloatTensor<Self>,
        bias: Option<&FloatTensor<Self>>,
    ) -> FloatTensor<Self>;

    /// The gradients of input, weight and bias, each if wanted, given that of the output.
    fn linear_gradients(
        input: &FloatTensor<Self>,
        weight: &FloatTensor<Self>,
        d_output: &FloatTensor<Self>,
        wanted: [bool; 3],
    ) -> [Option<FloatTensor<Self>>; 3];

    /// Lets later results have the memory of tensors that nobody else needs.
    fn recycle(tensors: impl IntoIterator<Item = FloatTensor<Self>>);
}
