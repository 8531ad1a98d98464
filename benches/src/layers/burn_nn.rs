//! Burn's own layer.

use burn::{
    nn::{
        Linear,
        attention::{
            MhaCache, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig,
            generate_autoregressive_mask,
        },
    },
    tensor::{Bool, Tensor, backend::Backend},
};

use super::layer::{Family, Layer, linear};
use crate::{
    case::{Case, D_MODEL, N_HEADS, Visible},
    data::Weights,
};

/// `burn::nn::attention::MultiHeadAttention`.
#[derive(Debug)]
pub(crate) struct BurnNn;

impl Family for BurnNn {
    type On<B: Backend> = MultiHeadAttention<B>;
}

impl<B: Backend> Layer<B> for MultiHeadAttention<B> {
    type Mask = Option<Tensor<B, 3, Bool>>;
    type Cache = MhaCache<B>;

    fn new(weights: &Weights, device: &B::Device) -> Self {
        let [query, key, value, output] =
            weights.projections.each_ref().map(|projection| linear(projection, device));
        let config = MultiHeadAttentionConfig::new(D_MODEL, N_HEADS).with_dropout(0.0);
        Self { query, key, value, output, ..config.init(device) }
    }

    fn mask(case: &Case, device: &B::Device) -> Self::Mask {
        let causal = || generate_autoregressive_mask(case.batch, case.length, device);
        (case.visible == Visible::Causal).then(causal)
    }

    fn forward(&self, tokens: Tensor<B, 3>, mask: &Self::Mask) -> Tensor<B, 3> {
        let input = MhaInput::self_attn(tokens);
        let input = match mask {
            Some(mask) => input.mask_attn(mask.clone()),
            None => input,
        };
        self.forward(input).context
    }

    fn projections(&self) -> [&Linear<B>; 4] {
        [&self.query, &self.key, &self.value, &self.output]
    }

    fn fill(&self, tokens: Tensor<B, 3>) -> MhaCache<B> {
        let mut cache = MhaCache::autoregressive();
        self.forward_cache(MhaInput::self_attn(tokens), &mut cache);
        cache
    }

    fn decode(&self, _: Tensor<B, 3>, all: Tensor<B, 3>, cache: &mut MhaCache<B>) -> Tensor<B, 3> {
        // It takes all tokens, projects the last, and gives the outputs of the earlier ones too.
        let last = all.dims()[1] - 1;
        self.forward_cache(MhaInput::self_attn(all), cache).context.narrow(1, last, 1)
    }

    fn restore(&self, cache: &mut MhaCache<B>, tokens: Tensor<B, 3>) {
        *cache = self.fill(tokens); // it has no way back
    }
}
