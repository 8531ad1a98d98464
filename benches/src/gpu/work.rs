//! What is timed, on one path.

use std::fmt;
use std::time::Instant;

use burn::module::Module;
use burn::tensor::backend::AutodiffBackend;
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
    /// A sum over what was computed.
    pub(super) outcome: f64,
}

/// What a run leaves on the device, flat.
pub(super) type Left = Vec<Tensor<Inner, 1>>;
type Inner = <B as AutodiffBackend>::InnerBackend;

/// A work that is prepared for a path: tensors and parameters are on the device.
pub(super) struct Ready {
    run: Box<dyn FnMut() -> Left>,
}

impl Ready {
    /// The same numbers for every path.
    pub(super) fn new(work: Work, path: Path) -> Self {
        let run: Box<dyn FnMut() -> Left> = match work {
            Work::Forward { length, causal } => context([length; 3], options(causal).path(path)),
            Work::Decode { cached } => context([1, cached, cached], options(true).path(path)),
            Work::Gradients { length, causal } => {
                let [query, key, value, upstream] = rows([length; 4]);
                let rows = [query, key, value].map(Tensor::require_grad);
                let options = options(causal).path(path);
                Box::new(move || {
                    let [query, key, value] = rows.clone();
                    let context = mha::attention(query, key, value, &options).context;
                    let gradients = (context * upstream.clone()).sum().backward();
                    let of = rows.each_ref().map(|part| part.grad(&gradients));
                    of.into_iter().flatten().map(flat).collect()
                })
            }
            Work::TrainStep { length } => {
                let (layer, tokens) = layer(length);
                Box::new(move || train_step(&layer, &tokens, path))
            }
        };
        Self { run }
    }

    /// Runs it, until the device has computed all of it.
    pub(super) fn run(&mut self) -> Outcome {
        let start = Instant::now();
        let left = (self.run)();
        wait_for(&left);
        let seconds = start.elapsed().as_secs_f64();
        let sums = left
            .into_iter()
            .map(|tensor| tensor.abs().sum().into_data().iter::<f64>().sum::<f64>());
        Outcome { seconds, outcome: sums.sum() }
    }
}

/// Waits until the device has computed all of it.
pub(super) fn wait_for(left: &Left) {
    for tensor in left {
        tensor.clone().narrow(0, 0, 1).into_data();
    }
}

/// Attention alone, without gradients.
fn context(lengths: [usize; 3], options: AttentionOptions<Inner>) -> Box<dyn FnMut() -> Left> {
    let [query, key, value] = rows(lengths).map(Tensor::inner);
    Box::new(move || {
        let [query, key, value] = [&query, &key, &value].map(Tensor::clone);
        vec![flat(mha::attention(query, key, value, &options).context)]
    })
}

fn flat<const D: usize>(tensor: Tensor<Inner, D>) -> Tensor<Inner, 1> {
    tensor.flatten(0, D - 1)
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
pub(super) fn train_step(layer: &MultiHeadAttention<B>, tokens: &Tensor<B, 3>, path: Path) -> Left {
    let context = layer.forward(MhaInput::self_attn(tokens.clone()).path(path)).context;
    let gradients = context.powi_scalar(2).mean().backward();
    let of_weight = layer.query.weight.grad(&gradients).map(flat);
    let of_tokens = tokens.grad(&gradients).map(flat);
    of_weight.into_iter().chain(of_tokens).collect()
}

fn rows<const N: usize>(lengths: [usize; N]) -> [Tensor<B, 4>; N] {
    let device = Default::default();
    <B as burn::tensor::backend::Backend>::seed(&device, 1);
    let normal = Distribution::Normal(0.0, 1.0);
    lengths.map(|length| Tensor::random([1, length, N_HEADS, HEAD_DIM], normal, &device))
}

fn options<B: burn::tensor::backend::Backend>(causal: bool) -> AttentionOptions<B> {
    let mask = if causal { Mask::causal() } else { Mask::none() };
    AttentionOptions::default().mask(mask)
}
