//! Normalization of queries and keys, head by head.

use burn::module::{Initializer, Module, Param};
use burn::tensor::{Tensor, backend::Backend};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::attention::plain::in_f32;
use crate::error::expect_shape;

/// How queries and keys are normalized, each over the features of a head, before positions are
/// rotated in. All have a learned factor for each feature, which starts at 1.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use mha::{MultiHeadAttention, MultiHeadAttentionConfig, QkNorm};
///
/// let device = Default::default();
/// let config = MultiHeadAttentionConfig::new(8, 2).with_qk_norm(QkNorm::Rms { epsilon: 1e-6 });
/// let attention: MultiHeadAttention<NdArray> = config.init(&device);
/// assert_eq!(attention.query_norm.unwrap().gamma.dims(), [4]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub enum QkNorm {
    /// x / √(mean(x²) + ε), times the factors (Zhang and Sennrich 2019:
    /// <https://arxiv.org/abs/1910.07467>). Qwen 3 has it with ε = 1e-6.
    Rms {
        /// Added below the root; positive.
        epsilon: f64,
    },
    /// (x - mean(x)) / √(variance(x) + ε), times the factors, plus a learned shift (Ba et al. 2016:
    /// <https://arxiv.org/abs/1607.06450>).
    Layer {
        /// Added below the root; positive.
        epsilon: f64,
    },
    /// x / √(Σ x² + ε), times the factors (Henry et al. 2020: <https://arxiv.org/abs/2010.04245>).
    /// Scores are then cosines times the scale: set the scale too, 10 say.
    L2 {
        /// Added below the root; positive.
        epsilon: f64,
    },
}

impl QkNorm {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let (Self::Rms { epsilon } | Self::Layer { epsilon } | Self::L2 { epsilon }) = *self;
        // Within these bounds neither ε nor its root is 0 or infinite in f32.
        if (1e-30..=1e30).contains(&epsilon) {
            return Ok(());
        }
        Err(Error::number("qk_norm", "have an epsilon in [1e-30, 1e30]", epsilon))
    }

    pub(crate) fn init<B: Backend>(self, head_dim: usize, device: &B::Device) -> HeadNorm<B> {
        let shift = matches!(self, Self::Layer { .. });
        HeadNorm {
            gamma: Initializer::Ones.init([head_dim], device),
            beta: shift.then(|| Initializer::Zeros.init([head_dim], device)),
            norm: self,
        }
    }
}

/// The normalization of queries, or of keys; built by [`QkNorm`].
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::Tensor;
/// use mha::{MultiHeadAttentionConfig, QkNorm};
///
/// let device = Default::default();
/// let config = MultiHeadAttentionConfig::new(4, 1).with_qk_norm(QkNorm::L2 { epsilon: 1e-12 });
/// let norm = config.init::<NdArray>(&device).query_norm.unwrap();
/// let heads = Tensor::from_data([[[[0.0, 3.0, 0.0, 4.0]]]], &device);
/// let unit = norm.forward(heads).into_data().to_vec::<f32>().unwrap();
/// assert_eq!(unit, [0.0, 0.6, 0.0, 0.8]);
/// ```
#[derive(Module, Debug)]
pub struct HeadNorm<B: Backend> {
    /// A factor for each feature: `[head_dim]`.
    pub gamma: Param<Tensor<B, 1>>,
    /// A shift for each feature, `[head_dim]`, of [`QkNorm::Layer`] alone.
    pub beta: Option<Param<Tensor<B, 1>>>,
    #[module(skip)]
    pub(crate) norm: QkNorm,
}

impl<B: Backend> HeadNorm<B> {
    /// Normalizes each head's features, `[batch, seq, heads, head_dim]`; computed in f32 for f16 and
    /// bf16.
    ///
    /// # Panics
    ///
    /// When the heads are not as wide as the factors.
    #[track_caller]
    pub fn forward(&self, heads: Tensor<B, 4>) -> Tensor<B, 4> {
        let (dims, dtype) = (heads.dims(), heads.dtype());
        let ([batch, seq, n_heads, _], [head_dim]) = (dims, self.gamma.dims());
        let axes = ["batch", "seq", "heads", "head_dim"];
        expect_shape("heads", axes, [batch, seq, n_heads, head_dim], dims);
        if dims.contains(&0) {
            return heads; // Burn's backends refuse tensors without elements
        }
        let x = in_f32(heads);
        let x = match self.norm {
            QkNorm::Rms { epsilon } => unit(x, 1.0 / head_dim as f64, epsilon),
            QkNorm::Layer { epsilon } => {
                let mean = x.clone().sum_dim(3).mul_scalar(1.0 / head_dim as f64);
                unit(x - mean, 1.0 / head_dim as f64, epsilon)
            }
            QkNorm::L2 { epsilon } => unit(x, 1.0, epsilon),
        };
        let x = x * in_f32(self.gamma.val()).reshape([1, 1, 1, head_dim]);
        let x = match &self.beta {
            Some(beta) => x + in_f32(beta.val()).reshape([1, 1, 1, head_dim]),
            None => x,
        };
        if x.dtype() == dtype { x } else { x.cast(dtype) }
    }
}

/// u = r x with r = 1/√(`share` Σ x² + ε) over the last axis.
///
/// Its derivative is r (dx - u · `share` Σ u dx). It comes from a term that is 0 and has it, so that
/// no gradient passes a reciprocal, which is approximate on NdArray.
fn unit<B: Backend>(x: Tensor<B, 4>, share: f64, epsilon: f64) -> Tensor<B, 4> {
    let values = x.clone().detach();
    let squares = values.clone().powi_scalar(2).sum_dim(3).mul_scalar(share);
    let root = squares.add_scalar(epsilon).sqrt();
    let unit = values / root.clone();
    if !B::ad_enabled(&x.device()) {
        return unit;
    }
    let zero = x.clone() - x.detach();
    let along = (unit.clone() * zero.clone()).sum_dim(3).mul_scalar(share);
    let r = root.ones_like() / root;
    unit.clone() + (zero - unit * along) * r
}
