//! Caches: whatever the pieces in which a sequence comes, the results are those of one call.

mod burn_nn;
mod chunks;
mod damaged;
mod edits;
mod lengths;
mod memory;
mod records;
mod refused;
mod rolling;
mod stacked;
mod variants;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use mha::{KvCache, Mask, MhaInput, MhaOutput, MultiHeadAttention, MultiHeadAttentionConfig, Rule};
use mha_tests::{floats, numbers, tensor};

const D_MODEL: usize = 16;
const N_HEADS: usize = 4;
/// The window and the sinks of the rolling caches.
const WINDOW: usize = 3;
const SINKS: usize = 2;

/// A configuration without dropout, which these tests are not about.
fn config() -> MultiHeadAttentionConfig {
    MultiHeadAttentionConfig::new(D_MODEL, N_HEADS).with_dropout(0.0)
}

/// Parameters of a size that keeps every product of the size of its input, all different.
struct Fill {
    seed: u64,
}

impl<B: Backend> ModuleMapper<B> for Fill {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        self.seed += 1;
        let dims: [usize; D] = param.dims();
        let shrink = if D == 2 { 1.0 / (dims[0] as f32).sqrt() } else { 1.0 };
        let values = numbers(self.seed, dims.iter().product());
        let values: Vec<f32> = values.into_iter().map(|x| x * shrink).collect();
        param.map(|_| tensor(&values, dims).require_grad())
    }
}

fn module<B: Backend>(config: &MultiHeadAttentionConfig) -> MultiHeadAttention<B> {
    config.init::<B>(&Default::default()).map(&mut Fill { seed: 100 })
}

/// Reproducible tokens `[batch, seq, D_MODEL]`.
fn tokens<B: Backend>(seed: u64, batch: usize, seq: usize) -> Tensor<B, 3> {
    tensor(&numbers(seed, batch * seq * D_MODEL), [batch, seq, D_MODEL])
}

/// `n` tokens from `start` on, none too, which Burn's `narrow` refuses.
fn part<B: Backend>(tokens: &Tensor<B, 3>, start: usize, n: usize) -> Tensor<B, 3> {
    let [batch, _, width] = tokens.dims();
    if n == 0 {
        return Tensor::zeros([batch, 0, width], &tokens.device());
    }
    tokens.clone().narrow(1, start, n)
}

/// A cache of each kind that grows, with the rule that it adds by itself.
fn kinds<B: Backend>(capacity: usize) -> [(KvCache<B>, Mask<B>); 4] {
    let window = |sinks| Rule::Window {
        left: Some(WINDOW - 1),
        right: None,
        sinks,
        offset: Default::default(),
    };
    [
        (KvCache::growing(), Mask::none()),
        (KvCache::preallocated(capacity), Mask::none()),
        (KvCache::rolling(WINDOW), window(0).into()),
        (KvCache::rolling_with_sinks(WINDOW, SINKS), window(SINKS).into()),
    ]
}

/// The causal full pass of all tokens, with a rule more.
fn whole<B: Backend>(
    module: &MultiHeadAttention<B>,
    tokens: &Tensor<B, 3>,
    rule: &Mask<B>,
) -> Tensor<B, 3> {
    let input = MhaInput::self_attn(tokens.clone()).causal().mask(rule.clone());
    module.forward(input).context
}

/// A causal piece of self-attention.
fn step<B: Backend>(
    module: &MultiHeadAttention<B>,
    tokens: Tensor<B, 3>,
    cache: &mut KvCache<B>,
) -> MhaOutput<B> {
    module.forward_cached(MhaInput::self_attn(tokens).causal(), cache)
}

/// Panics unless all numbers are within 1e-5, infinities being equal.
#[track_caller]
fn assert_near<B: Backend, const D: usize>(
    name: &str,
    out: &Tensor<B, D>,
    expected: &Tensor<B, D>,
) {
    assert_eq!(out.dims(), expected.dims(), "{name}");
    if out.dims().contains(&0) {
        return;
    }
    let (out, expected) = (floats(out.clone()), floats(expected.clone()));
    let near = |(a, b): (&f32, &f32)| a == b || (a - b).abs() <= 1e-5;
    if let Some(at) = out.iter().zip(&expected).position(|pair| !near(pair)) {
        panic!("{name}: at {at} of {}: {} for {}", out.len(), out[at], expected[at]);
    }
}

/// The text of a refusal, which leaves the cache's lengths as they were.
#[track_caller]
fn refusal<B: Backend>(
    module: &MultiHeadAttention<B>,
    input: MhaInput<B>,
    cache: &mut KvCache<B>,
) -> String {
    let lengths = cache.lengths().to_vec();
    let refused = module.try_forward_cached(input, cache).map(|out| out.context.dims());
    assert_eq!(cache.lengths(), lengths);
    refused.expect_err("a refusal").to_string()
}
