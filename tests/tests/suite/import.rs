//! The module in a larger generic model: derive, train, save, load, move, send.

use burn::module::{AutodiffModule, Module};
use burn::nn::{LayerNorm, LayerNormConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::record::{BinBytesRecorder, FullPrecisionSettings, Recorder};
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::{Error, MhaInput, MhaOutput, MultiHeadAttention, MultiHeadAttentionConfig};
use mha_tests::{AnyBackend, assert_same, floats, numbers, on_every_backend, tensor};

on_every_backend!(trains, saves_and_loads_bit_for_bit, inference_gives_the_same);

/// A decoder block as a user would write it: self-attention, then cross-attention.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    first: MultiHeadAttention<B>,
    second: MultiHeadAttention<B>,
    norm: LayerNorm<B>,
}

impl<B: Backend> Block<B> {
    fn new(device: &B::Device) -> Self {
        let config = MultiHeadAttentionConfig::new(12, 3).with_dropout(0.0);
        Self {
            first: config.init(device),
            second: config.with_key_bias(false).init(device),
            norm: LayerNormConfig::new(12).init(device),
        }
    }

    fn forward(&self, tokens: Tensor<B, 3>, memory: Tensor<B, 3>) -> Tensor<B, 3> {
        let attended = self.first.forward(MhaInput::self_attn(tokens.clone()).causal()).context;
        let tokens = self.norm.forward(tokens + attended);
        let input = MhaInput::new(tokens.clone(), memory.clone(), memory);
        tokens + self.second.forward(input).context
    }
}

fn inputs<B: Backend>() -> [Tensor<B, 3>; 2] {
    [tensor(&numbers(1, 2 * 5 * 12), [2, 5, 12]), tensor(&numbers(2, 2 * 7 * 12), [2, 7, 12])]
}

fn trains<B: AutodiffBackend>() {
    let mut block = Block::<B>::new(&Default::default());
    let mut optimizer = AdamConfig::new().init();
    let mut losses = Vec::new();
    for _ in 0..20 {
        let [tokens, memory] = inputs();
        let target = tensor::<B, 3, _>(&numbers(3, 2 * 5 * 12), [2, 5, 12]);
        let loss = (block.forward(tokens, memory) - target).powi_scalar(2).mean();
        losses.extend(floats(loss.clone()));
        let gradients = GradientsParams::from_grads(loss.backward(), &block);
        // Query, key, value and output, with their biases but one; the norm's two.
        assert_eq!(gradients.len(), 8 + 7 + 2);
        block = optimizer.step(0.01, block, gradients);
    }
    assert!(losses[19] < 0.7 * losses[0], "{losses:?}");
}

fn saves_and_loads_bit_for_bit<B: AutodiffBackend>() {
    let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
    let device = Default::default();
    let block = Block::<B>::new(&device);
    let output = |block: &Block<B>| {
        let [tokens, memory] = inputs();
        floats(block.forward(tokens, memory))
    };
    let before = output(&block);
    let bytes = recorder.record(block.into_record(), ()).expect("saves");
    let loaded = Block::<B>::new(&device);
    assert!(output(&loaded) != before);
    let loaded = loaded.load_record(recorder.load(bytes, &device).expect("loads"));
    assert_same(&output(&loaded), &before);
}

fn inference_gives_the_same<B: AutodiffBackend>() {
    let block = Block::<B>::new(&Default::default());
    let [tokens, memory] = inputs::<B>();
    let trained = floats(block.forward(tokens.clone(), memory.clone()));
    let valid = floats(block.valid().forward(tokens.inner(), memory.inner()));
    let largest = trained.iter().fold(0.0f32, |max, x| max.max(x.abs()));
    for (a, b) in trained.iter().zip(&valid) {
        assert!((a - b).abs() <= 2.0 * f32::EPSILON * largest);
    }
}

/// The display names the sizes, also the derived ones, and counts the parameters.
#[test]
fn display() {
    let module = MultiHeadAttentionConfig::new(8, 2).init::<AnyBackend>(&Default::default());
    let text = module.to_string();
    for part in [
        "MultiHeadAttention {d_model: 8, n_heads: 2, n_kv_heads: 2, head_dim: 4, value_dim: 4, \
         dropout: 0.1",
        "masking: Exclude",
        "params: 288", // 4 * (8 * 8 + 8)
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(module.num_params(), 288);

    let config = MultiHeadAttentionConfig::new(8, 4).with_n_kv_heads(2).with_d_key(6);
    let text = config.with_softcap(50.0).init::<AnyBackend>(&Default::default()).to_string();
    for part in ["d_key: 6", "n_kv_heads: 2", "softcap: 50"] {
        assert!(text.contains(part), "{text}");
    }
}

/// As many parameters with one head as with eight.
#[test]
fn heads_cost_no_parameters() {
    let count = |n_heads| {
        let config = MultiHeadAttentionConfig::new(8, n_heads);
        config.init::<AnyBackend>(&Default::default()).num_params()
    };
    assert_eq!([1, 2, 4, 8].map(count), [288; 4]);
}

/// Compiles only if everything may cross threads.
#[test]
fn send_and_sync() {
    fn check<T: Send + Sync>() {}
    fn all<B: Backend>() {
        check::<MultiHeadAttention<B>>();
        check::<MhaInput<B>>();
        check::<MhaOutput<B>>();
        check::<mha::Attention<B>>();
        check::<mha::AttentionOptions<B>>();
        check::<MultiHeadAttentionConfig>();
        check::<Error>();
    }
    all::<AnyBackend>();
    all::<burn::backend::Autodiff<AnyBackend>>();
}
