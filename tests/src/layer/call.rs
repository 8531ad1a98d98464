//! One call of a module, with everything that gradients are asked of.

use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, TensorData};
use mha::{MhaInput, MultiHeadAttention};

use super::{Layer, Named, module_gradients};

/// A module with a layer's parameters, and the input of its call.
#[derive(Debug)]
pub struct Call<B: Backend> {
    /// The module.
    pub module: MultiHeadAttention<B>,
    /// Tokens, masks, bias, head scale and seed of the case.
    pub input: MhaInput<B>,
    tokens: [Tensor<B, 3>; 3],
    bias: Option<Tensor<B, 4>>,
    head_scale: Option<Tensor<B, 1>>,
}

impl<B: Backend> Call<B> {
    /// The call of a layer's case, on a module of its configuration.
    pub fn new(layer: &Layer<f32>, module: MultiHeadAttention<B>) -> Self {
        let tokens = layer.tensors();
        let [query, key, value] = tokens.clone();
        let (bias, head_scale) = (layer.case.bias_tensor(), layer.case.head_scale_tensor());
        let input = MhaInput::new(query, key, value);
        let input = layer.case.apply_with(input, bias.clone(), head_scale.clone());
        Self { module: layer.fill(module), input, tokens, bias, head_scale }
    }
}

impl<B: AutodiffBackend> Call<B> {
    /// The gradients of inputs and parameters by the names that [`Layer::backward`] has, each as
    /// "gradient of ..".
    pub fn gradients(&self, gradients: &B::Gradients) -> Named<f32> {
        let read = |data: TensorData| data.to_vec::<f32>().expect("it holds f32");
        let mut named = module_gradients(&self.module, &self.tokens, gradients, read);
        let bias = self.bias.as_ref().and_then(|bias| bias.grad(gradients));
        let head_scale = self.head_scale.as_ref().and_then(|scale| scale.grad(gradients));
        named.extend(bias.map(|bias| ("the input bias".into(), read(bias.into_data()))));
        named.extend(
            head_scale.map(|scale| ("the input head_scale".into(), read(scale.into_data()))),
        );
        named.into_iter().map(|(name, x)| (format!("gradient of {name}"), x)).collect()
    }
}
