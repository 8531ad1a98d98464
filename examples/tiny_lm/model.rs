//! The model: character embeddings, blocks, a norm, a linear head.

use burn::{
    module::Module,
    nn::{
        Embedding, EmbeddingConfig, Linear, LinearConfig, RmsNorm, RmsNormConfig,
        loss::CrossEntropyLossConfig,
    },
    tensor::{Int, Tensor, backend::Backend},
};

use mha::KvCache;

use crate::{batches::Batch, block::Block, sizes::Sizes};

/// Predicts the next character at every position.
#[derive(Module, Debug)]
pub(crate) struct TinyLm<B: Backend> {
    pub(crate) tokens: Embedding<B>,
    pub(crate) blocks: Vec<Block<B>>,
    norm: RmsNorm<B>,
    head: Linear<B>,
}

impl Sizes {
    /// A model with random weights, or why these sizes do not fit together.
    pub(crate) fn try_init<B: Backend>(
        &self,
        n_tokens: usize,
        dropout: f64,
        device: &B::Device,
    ) -> Result<TinyLm<B>, mha::Error> {
        let blocks = (0..self.layers).map(|_| Block::try_init(self, dropout, device));
        Ok(TinyLm {
            tokens: EmbeddingConfig::new(n_tokens, self.d_model).init(device),
            blocks: blocks.collect::<Result<_, _>>()?,
            norm: RmsNormConfig::new(self.d_model).init(device),
            head: LinearConfig::new(self.d_model, n_tokens).with_bias(false).init(device),
        })
    }
}

impl<B: Backend> TinyLm<B> {
    /// Scores of every possible next character: `[batch, seq]` to `[batch, seq, n_tokens]`. With
    /// `caches`, one per block, the tokens come after those that the caches have seen.
    pub(crate) fn forward(
        &self,
        tokens: Tensor<B, 2, Int>,
        caches: Option<&mut [KvCache<B>]>,
    ) -> Tensor<B, 3> {
        let mut x = self.tokens.forward(tokens);
        let mut caches = caches.map(|caches| caches.iter_mut());
        for block in &self.blocks {
            x = block.forward(x, caches.as_mut().and_then(Iterator::next));
        }
        self.head.forward(self.norm.forward(x))
    }

    /// The mean cross-entropy in nats per character.
    pub(crate) fn loss(&self, Batch { tokens, targets }: Batch<B>) -> Tensor<B, 1> {
        let logits = self.forward(tokens, None);
        let [batch, seq, n_tokens] = logits.dims();
        let logits = logits.reshape([batch * seq, n_tokens]);
        CrossEntropyLossConfig::new()
            .init(&logits.device())
            .forward(logits, targets.reshape([batch * seq]))
    }
}
