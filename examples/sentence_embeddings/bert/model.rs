//! The model: embeddings, blocks, and the mean of what comes out.

use burn::{
    module::Module,
    tensor::{Tensor, backend::Backend},
};

use super::{batch::Batch, block::Block, embeddings::Embeddings};

/// An encoder whose every token sees all tokens of its sentence.
#[derive(Module, Debug)]
pub(crate) struct Bert<B: Backend> {
    pub(crate) embeddings: Embeddings<B>,
    pub(crate) blocks: Vec<Block<B>>,
}

impl<B: Backend> Bert<B> {
    /// A vector of length 1 for each sentence: `[batch, d_model]`. The product of two is the cosine
    /// of their angle.
    pub(crate) fn embed(&self, batch: &Batch<B>) -> Tensor<B, 2> {
        let mean = batch.mean(self.forward(batch));
        let length = mean.clone().square().sum_dim(1).sqrt().clamp_min(1e-12);
        mean / length
    }

    /// A vector for each token: `[batch, seq, d_model]`. Those of padding mean nothing.
    pub(crate) fn forward(&self, batch: &Batch<B>) -> Tensor<B, 3> {
        self.before(self.blocks.len(), batch)
    }

    /// What each head of the block `layer`, counted from 0, looks at: `[batch, n_heads, seq, seq]`.
    pub(crate) fn weights(&self, layer: usize, batch: &Batch<B>) -> Tensor<B, 4> {
        self.blocks[layer].weights(self.before(layer, batch), &batch.mask())
    }

    /// The tokens as they come to the block `layer`: `[batch, seq, d_model]`.
    fn before(&self, layer: usize, batch: &Batch<B>) -> Tensor<B, 3> {
        let mask = batch.mask();
        let x = self.embeddings.forward(batch.tokens.clone());
        self.blocks[..layer].iter().fold(x, |x, block| block.forward(x, &mask))
    }
}
