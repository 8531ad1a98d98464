//! One block of the model: attention, then a feed-forward network, each on a norm and added to
//! what came in.

use burn::{
    module::Module,
    nn::{
        Dropout, DropoutConfig, Linear, LinearConfig, RmsNorm, RmsNormConfig, SwiGlu, SwiGluConfig,
    },
    tensor::{Tensor, backend::Backend},
};
use mha::{KvCache, MultiHeadAttention};

use crate::{
    attention::{self, attend},
    sizes::Sizes,
};

#[derive(Module, Debug)]
pub(crate) struct Block<B: Backend> {
    attention_norm: RmsNorm<B>,
    attention: MultiHeadAttention<B>,
    feed_forward_norm: RmsNorm<B>,
    swiglu: SwiGlu<B>,
    down: Linear<B>,
    dropout: Dropout,
}

impl<B: Backend> Block<B> {
    pub(crate) fn try_init(
        sizes: &Sizes,
        dropout: f64,
        device: &B::Device,
    ) -> Result<Self, mha::Error> {
        let d_model = sizes.d_model;
        // Three matrices of this width have the parameters of the usual two of 4 d_model.
        // Shazeer 2020, "GLU variants improve transformer", section 3.
        let d_hidden = (8 * d_model).div_ceil(3);
        let norm = RmsNormConfig::new(d_model);
        Ok(Self {
            attention_norm: norm.init(device),
            attention: attention::config(sizes, dropout).try_init(device)?,
            feed_forward_norm: norm.init(device),
            swiglu: SwiGluConfig::new(d_model, d_hidden).init(device),
            down: LinearConfig::new(d_hidden, d_model).with_bias(false).init(device),
            dropout: DropoutConfig::new(dropout).init(),
        })
    }

    /// `[batch, seq, d_model]` to the same.
    pub(crate) fn forward(&self, x: Tensor<B, 3>, cache: Option<&mut KvCache<B>>) -> Tensor<B, 3> {
        let normed = self.attention_norm.forward(x.clone());
        let attended = attend(&self.attention, normed, cache);
        let x = x + self.dropout.forward(attended);
        let hidden = self.swiglu.forward(self.feed_forward_norm.forward(x.clone()));
        x + self.dropout.forward(self.down.forward(hidden))
    }
}
