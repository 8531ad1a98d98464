//! Keeps what lies between split and context.

use burn::tensor::{Tensor, backend::Backend};

use super::step::Step;
use crate::attention::{Problem, Sizes, Stage, Trace};

/// Every stage of the attention, in order.
#[derive(Debug, Clone)]
pub(super) struct Recorder<B: Backend> {
    stages: Vec<(Stage, Tensor<B, 4>)>,
}

// By hand: a derive would ask for `B: Default`.
impl<B: Backend> Default for Recorder<B> {
    fn default() -> Self {
        Self { stages: Vec::new() }
    }
}

impl<B: Backend> Trace<B> for Recorder<B> {
    fn see(&mut self, stage: Stage, tensor: &Tensor<B, 4>) {
        self.stages.push((stage, tensor.clone()));
    }
}

impl<B: Backend> Recorder<B> {
    /// The number of one pair at a stage, if the call had it.
    pub(super) fn read(&self, stage: Stage, pair: [usize; 4]) -> Option<f64> {
        let (_, tensor) = self.stages.iter().find(|(other, _)| *other == stage)?;
        Some(read(tensor, pair))
    }

    /// What each bias adds to one pair.
    pub(super) fn biases(&self, pair: [usize; 4]) -> Vec<(&'static str, f64)> {
        let name = |(stage, tensor): &(Stage, Tensor<B, 4>)| match stage {
            Stage::Bias(name) => Some((*name, read(tensor, pair))),
            _ => None,
        };
        self.stages.iter().filter_map(name).collect()
    }

    pub(super) fn steps(&self, problem: &Problem<B>) -> Vec<Step> {
        let Sizes { batch, n_heads, seq_q, head_dim, .. } = problem.sizes;
        let options = &problem.options;
        let products = 2 * (batch * n_heads * seq_q * problem.n_keys() * head_dim) as u64;
        let step = |(stage, tensor): &(Stage, Tensor<B, 4>)| match stage {
            Stage::Raw => Step::of("scores", "S", "Q Kᵀ", tensor).with_flops(products),
            Stage::Scaled => {
                let scale = match options.scale {
                    Some(scale) => format!("S · {scale}"),
                    None => format!("S / √{head_dim}"),
                };
                Step::of("scale", "S", scale, tensor)
            }
            Stage::Capped => {
                let cap = options.softcap.unwrap_or(f64::NAN);
                Step::of("softcap", "S", format!("{cap} · tanh(S / {cap})"), tensor)
            }
            Stage::Bias("ALiBi") => Step::of("ALiBi", "B", "-slope · |distance|", tensor),
            Stage::Bias("T5") => Step::of("T5", "B", "table[bucket(distance)]", tensor),
            Stage::Bias(name) => Step::of(name, "B", "given by the caller", tensor),
            Stage::Biased => Step::of("biased", "S", "S + B", tensor),
            Stage::Weights => {
                let sink = options.sink.logits(&tensor.device(), tensor.dtype());
                let formula = match sink {
                    Some(_) => "e^S / (e^sink + Σ e^S)",
                    None => "softmax(S)",
                };
                Step::of("weights", "P", formula, tensor)
            }
            Stage::Dropped => {
                let p = options.dropout.probability;
                Step::of("dropout", "P", format!("P / {:.3} or 0", 1.0 - p), tensor)
            }
        };
        let biased = self.stages.iter().any(|(stage, _)| matches!(stage, Stage::Bias(_)));
        let told = |(stage, _): &&(Stage, _)| biased || *stage != Stage::Biased;
        self.stages.iter().filter(told).map(step).collect()
    }
}

/// One number of a tensor whose axes may be 1.
fn read<B: Backend>(tensor: &Tensor<B, 4>, pair: [usize; 4]) -> f64 {
    let dims = tensor.dims();
    let at: [usize; 4] = std::array::from_fn(|axis| if dims[axis] == 1 { 0 } else { pair[axis] });
    let one = tensor.clone().slice(at.map(|x| x..x + 1));
    one.into_data().iter::<f64>().next().expect("one number")
}
