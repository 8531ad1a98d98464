//! What joins the denominator of a softmax besides the keys.

use burn::tensor::{DType, Tensor, backend::Backend};

use crate::Sink;

/// The sink of one call: p = e^s / (e^sink + Σ e^s).
#[derive(Debug, Clone, Default)]
pub(crate) enum SinkInput<B: Backend> {
    /// Nothing: the plain softmax.
    #[default]
    None,
    /// A logit of 0.
    Quiet,
    /// A key of score 0 and value 0, whose weight is among the weights returned, the last of a row.
    ZeroKey,
    /// A logit for each head: `[n_heads]`.
    Learned(Tensor<B, 1>),
}

impl<B: Backend> SinkInput<B> {
    pub(crate) fn kind(&self) -> Sink {
        match self {
            Self::None => Sink::None,
            Self::Quiet => Sink::Quiet,
            Self::ZeroKey => Sink::ZeroKey,
            Self::Learned(_) => Sink::Learned,
        }
    }

    /// The logits in the type of the scores, `[1, n_heads or 1, 1, 1]`, if there is a sink.
    pub(crate) fn logits(&self, device: &B::Device, dtype: DType) -> Option<Tensor<B, 4>> {
        match self {
            Self::None => None,
            Self::Quiet | Self::ZeroKey => Some(Tensor::zeros([1; 4], (device, dtype))),
            Self::Learned(logits) => {
                let [n_heads] = logits.dims();
                let logits = logits.clone().reshape([1, n_heads, 1, 1]);
                Some(if logits.dtype() == dtype { logits } else { logits.cast(dtype) })
            }
        }
    }
}
