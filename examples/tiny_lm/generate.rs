//! Writing on from a prompt, one token at a time, with the key/value cache or without.

use burn::tensor::{Int, Tensor, TensorData, backend::Backend};

use mha::KvCache;

use crate::{model::TinyLm, sampler::Sampler};

/// How the tokens so far reach the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Each token once: the caches keep what later tokens need of it.
    Cached,
    /// All of them again for every new token.
    Recomputed,
}

/// The `count` tokens after `prompt`, which has at least one.
///
/// The model was trained on stretches of `context` tokens, so it never sees more at once; see
/// [`window_start`].
pub(crate) fn generate<B: Backend>(
    model: &TinyLm<B>,
    prompt: &[i32],
    count: usize,
    context: usize,
    way: Way,
    mut sampler: Sampler,
) -> Vec<i32> {
    let mut tokens = prompt.to_vec();
    let mut cached = CachedTokens { start: 0, end: 0, caches: Vec::new() };
    for _ in 0..count {
        let start = window_start(tokens.len(), context);
        let scores = match way {
            Way::Cached => cached.next_scores(model, &tokens, start, context),
            Way::Recomputed => model.forward(tensor(model, &tokens[start..]), None),
        };
        tokens.push(sampler.choose(&last(scores)) as i32);
    }
    tokens.split_off(prompt.len())
}

/// Where the tokens that the model sees begin. When a context is full its older half is dropped,
/// not one token at a time: the positions of all the others change, so the cache begins anew.
pub(crate) fn window_start(length: usize, context: usize) -> usize {
    let half = context.div_ceil(2);
    length.saturating_sub(context).div_ceil(half) * half
}

/// The caches of all blocks, which hold the tokens from `start` to `end`.
struct CachedTokens<B: Backend> {
    start: usize,
    end: usize,
    caches: Vec<KvCache<B>>,
}

impl<B: Backend> CachedTokens<B> {
    /// Reads the tokens that the caches do not hold yet.
    fn next_scores(
        &mut self,
        model: &TinyLm<B>,
        tokens: &[i32],
        start: usize,
        context: usize,
    ) -> Tensor<B, 3> {
        if self.caches.is_empty() || self.start != start {
            let caches = model.blocks.iter().map(|_| KvCache::preallocated(context)).collect();
            *self = Self { start, end: start, caches };
        }
        let scores = model.forward(tensor(model, &tokens[self.end..]), Some(&mut self.caches));
        self.end = tokens.len();
        scores
    }
}

/// A batch of one.
fn tensor<B: Backend>(model: &TinyLm<B>, tokens: &[i32]) -> Tensor<B, 2, Int> {
    let data = TensorData::new(tokens.to_vec(), [1, tokens.len()]);
    Tensor::from_data(data, &model.tokens.weight.device())
}

/// The scores after the last token.
fn last<B: Backend>(scores: Tensor<B, 3>) -> Vec<f32> {
    let [_, seq, _] = scores.dims();
    scores.narrow(1, seq - 1, 1).into_data().iter().collect()
}
