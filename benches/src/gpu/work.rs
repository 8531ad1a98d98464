//! What is timed, on one path.

use std::fmt;
use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Distribution, Tensor};
use mha::{AttentionOptions, Mask, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, Path};

use super::B;
use crate::case::{D_MODEL, HEAD_DIM, N_HEADS};

/// One thing to do, for one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Attention alone.
    Forward { length: usize, causal: bool },
    /// Attention alone, forward and backward.
    Gradients { length: usize, causal: bool },
    /// The whole layer, forward and backward, without optimizer.
    TrainStep { length: usize },
    /// Attention of one query over the keys of a cache.
    Decode { cached: usize },
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causally = |causal| if causal { ", causal" } else { "" };
        match *self {
            Self::Forward { length, causal } => {
                write!(f, "1 x {length}, attention forward{}", causally(causal))
            }
            Self::Gradients { length, causal } => {
                write!(f, "1 x {length}, attention forward and backward{}", causally(causal))
            }
            Self::TrainStep { length } => write!(f, "1 x {length}, train step of the layer"),
            Self::Decode { cached } => write!(f, "1 query over {cached} keys"),
        }
    }
}

/// What one run gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) seconds: f64,
    /// A sum over what was computed, so that it has been.
    pub(super) outcome: f64,
}

/// A work that is prepared for a path: tensors and parameters are on the device.
pub(super) struct Ready {
    run: Box<dyn FnMut() -> f64>,
}

impl Ready {
    /// The same numbers for every path.
    pub(super) fn new(work: Work, path: Path) -> Self {
        let run: Box<dyn FnMut() -> f64> = match work {
            Work::Forward { length, causal } => {
                let [query, key, value] = rows([length; 3]).map(Tensor::inner);
                let options = options(causal).path(path);
                Box::new(move || {
                    let [query, key, value] = [&query, &key, &value].map(Tensor::clone);
                    sum(mha::attention(query, key, value, &options).context)
                })
            }
            Work::Decode { cached } => {
                let [query, key, value] = rows([1, cached, cached]).map(Tensor::inner);
                let options = options(true).path(path);
                Box::new(move || {
                    let [query, key, value] = [&query, &key, &value].map(Tensor::clone);
                    sum(mha::attention(query, key, value, &options).context)
                })
            }
            Work::Gradients { length, causal } => {
                let rows = rows([length; 3]).map(Tensor::require_grad);
                let options = options(causal).path(path);
                Box::new(move || {
                    let [query, key, value] = rows.clone();
                    let context = mha::attention(query, key, value, &options).context;
                    let gradients = context.powi_scalar(2).sum().backward();
                    let of = rows.each_ref().map(|part| part.grad(&gradients));
                    of.into_iter().flatten().map(|gradient| sum(gradient.abs())).sum()
                })
            }
            Work::TrainStep { length } => {
                let (layer, tokens) = layer(length);
                Box::new(move || train_step(&layer, &tokens, path))
            }
        };
        Self { run }
    }

    pub(super) fn run(&mut self) -> Outcome {
        let start = Instant::now();
        let outcome = (self.run)();
        Outcome { seconds: start.elapsed().as_secs_f64(), outcome }
    }
}

/// The layer, and tokens for it.
pub(super) fn layer(length: usize) -> (MultiHeadAttention<B>, Tensor<B, 3>) {
    let device = Default::default();
    <B as burn::tensor::backend::Backend>::seed(&device, 1);
    let config = MultiHeadAttentionConfig::new(D_MODEL, N_HEADS).with_dropout(0.0);
    let layer = config.init(&device);
    layer.num_params(); // drawn when they are first asked for
    let tokens = Tensor::random([1, length, D_MODEL], Distribution::Normal(0.0, 1.0), &device);
    (layer, tokens.require_grad())
}

/// Forward, mean of squares, backward to the tokens and all parameters.
pub(super) fn train_step(layer: &MultiHeadAttention<B>, tokens: &Tensor<B, 3>, path: Path) -> f64 {
    let context = layer.forward(MhaInput::self_attn(tokens.clone()).path(path)).context;
    let gradients = context.powi_scalar(2).mean().backward();
    let of_weight = layer.query.weight.grad(&gradients).map(|gradient| sum(gradient.abs()));
    let of_tokens = tokens.grad(&gradients).map(|gradient| sum(gradient.abs()));
    of_weight.unwrap_or(0.0) + of_tokens.unwrap_or(0.0)
}

fn rows(lengths: [usize; 3]) -> [Tensor<B, 4>; 3] {
    let device = Default::default();
    <B as burn::tensor::backend::Backend>::seed(&device, 1);
    let normal = Distribution::Normal(0.0, 1.0);
    lengths.map(|length| Tensor::random([1, length, N_HEADS, HEAD_DIM], normal, &device))
}

fn options<B: burn::tensor::backend::Backend>(causal: bool) -> AttentionOptions<B> {
    let mask = if causal { Mask::causal() } else { Mask::none() };
    AttentionOptions::default().mask(mask)
}

/// Waits for the device.
fn sum<B: burn::tensor::backend::Backend, const D: usize>(tensor: Tensor<B, D>) -> f64 {
    tensor.sum().into_data().iter::<f64>().sum()
}
