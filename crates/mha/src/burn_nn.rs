//! From a module of `burn::nn` to one of ours.

use burn::nn::attention as burn_nn;
use burn::tensor::backend::Backend;

use crate::{Masking, MultiHeadAttention, MultiHeadAttentionConfig};

/// The same parameters and the same numbers, bit for bit: masks overwrite as
/// [`burn_nn_compat`](MultiHeadAttentionConfig::burn_nn_compat) has them. Dropout drops weights, where
/// `burn::nn` 0.21 drops scores.
///
/// A record in a binary format has no names, so it loads into the type that wrote it alone: load it
/// into `burn::nn`'s module, then convert.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::nn::attention as burn_nn;
/// use mha::MultiHeadAttention;
///
/// let device = Default::default();
/// let theirs = burn_nn::MultiHeadAttentionConfig::new(8, 2).init::<NdArray>(&device);
/// let ours = MultiHeadAttention::from(theirs);
/// assert_eq!((ours.d_model(), ours.n_heads()), (8, 2));
/// ```
impl<B: Backend> From<burn_nn::MultiHeadAttention<B>> for MultiHeadAttention<B> {
    fn from(theirs: burn_nn::MultiHeadAttention<B>) -> Self {
        let config = MultiHeadAttentionConfig::new(theirs.d_model, theirs.n_heads)
            .with_head_dim(theirs.d_k)
            .with_dropout(theirs.dropout.prob)
            .with_quiet_softmax(theirs.quiet_softmax)
            .with_masking(Masking::Overwrite { min_float: theirs.min_float });
        // Their parameters are drawn already, so ours are only a frame for them.
        let device = theirs.query.weight.device();
        let ours = config.init::<B>(&device);
        Self {
            query: theirs.query,
            key: theirs.key,
            value: theirs.value,
            output: theirs.output,
            ..ours
        }
    }
}
