//! What a token is before the first block: its word piece, its position and its type.

use burn::{
    module::Module,
    nn::{Dropout, Embedding, LayerNorm},
    tensor::{Int, Tensor, backend::Backend},
};

#[derive(Module, Debug)]
pub(crate) struct Embeddings<B: Backend> {
    /// `[n_tokens, d_model]`
    pub(crate) tokens: Embedding<B>,
    /// `[n_positions, d_model]`
    pub(crate) positions: Embedding<B>,
    /// `[n_types, d_model]`: of the first and the second text of a pair. A sentence is a first.
    pub(crate) types: Embedding<B>,
    pub(crate) norm: LayerNorm<B>,
    pub(crate) dropout: Dropout,
}

impl<B: Backend> Embeddings<B> {
    /// `[batch, seq]` to `[batch, seq, d_model]`.
    pub(crate) fn forward(&self, tokens: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let ([_, seq], device) = (tokens.dims(), tokens.device());
        let positions = Tensor::arange(0..seq as i64, &device).unsqueeze::<2>();
        let first = Tensor::zeros([1, 1], &device);
        let x = self.tokens.forward(tokens) //      [batch, seq, d_model]
            + self.positions.forward(positions) //  [1, seq, d_model]
            + self.types.forward(first); //         [1, 1, d_model]
        self.dropout.forward(self.norm.forward(x))
    }
}
