//! Multi-head attention as a trainable [Burn](https://burn.dev) module, generic over every backend.
//!
//! The module is [`MultiHeadAttention`]; under it lies the function [`attention`](attention()), and
//! beside both [`oracle`], the plainest attention there is in f64, to test against.
//!
//! # Conventions
//!
//! - The batch comes first: tokens are `[batch, seq, d_model]`, split heads `[batch, seq, n_heads,
//!   head_dim]`.
//! - A mask's name says what `true` means: [`Mask::block`] hides (Burn's sense), [`Mask::keep`] shows
//!   (that of PyTorch's `scaled_dot_product_attention` and of JAX). Stored masks hide.
//! - Masks and biases of -∞ add up: what any of them hides is hidden, whatever the others say. Any of
//!   their axes may be 1 and stands for all of its positions.
//! - Query `i` stands at key position `i + offset`; the default, `seq_k - seq_q`, has the last query at
//!   the last key. Causal masks, windows, distances and rotary positions count from there.
//! - With a cache, positions count true tokens, and masks and bias span the new queries and all keys.
//! - Queries and keys are normalized, then rotated. Scores are scaled (by 1/√head_dim), then capped, then
//!   biases are added, then hidden pairs leave, then the sink joins the denominator. Dropout, values,
//!   head scale, gate and output projection follow.
//! - Learned keys and the zero key stand behind the others, without mask, bias or position.
//! - With fewer key heads, query head `h` reads key head `h / (n_heads / n_kv_heads)`.
//! - A query that sees no key gets zeros, never NaN, and no gradient passes through it. A key
//!   hidden from every query may hold anything, NaN too; one that some query sees must be finite.
//! - Dropout drops weights after the softmax, on backends with autodiff only; its pattern is a function
//!   of the seed and the pair. Returned weights are those before dropout, unless asked otherwise.
//! - Scores and softmax are computed in f32 for f16, bf16 and f32, in f64 for f64; so are the weights and
//!   log-sum-exps that are returned.
//! - A call runs in the backend's kernels where there are some, else in Burn's tensor operations, with
//!   the same meaning: [`Path`] chooses, [`attention_path`](attention_path()) tells.
//! - An error names the argument, its axes, what was expected and what came; what panics says the same.
//!
//! # Example
//!
//! ```
//! use burn::backend::{Autodiff, NdArray};
//! use burn::tensor::{Distribution, Tensor};
//! use mha::{MhaInput, MultiHeadAttentionConfig};
//!
//! type B = Autodiff<NdArray>;
//! let device = Default::default();
//! let attention = MultiHeadAttentionConfig::new(64, 4).init::<B>(&device);
//! let tokens = Tensor::<B, 3>::random([2, 10, 64], Distribution::Default, &device);
//! let context = attention.forward(MhaInput::self_attn(tokens).causal()).context;
//! let gradients = context.powi_scalar(2).mean().backward();
//! assert!(attention.query.weight.grad(&gradients).is_some());
//! ```

mod attention;
mod backend;
mod burn_nn;
mod cache;
mod call;
mod choices;
mod config;
mod display;
mod error;
mod explain;
mod gate;
mod init;
mod input;
mod mask;
mod module;
mod norm;
pub mod oracle;
mod parameters;
mod place;
mod position;
mod record;
mod settings;
#[cfg(feature = "weights")]
pub mod weights;
mod widths;

pub use attention::{
    Attention, AttentionOptions, FusedAttention, Masking, Path, PathTaken, Reason, attention,
    attention_heads_first, attention_path, is_fused, linear, merge_attention, register,
    try_attention, try_linear, weights_of,
};
pub use backend::free_buffers;
pub use burn::nn::attention::{
    GeneratePaddingMask, SeqLengthOption, generate_autoregressive_mask, generate_padding_mask,
};
pub use cache::{KvCache, MhaCache};
pub use choices::{Gate, Sink};
pub use config::{MultiHeadAttentionConfig, ProjectionBias};
pub use error::Error;
pub use explain::{Explanation, Step, Why};
pub use init::MhaInitializer;
pub use input::{MhaInput, MhaOutput, Weights};
pub use mask::{DensePairs, Mask, Offset, Rule, Tile};
pub use module::{MultiHeadAttention, MultiHeadAttentionRecord};
pub use norm::{HeadNorm, HeadNormRecord, QkNorm};
pub use position::{
    Position, Positions, Rotary, RotaryLayout, RotaryScaling, T5Buckets, Yarn, alibi_slopes,
};
