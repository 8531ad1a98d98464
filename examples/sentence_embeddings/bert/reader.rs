//! Tensors of a checkpoint as Burn's modules.

use std::collections::BTreeSet;

use burn::{
    module::Param,
    nn::{Embedding, LayerNorm, LayerNormConfig, Linear},
    tensor::{Tensor, backend::Backend},
};
use mha::{
    MultiHeadAttention,
    weights::{Checkpoint, Error},
};

/// Reads tensors and remembers which.
pub(super) struct Reader<'a, B: Backend> {
    checkpoint: &'a Checkpoint,
    device: &'a B::Device,
    pub(super) used: BTreeSet<String>,
}

impl<'a, B: Backend> Reader<'a, B> {
    pub(super) fn new(checkpoint: &'a Checkpoint, device: &'a B::Device) -> Self {
        Self { checkpoint, device, used: BTreeSet::new() }
    }

    /// The tensor `name`, which must have this shape.
    fn parameter<const D: usize>(
        &mut self,
        name: String,
        shape: [usize; D],
    ) -> Result<Tensor<B, D>, Error> {
        let tensor = self.checkpoint.tensor(&name, shape, self.device)?;
        self.used.insert(name);
        Ok(tensor)
    }

    /// `NAME.weight`: `[n, d_model]`.
    pub(super) fn embedding(
        &mut self,
        name: &str,
        n: usize,
        d_model: usize,
    ) -> Result<Embedding<B>, Error> {
        let weight = self.parameter(format!("{name}.weight"), [n, d_model])?;
        Ok(Embedding { weight: Param::from_tensor(weight) })
    }

    /// `NAME.weight`, which files have as `[d_output, d_input]`, and `NAME.bias`.
    pub(super) fn linear(
        &mut self,
        name: &str,
        d_input: usize,
        d_output: usize,
    ) -> Result<Linear<B>, Error> {
        let weight = self.parameter(format!("{name}.weight"), [d_output, d_input])?;
        let bias = self.parameter(format!("{name}.bias"), [d_output])?;
        // Transposed once, here: a view would be walked through against its order in every product.
        let weight = Tensor::from_data(weight.transpose().into_data(), self.device);
        Ok(Linear { weight: Param::from_tensor(weight), bias: Some(Param::from_tensor(bias)) })
    }

    /// `NAME.weight` and `NAME.bias`: `[d_model]`.
    pub(super) fn norm(
        &mut self,
        name: &str,
        d_model: usize,
        epsilon: f64,
    ) -> Result<LayerNorm<B>, Error> {
        let mut norm = LayerNormConfig::new(d_model).with_epsilon(epsilon).init(self.device);
        norm.gamma = Param::from_tensor(self.parameter(format!("{name}.weight"), [d_model])?);
        norm.beta = Some(Param::from_tensor(self.parameter(format!("{name}.bias"), [d_model])?));
        Ok(norm)
    }

    /// The attention layer at `prefix`, whose sizes, heads and dropout the checkpoint knows.
    pub(super) fn attention(&mut self, prefix: &str) -> Result<MultiHeadAttention<B>, Error> {
        let layer = self.checkpoint.layer(prefix)?;
        let loaded = self.checkpoint.load(&layer, self.device)?;
        self.used.extend(loaded.report.used.into_iter().map(|used| used.tensor));
        Ok(loaded.attention)
    }
}
