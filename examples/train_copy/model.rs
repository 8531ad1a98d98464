//! The model: embeddings and positions, blocks of attention with residual and norm, a linear head.

use burn::{
    module::Module,
    nn::{
        Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig,
        loss::CrossEntropyLossConfig,
    },
    tensor::{
        Int, Tensor,
        backend::{AutodiffBackend, Backend},
    },
    train::{InferenceStep, SequenceOutput, TrainOutput, TrainStep},
};
use mha::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, Weights};

use crate::task::{CopyBatch, CopyTask};

/// The sizes of a [`CopyModel`], beside those of its task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelSizes {
    pub(crate) d_model: usize,
    pub(crate) n_heads: usize,
    pub(crate) n_layers: usize,
}

/// Predicts the symbols that belong over the blanks.
#[derive(Module, Debug)]
pub(crate) struct CopyModel<B: Backend> {
    tokens: Embedding<B>,
    positions: Embedding<B>,
    blocks: Vec<Block<B>>,
    norm: LayerNorm<B>,
    head: Linear<B>,
}

/// `x + attention(norm(x))`
#[derive(Module, Debug)]
struct Block<B: Backend> {
    norm: LayerNorm<B>,
    attention: MultiHeadAttention<B>,
}

impl ModelSizes {
    /// A model with random weights, or why these sizes do not fit together.
    pub(crate) fn try_init<B: Backend>(
        &self,
        task: &CopyTask,
        device: &B::Device,
    ) -> Result<CopyModel<B>, mha::Error> {
        // The sequences are random and never repeat: there is nothing to overfit to.
        let attention = MultiHeadAttentionConfig::new(self.d_model, self.n_heads).with_dropout(0.0);
        let norm = LayerNormConfig::new(self.d_model);
        let block =
            |_| Ok(Block { norm: norm.init(device), attention: attention.try_init(device)? });
        Ok(CopyModel {
            tokens: EmbeddingConfig::new(task.n_tokens(), self.d_model).init(device),
            positions: EmbeddingConfig::new(task.seq(), self.d_model).init(device),
            blocks: (0..self.n_layers).map(block).collect::<Result<_, mha::Error>>()?,
            norm: norm.init(device),
            head: LinearConfig::new(self.d_model, task.vocabulary).init(device),
        })
    }
}

impl<B: Backend> CopyModel<B> {
    /// Scores of each symbol at each blank: `[batch, seq]` to `[batch, length, vocabulary]`.
    pub(crate) fn forward(&self, tokens: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let mut x = self.embed(tokens);
        for block in &self.blocks {
            (x, _) = block.forward(x, Weights::None);
        }
        let [batch, seq, d_model] = x.dims();
        let blanks = x.slice([0..batch, seq / 2 + 1..seq, 0..d_model]);
        self.head.forward(self.norm.forward(blanks))
    }

    /// The weights of each layer's heads: `[batch, n_heads, seq, seq]` per layer.
    pub(crate) fn attention_weights(&self, tokens: Tensor<B, 2, Int>) -> Vec<Tensor<B, 4>> {
        let mut x = self.embed(tokens);
        let layer = |block: &Block<B>| {
            let (next, weights) = block.forward(x.clone(), Weights::PerHead);
            x = next;
            weights.expect("the weights were asked for")
        };
        self.blocks.iter().map(layer).collect()
    }

    fn embed(&self, tokens: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let [_, seq] = tokens.dims();
        let positions = Tensor::arange(0..seq as i64, &tokens.device()).unsqueeze();
        self.tokens.forward(tokens) + self.positions.forward(positions)
    }

    fn score(&self, batch: CopyBatch<B>) -> SequenceOutput<B> {
        let logits = self.forward(batch.tokens);
        let [size, length, vocabulary] = logits.dims();
        let flat_targets = batch.targets.clone().reshape([size * length]);
        let loss = CrossEntropyLossConfig::new()
            .init(&logits.device())
            .forward(logits.clone().reshape([size * length, vocabulary]), flat_targets);
        SequenceOutput::new(loss, logits, None, batch.targets)
    }
}

impl<B: Backend> Block<B> {
    fn forward(&self, x: Tensor<B, 3>, weights: Weights) -> (Tensor<B, 3>, Option<Tensor<B, 4>>) {
        let input = MhaInput::self_attn(self.norm.forward(x.clone())).causal().weights(weights);
        let output = self.attention.forward(input);
        (x + output.context, output.weights)
    }
}

impl<B: AutodiffBackend> TrainStep for CopyModel<B> {
    type Input = CopyBatch<B>;
    type Output = SequenceOutput<B>;

    fn step(&self, batch: CopyBatch<B>) -> TrainOutput<SequenceOutput<B>> {
        let output = self.score(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl<B: Backend> InferenceStep for CopyModel<B> {
    type Input = CopyBatch<B>;
    type Output = SequenceOutput<B>;

    fn step(&self, batch: CopyBatch<B>) -> SequenceOutput<B> {
        self.score(batch)
    }
}
