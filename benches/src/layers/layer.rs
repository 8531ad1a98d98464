//! What layers of Burn have in common here.

use burn::{
    module::Param,
    nn::Linear,
    tensor::{Tensor, TensorData, backend::Backend},
};

use crate::{
    case::{Case, D_MODEL},
    data::Projection,
    data::Weights,
};

/// A kind of layer, whatever the backend.
pub(crate) trait Family: 'static {
    /// The layer on a backend.
    type On<B: Backend>: Layer<B>;
}

/// Multi-head attention with weights of ours. Tokens are `[batch, length, d_model]`.
pub(crate) trait Layer<B: Backend>: 'static {
    /// What hides keys, made once for a case.
    type Mask;
    /// Keys and values of earlier tokens.
    type Cache;

    fn new(weights: &Weights, device: &B::Device) -> Self;
    fn mask(case: &Case, device: &B::Device) -> Self::Mask;
    fn forward(&self, tokens: Tensor<B, 3>, mask: &Self::Mask) -> Tensor<B, 3>;
    /// Query, key, value, output.
    fn projections(&self) -> [&Linear<B>; 4];

    /// A cache of these tokens, with room for one more.
    fn fill(&self, tokens: Tensor<B, 3>) -> Self::Cache;
    /// The output of one more token, which is also the last of `all`.
    fn decode(
        &self,
        token: Tensor<B, 3>,
        all: Tensor<B, 3>,
        cache: &mut Self::Cache,
    ) -> Tensor<B, 3>;
    /// Makes the cache again what [`fill`](Self::fill) made of these tokens.
    fn restore(&self, cache: &mut Self::Cache, tokens: Tensor<B, 3>);
}

/// A linear map of Burn with given numbers.
pub(crate) fn linear<B: Backend>(projection: &Projection, device: &B::Device) -> Linear<B> {
    let weight = TensorData::new(projection.weight.clone(), [D_MODEL, D_MODEL]);
    let bias = TensorData::new(projection.bias.clone(), [D_MODEL]);
    Linear {
        weight: Param::from_tensor(Tensor::from_data(weight, device)),
        bias: Some(Param::from_tensor(Tensor::from_data(bias, device))),
    }
}
