//! The layer under the magnifying glass, with weights that we choose.

use burn::module::Param;
use burn::tensor::backend::Backend;
use mha::{MultiHeadAttention, MultiHeadAttentionConfig};

use crate::numbers::Numbers;
use crate::tensors::tensor;

/// The article's layer with random weights: four matrices, no bias, no dropout.
pub(crate) fn random<B: Backend>(
    d_model: usize,
    n_heads: usize,
    device: &B::Device,
) -> MultiHeadAttention<B> {
    MultiHeadAttentionConfig::new(d_model, n_heads).with_dropout(0.0).with_bias(false).init(device)
}

/// The layer with W_Q, W_K, W_V and W_O as given; all are `[d_in, d_out]`.
pub(crate) fn with_weights<B: Backend>(
    n_heads: usize,
    numbers: &Numbers,
    device: &B::Device,
) -> MultiHeadAttention<B> {
    let mut layer = random(numbers.w_q.len(), n_heads, device);
    layer.query.weight = Param::from_tensor(tensor(&numbers.w_q, device));
    layer.key.weight = Param::from_tensor(tensor(&numbers.w_k, device));
    layer.value.weight = Param::from_tensor(tensor(&numbers.w_v, device));
    layer.output.weight = Param::from_tensor(tensor(&numbers.w_o, device));
    layer
}
