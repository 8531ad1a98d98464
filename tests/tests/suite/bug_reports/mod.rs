//! Bugs reported against attention modules elsewhere, made small, with the right answers.
//!
//! Each test names a report, and has its number in our list. "Uniform" is a query of zeros, so
//! that every visible key has the same score; the core value is the output of a module whose
//! projections are the identity.

mod alibi;
mod cache;
mod causal;
mod gradients;
mod grouped;
mod hidden;
mod layout;
mod lengths;
mod masks;
mod precision;
mod pytorch;
mod rotary;
mod rows;
mod saved;
mod scale;
mod sinks;
mod softcap;
mod weights;
mod widths;
mod window;

use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use mha_tests::{floats, tensor};

/// A module that is its core: identity projections without bias, and no dropout.
fn core<B: Backend>(d_model: usize, n_heads: usize) -> MultiHeadAttention<B> {
    core_of(&MultiHeadAttentionConfig::new(d_model, n_heads).with_dropout(0.0))
}

/// The module of a configuration, with identity projections without bias. A projection to fewer
/// features takes the first ones.
fn core_of<B: Backend>(config: &MultiHeadAttentionConfig) -> MultiHeadAttention<B> {
    let device = B::Device::default();
    let mut module = config.clone().with_bias(false).init::<B>(&device);
    let layers = [&mut module.query, &mut module.key, &mut module.value, &mut module.output];
    for layer in layers {
        let [d_input, d_output] = layer.weight.dims();
        let eye = Tensor::eye(d_input.max(d_output), &device);
        let weight = eye.slice([0..d_input, 0..d_output]);
        *layer = Linear { weight: Param::from_tensor(weight), bias: None };
    }
    module
}

/// Uniform attention over the values, one feature: what each of `seq_q` queries gets.
fn uniform<B: Backend>(
    seq_q: usize,
    values: &[f32],
    masks: impl FnOnce(MhaInput<B>) -> MhaInput<B>,
) -> Vec<f32> {
    let device = B::Device::default();
    let query = Tensor::zeros([1, seq_q, 1], &device);
    let key = Tensor::zeros([1, values.len(), 1], &device);
    let input = MhaInput::new(query, key, tensor(values, [1, values.len(), 1]));
    floats(core(1, 1).forward(masks(input)).context)
}

fn count_up(n: usize) -> Vec<f32> {
    (1..=n).map(|x| x as f32).collect()
}

#[track_caller]
fn assert_finite(numbers: &[f32]) {
    assert!(numbers.iter().all(|x| x.is_finite()), "{numbers:?}");
}

/// The gradients of every parameter.
fn parameter_gradients<B: AutodiffBackend>(
    module: &MultiHeadAttention<B>,
    gradients: &B::Gradients,
) -> Vec<f32> {
    struct Visitor<'a, B: AutodiffBackend>(&'a B::Gradients, Vec<f32>);

    impl<B: AutodiffBackend> ModuleVisitor<B> for Visitor<'_, B> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            self.1.extend(floats(param.grad(self.0).expect("every parameter has a gradient")));
        }
    }

    let mut visitor = Visitor::<B>(gradients, Vec::new());
    module.visit(&mut visitor);
    visitor.1
}
