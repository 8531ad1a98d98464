//! Modules and what a call brings, each with something that a cache could get wrong.

use burn::tensor::{Int, Tensor, TensorData, backend::Backend};
use mha::{
    Gate, Mask, MhaInput, MultiHeadAttentionConfig, QkNorm, Rotary, RotaryScaling, Rule, Sink,
    T5Buckets, Yarn,
};
use mha_tests::{bools, coins, numbers, tensor};

use super::{N_HEADS, config};

pub(super) const BATCH: usize = 2;
pub(super) const SEQ: usize = 11;

/// Queries `start..end` and the positions of the keys that they attend over.
pub(super) struct Piece {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) keys: Vec<usize>,
}

/// What a call brings, cut to a piece.
type Bring<B> = fn(MhaInput<B>, &Piece) -> MhaInput<B>;

/// One thing to try.
pub(super) struct Variant<B: Backend> {
    pub(super) name: String,
    pub(super) config: MultiHeadAttentionConfig,
    pub(super) bring: Bring<B>,
    /// Whether what comes later changes nothing before it.
    pub(super) stable: bool,
}

pub(super) fn variants<B: Backend>() -> Vec<Variant<B>> {
    let variant = |name: &str, config, bring: Bring<B>, stable| Variant {
        name: name.to_string(),
        config,
        bring,
        stable,
    };
    let all = configs()
        .into_iter()
        .map(|(name, config, stable)| variant(name, config, |input, _| input.causal(), stable));
    let everything = config()
        .with_n_kv_heads(2)
        .with_value_dim(3)
        .with_softcap(3.0)
        .with_bias_kv(1)
        .with_sink(Sink::Learned)
        .with_gate(Gate::Elementwise)
        .with_qk_norm(QkNorm::Rms { epsilon: 1e-6 })
        .with_position(Rotary::half(100.0));
    let calls: [(&str, MultiHeadAttentionConfig, Bring<B>, bool); 9] = [
        ("bias", config(), |input, piece| bias(input, piece).causal(), true),
        ("dense mask", config(), |input, piece| dense(input, piece).causal(), true),
        ("padding", config(), |input, piece| padding(input, piece).causal(), true),
        ("segments", config(), |input, piece| segments(input, piece).causal(), true),
        ("chunks", config(), |input, _| input.mask(Mask::chunked(4)).causal(), true),
        ("prefix", config(), |input, _| input.mask(Mask::prefix(vec![3, 5])), false),
        ("head scale", config(), |input, _| head_scale(input).causal(), true),
        ("table of another layer", config(), |input, _| table(input).causal(), true),
        (
            "everything",
            everything,
            |input, piece| head_scale(dense(bias(input, piece), piece)).causal(),
            true,
        ),
    ];
    all.chain(calls.map(|(name, config, bring, stable)| variant(name, config, bring, stable)))
        .collect()
}

fn configs() -> Vec<(&'static str, MultiHeadAttentionConfig, bool)> {
    let half = |scaling| config().with_position(Rotary::half(100.0).with_scaling(scaling));
    let (factor, original_length) = (2.0, 4);
    let llama = RotaryScaling::Llama3 { factor, low: 1.0, high: 4.0, original_length };
    let long_rope = RotaryScaling::LongRope {
        short: vec![1.0, 2.0],
        long: vec![3.0, 5.0],
        original_length,
        max_length: 16,
    };
    let epsilon = 1e-6;
    let t5 = T5Buckets::causal().with_n_buckets(8).with_max_distance(9);
    let widths = config().with_n_kv_heads(1).with_head_dim(6).with_value_dim(5).with_d_output(7);
    vec![
        ("plain", config(), true),
        ("grouped", config().with_n_kv_heads(2), true),
        ("widths", widths, true),
        ("softcap", config().with_softcap(2.0).with_scale(0.8), true),
        ("half", half(RotaryScaling::None), true),
        ("interleaved", config().with_position(Rotary::interleaved(100.0)), true),
        ("partial", config().with_position(Rotary::half(100.0).with_width(2)), true),
        ("linear", half(RotaryScaling::Linear { factor }), true),
        ("ntk", half(RotaryScaling::Ntk { factor }), true),
        ("dynamic", half(RotaryScaling::DynamicNtk { factor, original_length }), false),
        ("yarn", half(RotaryScaling::Yarn(Yarn::new(4.0, 4).with_mscale_all_dim(0.7))), true),
        ("llama3", half(llama), true),
        ("long rope", half(long_rope), false),
        ("proportional", half(RotaryScaling::Proportional { share: 0.5, factor }), true),
        ("rms", half(RotaryScaling::None).with_qk_norm(QkNorm::Rms { epsilon }), true),
        ("layer norm", config().with_qk_norm(QkNorm::Layer { epsilon }), true),
        ("l2", config().with_qk_norm(QkNorm::L2 { epsilon }).with_scale(5.0), true),
        ("alibi", config().with_position(mha::Position::Alibi), true),
        ("t5", config().with_position(t5), true),
        ("bias_kv", config().with_bias_kv(2), true),
        ("quiet", config().with_sink(Sink::Quiet), true),
        ("zero key", config().with_sink(Sink::ZeroKey).with_bias_kv(1), true),
        ("learned sinks", config().with_sink(Sink::Learned), true),
        ("gate", config().with_gate(Gate::PerHead), true),
        ("gate of features", config().with_gate(Gate::Elementwise), true),
        ("burn-nn", config().burn_nn_compat(), true),
    ]
}

