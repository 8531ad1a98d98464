//! A look at what is computed, while it is computed.

use burn::tensor::{Tensor, backend::Backend};

/// Sees the tensors between query, key and value and the context, each `[batch, n_heads, seq_q,
/// n_keys]`. The steps are those that [`plain`](super::plain) takes, in its order.
pub(crate) trait Trace<B: Backend> {
    fn see(&mut self, stage: Stage, tensor: &Tensor<B, 4>);
}

/// What a tensor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Q Kᵀ.
    Raw,
    /// Times the scale.
    Scaled,
    /// Within ±cap.
    Capped,
    /// One of the biases, before it is added.
    Bias(&'static str),
    /// With all biases.
    Biased,
    /// After the softmax.
    Weights,
    /// After dropout.
    Dropped,
}

/// Looks away.
impl<B: Backend> Trace<B> for () {
    fn see(&mut self, _: Stage, _: &Tensor<B, 4>) {}
}
