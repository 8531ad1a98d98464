//! Batches: stretches of the text, and the same stretches one character later.

use burn::tensor::{Int, Tensor, TensorData, backend::Backend};
use mha_examples::random::SplitMix64;

/// Some stretches; the target of each token is the one after it.
#[derive(Clone, Debug)]
pub(crate) struct Batch<B: Backend> {
    /// `[batch, context]`
    pub(crate) tokens: Tensor<B, 2, Int>,
    /// `[batch, context]`
    pub(crate) targets: Tensor<B, 2, Int>,
}

/// Where the `size` stretches of training step `step` begin, a function of these arguments alone.
pub(crate) fn random_starts(
    length: usize,
    context: usize,
    size: usize,
    seed: u64,
    step: usize,
) -> Vec<usize> {
    let mut random = SplitMix64::from_words([seed, step as u64]);
    (0..size).map(|_| random.below((length - context) as u64) as usize).collect()
}

/// Where stretches that do not overlap begin, `most` of them at most and spread over the text.
pub(crate) fn spread_starts(length: usize, context: usize, most: usize) -> Vec<usize> {
    let all = (length - 1) / context;
    let count = all.min(most);
    (0..count).map(|i| i * all / count * context).collect()
}

/// The stretches of `text` that begin at `starts`.
pub(crate) fn batch<B: Backend>(
    text: &[i32],
    starts: &[usize],
    context: usize,
    device: &B::Device,
) -> Batch<B> {
    let stretches = |shift: usize| {
        let stretch = |&start: &usize| &text[start + shift..start + shift + context];
        let tokens: Vec<i32> = starts.iter().flat_map(stretch).copied().collect();
        Tensor::from_data(TensorData::new(tokens, [starts.len(), context]), device)
    };
    Batch { tokens: stretches(0), targets: stretches(1) }
}