/// The positions as an index tensor.
pub(super) fn index<B: Backend>(positions: &[usize]) -> Tensor<B, 1, Int> {
    let positions: Vec<i64> = positions.iter().map(|&position| position as i64).collect();
    let count = positions.len();
    Tensor::from_data(TensorData::new(positions, [count]), &B::Device::default())
}

/// The rows and columns of a piece among those of the whole sequence, `[.., SEQ, SEQ]`.
fn cut<T: Copy>(all: &[T], piece: &Piece) -> Vec<T> {
    let rows = |matrix| (piece.start..piece.end).map(move |i| matrix * SEQ + i);
    let columns = |row| piece.keys.iter().map(move |&j| all[row * SEQ + j]);
    (0..all.len() / SEQ / SEQ).flat_map(rows).flat_map(columns).collect()
}

fn bias<B: Backend>(input: MhaInput<B>, piece: &Piece) -> MhaInput<B> {
    let all = numbers(5, BATCH * N_HEADS * SEQ * SEQ);
    let dims = [BATCH, N_HEADS, piece.end - piece.start, piece.keys.len()];
    if dims.contains(&0) {
        return input;
    }
    input.bias(tensor(&cut(&all, piece), dims))
}

fn dense<B: Backend>(input: MhaInput<B>, piece: &Piece) -> MhaInput<B> {
    let all = coins(6, BATCH * N_HEADS * SEQ * SEQ, 30);
    let dims = [BATCH, N_HEADS, piece.end - piece.start, piece.keys.len()];
    if dims.contains(&0) {
        return input;
    }
    input.mask(Mask::block(bools::<B, 4>(&cut(&all, piece), dims)))
}

fn padding<B: Backend>(input: MhaInput<B>, piece: &Piece) -> MhaInput<B> {
    if piece.keys.is_empty() {
        return input;
    }
    let all = coins(7, BATCH * SEQ, 30);
    let entry = |b: usize| piece.keys.iter().map(move |&key| b * SEQ + key);
    let hidden: Vec<bool> = (0..BATCH).flat_map(entry).map(|at| all[at]).collect();
    input.mask_pad(bools(&hidden, [BATCH, piece.keys.len()]))
}

fn segments<B: Backend>(input: MhaInput<B>, piece: &Piece) -> MhaInput<B> {
    let id = |b: usize, position: usize| u32::from(position >= 3 + 2 * b);
    let queries = (0..BATCH).map(|b| (piece.start..piece.end).map(|i| id(b, i)).collect());
    let keys = (0..BATCH).map(|b| piece.keys.iter().map(|&j| id(b, j)).collect());
    input.mask(Rule::Segments { query: queries.collect(), key: keys.collect() }.into())
}

fn head_scale<B: Backend>(input: MhaInput<B>) -> MhaInput<B> {
    input.head_scale(tensor(&numbers(8, N_HEADS), [N_HEADS]))
}

fn table<B: Backend>(input: MhaInput<B>) -> MhaInput<B> {
    let buckets = T5Buckets::bidirectional().with_n_buckets(8).with_max_distance(9);
    input.t5(buckets, tensor(&numbers(9, 8 * N_HEADS), [8, N_HEADS]))
}
