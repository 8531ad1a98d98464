//! Our layer.

use burn::{
    nn::Linear,
    tensor::{Tensor, backend::Backend},
};
use mha::{KvCache, Mask, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};

use super::layer::{Family, Layer, linear};
use crate::{
    case::{Case, D_MODEL, N_HEADS, Visible},
    data::Weights,
};

/// `mha::MultiHeadAttention`.
#[derive(Debug)]
pub(crate) struct Ours;

impl Family for Ours {
    type On<B: Backend> = MultiHeadAttention<B>;
}

impl<B: Backend> Layer<B> for MultiHeadAttention<B> {
    type Mask = Mask<B>;
    type Cache = KvCache<B>;

    fn new(weights: &Weights, device: &B::Device) -> Self {
        let [query, key, value, output] =
            weights.projections.each_ref().map(|projection| linear(projection, device));
        let config = MultiHeadAttentionConfig::new(D_MODEL, N_HEADS).with_dropout(0.0);
        let mut layer = config.init(device);
        [layer.query, layer.key, layer.value, layer.output] = [query, key, value, output];
        layer
    }

    fn mask(case: &Case, _: &B::Device) -> Mask<B> {
        mask(case.visible)
    }

    fn forward(&self, tokens: Tensor<B, 3>, mask: &Mask<B>) -> Tensor<B, 3> {
        self.forward(MhaInput::self_attn(tokens).mask(mask.clone())).context
    }

    fn projections(&self) -> [&Linear<B>; 4] {
        [&self.query, &self.key, &self.value, &self.output]
    }

    fn fill(&self, tokens: Tensor<B, 3>) -> KvCache<B> {
        let [_, cached, _] = tokens.dims();
        let mut cache = KvCache::preallocated(cached + 1);
        // Keys and values are wanted, so one query is enough.
        let query = tokens.clone().narrow(1, cached - 1, 1);
        self.forward_cached(MhaInput::new(query, tokens.clone(), tokens), &mut cache);
        cache
    }

    fn decode(&self, token: Tensor<B, 3>, _: Tensor<B, 3>, cache: &mut KvCache<B>) -> Tensor<B, 3> {
        self.forward_cached(MhaInput::self_attn(token).causal(), cache).context
    }

    fn restore(&self, cache: &mut KvCache<B>, tokens: Tensor<B, 3>) {
        cache.truncate(tokens.dims()[1]).expect("only a rolling cache refuses");
    }
}

/// Our rule for what a query sees.
pub(crate) fn mask<B: Backend>(visible: Visible) -> Mask<B> {
    match visible {
        Visible::All => Mask::none(),
        Visible::Causal => Mask::causal(),
        Visible::Window(window) => Mask::window(window - 1, 0),
    }
}
