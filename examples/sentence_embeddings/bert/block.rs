//! One layer of the encoder: attention, then a feed-forward network, each added to what came in and
//! normalized after that.

use burn::{
    module::Module,
    nn::{Dropout, LayerNorm, Linear},
    tensor::{Tensor, backend::Backend},
};
use mha::{Mask, MhaInput, MultiHeadAttention, Weights, linear};

use super::{chunks::in_chunks, gelu::gelu};

#[derive(Module, Debug)]
pub(crate) struct Block<B: Backend> {
    pub(crate) attention: MultiHeadAttention<B>,
    pub(crate) attention_norm: LayerNorm<B>,
    /// From `d_model` to `d_hidden` features.
    pub(crate) up: Linear<B>,
    pub(crate) down: Linear<B>,
    pub(crate) feed_forward_norm: LayerNorm<B>,
    pub(crate) dropout: Dropout,
}

impl<B: Backend> Block<B> {
    /// `[batch, seq, d_model]` to the same.
    pub(crate) fn forward(&self, x: Tensor<B, 3>, mask: &Mask<B>) -> Tensor<B, 3> {
        let attended = self.attention.forward(input(x.clone(), mask)).context;
        in_chunks([x, attended], |both| self.per_token(both))
    }

    /// What follows attention, where no token looks at another: of each `[batch, seq, d_model]` the
    /// same.
    fn per_token(&self, [x, attended]: [Tensor<B, 3>; 2]) -> Tensor<B, 3> {
        let x = self.attention_norm.forward(x + self.dropout.forward(attended));
        let hidden = gelu(linear(&self.up, x.clone()));
        let fed = linear(&self.down, hidden);
        self.feed_forward_norm.forward(x + self.dropout.forward(fed))
    }

    /// What each head looks at: `[batch, n_heads, seq, seq]`.
    pub(crate) fn weights(&self, x: Tensor<B, 3>, mask: &Mask<B>) -> Tensor<B, 4> {
        let output = self.attention.forward(input(x, mask).weights(Weights::PerHead));
        output.weights.expect("they were asked for")
    }
}

fn input<B: Backend>(x: Tensor<B, 3>, mask: &Mask<B>) -> MhaInput<B> {
    MhaInput::self_attn(x).mask(mask.clone())
}
