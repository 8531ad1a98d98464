//! Sentences of different lengths, as word pieces in one tensor.

use burn::tensor::{Int, Tensor, TensorData, backend::Backend};
use mha::Mask;

/// Some sentences; the shorter ones are padded on the right.
#[derive(Clone, Debug)]
pub(crate) struct Batch<B: Backend> {
    /// Ids of word pieces: `[batch, seq]`.
    pub(crate) tokens: Tensor<B, 2, Int>,
    /// Word pieces of each sentence without padding, from 1 to `seq`.
    pub(crate) lengths: Vec<usize>,
}

impl<B: Backend> Batch<B> {
    /// Pads the sentences, none of which may be empty, to the longest with the id `padding`.
    pub(crate) fn new(sentences: &[Vec<u32>], padding: u32, device: &B::Device) -> Self {
        let lengths: Vec<_> = sentences.iter().map(Vec::len).collect();
        let seq = lengths.iter().copied().max().unwrap_or(0);
        let padded = sentences.iter().flat_map(|sentence| {
            let missing = seq - sentence.len();
            sentence.iter().copied().chain(std::iter::repeat_n(padding, missing))
        });
        let tokens = TensorData::new(padded.map(i64::from).collect(), [sentences.len(), seq]);
        Self { tokens: Tensor::from_data(tokens, device), lengths }
    }

    /// Hides the padding from every token.
    pub(crate) fn mask(&self) -> Mask<B> {
        let [_, seq] = self.tokens.dims();
        match self.lengths.iter().all(|&length| length == seq) {
            true => Mask::none(),
            false => Mask::lengths(self.lengths.clone()),
        }
    }

    /// The mean of each sentence's own tokens: `[batch, seq, d_model]` to `[batch, d_model]`.
    pub(crate) fn mean(&self, tokens: Tensor<B, 3>) -> Tensor<B, 2> {
        let [batch, seq, _] = tokens.dims();
        let shares = self.lengths.iter().flat_map(|&length| {
            (0..seq).map(move |place| if place < length { 1.0 / length as f32 } else { 0.0 })
        });
        let shares = TensorData::new(shares.collect(), [batch, 1, seq]);
        let shares = Tensor::<B, 3>::from_data(shares, &tokens.device());
        shares.matmul(tokens).squeeze_dim(1)
    }
}
