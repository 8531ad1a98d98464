//! What the model asks of attention: causal, grouped heads, rotary positions, and a cache of keys
//! and values to write with.

use burn::tensor::{Tensor, backend::Backend};
use mha::{KvCache, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, Rotary};

use crate::sizes::Sizes;

/// The base of the rotary angles: Su et al. 2021, section 3.3, <https://arxiv.org/abs/2104.09864>.
const THETA: f64 = 10_000.0;

pub(crate) fn config(sizes: &Sizes, dropout: f64) -> MultiHeadAttentionConfig {
    MultiHeadAttentionConfig::new(sizes.d_model, sizes.heads)
        .with_n_kv_heads(sizes.kv_heads)
        .with_bias(false)
        .with_dropout(dropout)
        .with_position(Rotary::half(THETA))
}

/// Self-attention of the tokens `[batch, seq, d_model]`; with a cache they come after those in it.
pub(crate) fn attend<B: Backend>(
    layer: &MultiHeadAttention<B>,
    x: Tensor<B, 3>,
    cache: Option<&mut KvCache<B>>,
) -> Tensor<B, 3> {
    let input = MhaInput::self_attn(x).causal();
    match cache {
        Some(cache) => layer.forward_cached(input, cache).context,
        None => layer.forward(input).context,
    }
}
