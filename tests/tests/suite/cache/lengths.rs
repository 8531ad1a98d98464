//! Entries of their own length: each is as it would be alone.

use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::{
    Mask, MhaInput, MhaOutput, MultiHeadAttention, MultiHeadAttentionConfig, Position, QkNorm,
    Rotary, RotaryScaling, Sink, T5Buckets, Weights,
};
use mha_tests::on_every_backend;

use super::{WINDOW, assert_near, config, kinds, module, part, tokens};

on_every_backend!(padded_on_the_right, padded_on_the_left);

const SEQ: usize = 12;
const BATCH: usize = 3;

/// The tokens of one entry.
fn alone<B: Backend>(entry: usize) -> Tensor<B, 3> {
    tokens(20 + entry as u64, 1, SEQ)
}

/// Of each entry the tokens from `seen` on, as many as its number, and NaN up to the longest.
fn ragged<B: Backend>(seen: [usize; BATCH], new: [usize; BATCH], right: bool) -> Tensor<B, 3> {
    let longest = new.into_iter().max().unwrap_or(0);
    let entry = |b: usize| {
        let true_ones = part(&alone::<B>(b), seen[b], new[b]);
        let nothing = Tensor::ones([1, longest, super::D_MODEL], &Default::default()) * f32::NAN;
        match (new[b], longest - new[b]) {
            (_, 0) => true_ones,
            (0, _) => nothing,
            (_, n) if right => Tensor::cat(vec![true_ones, part(&nothing, 0, n)], 1),
            (_, n) => Tensor::cat(vec![part(&nothing, 0, n), true_ones], 1),
        }
    };
    Tensor::cat((0..BATCH).map(entry).collect(), 0)
}

fn configs() -> Vec<(&'static str, MultiHeadAttentionConfig)> {
    let dynamic = RotaryScaling::DynamicNtk { factor: 2.0, original_length: 4 };
    let long_rope = RotaryScaling::LongRope {
        short: vec![1.0, 2.0],
        long: vec![3.0, 5.0],
        original_length: 5,
        max_length: 16,
    };
    let half = |scaling| config().with_position(Rotary::half(100.0).with_scaling(scaling));
    let norm = QkNorm::Rms { epsilon: 1e-6 };
    vec![
        ("plain", config()),
        ("rotary", half(RotaryScaling::None).with_n_kv_heads(2).with_qk_norm(norm)),
        ("dynamic", half(dynamic)),
        ("long rope", half(long_rope)),
        ("alibi", config().with_position(Position::Alibi).with_value_dim(3)),
        ("t5", config().with_position(T5Buckets::causal())),
        ("sinks", config().with_sink(Sink::Learned).with_bias_kv(1)),
    ]
}

/// The entry's full pass up to `end`, all of it.
fn expected<B: Backend>(
    module: &MultiHeadAttention<B>,
    entry: usize,
    end: usize,
    rule: &Mask<B>,
) -> MhaOutput<B> {
    let input = MhaInput::self_attn(part(&alone(entry), 0, end)).causal().mask(rule.clone());
    module.forward(input.weights(Weights::PerHead).lse())
}

fn padded_on_the_right<B: AutodiffBackend>() {
    for (name, config) in configs() {
        let module = module::<B::InnerBackend>(&config);
        for (mut cache, _) in kinds(SEQ).into_iter().take(2) {
            // Prompts, a round in which one entry is done, then single steps.
            let mut seen = [0; BATCH];
            for new in [[3, 5, 1], [2, 0, 4], [0; 3], [1; 3], [1, 0, 1], [1; 3]] {
                let tokens = ragged(seen, new, true);
                let input = MhaInput::self_attn(tokens).causal().new_lengths(new.to_vec());
                let out = module.forward_cached(input.weights(Weights::PerHead).lse(), &mut cache);
                for b in 0..BATCH {
                    let name = format!("{name}, entry {b}: {} and {}", seen[b], new[b]);
                    check_entry(&name, &module, &out, b, [seen[b], new[b]]);
                    seen[b] += new[b];
                }
                assert_eq!(cache.lengths(), seen);
            }
        }
    }
}

fn check_entry<B: Backend>(
    name: &str,
    module: &MultiHeadAttention<B>,
    out: &MhaOutput<B>,
    b: usize,
    [seen, new]: [usize; 2],
) {
    if new == 0 {
        return;
    }
    let expected = expected(module, b, seen + new, &Mask::none());
    let entry = out.context.clone().narrow(0, b, 1).narrow(1, 0, new);
    assert_near(name, &entry, &expected.context.narrow(1, seen, new));
    let lse = out.lse.clone().unwrap().narrow(0, b, 1).narrow(2, 0, new);
    assert_near(name, &lse, &expected.lse.unwrap().narrow(2, seen, new));
    // The entry's keys, and none of what the longer ones have.
    let weights = out.weights.clone().unwrap().narrow(0, b, 1).narrow(2, 0, new);
    let expected = expected.weights.unwrap().narrow(2, seen, new);
    assert_near(
        name,
        &weights.clone().narrow(3, 0, seen + new),
        &expected.clone().narrow(3, 0, seen + new),
    );
    assert_near(name, &weights.sum_dim(3), &expected.sum_dim(3));
}

/// The padding is hidden and positions count from the first true token; NaN in it reaches nobody.
fn padded_on_the_left<B: AutodiffBackend>() {
    let padding = [0usize, 3, 2];
    let lengths = padding.map(|n| 5 - n);
    for (name, config) in [
        ("plain", config().with_n_kv_heads(2)),
        ("rotary", config().with_position(Rotary::half(100.0))),
        ("alibi", config().with_position(Position::Alibi)),
    ] {
        let module = module::<B::InnerBackend>(&config);
        // Sinks would be padding, so the last kind is left out.
        for (kind, (mut cache, rule)) in kinds(SEQ).into_iter().enumerate().take(3) {
            let prompt = ragged([0; BATCH], lengths, false);
            let mut at = 0;
            for n in [2, 3, 1, 1, 1, 1, 1] {
                let tokens = match at {
                    0..5 => part(&prompt, at, n),
                    _ => ragged(lengths.map(|length| length + at - 5), [n; BATCH], false),
                };
                let hidden = padding.map(|padding| padding.min(at + n)).to_vec();
                let input = MhaInput::self_attn(tokens).causal().mask(Mask::left_padding(hidden));
                let starts = padding.map(|padding| at as i64 - padding as i64).to_vec();
                let input = if name == "rotary" { input.positions(starts) } else { input };
                let out = module.forward_cached(input, &mut cache).context;
                for (b, padding) in padding.into_iter().enumerate() {
                    let true_ones = (at + n).saturating_sub(padding).min(n);
                    if true_ones == 0 {
                        continue;
                    }
                    let end = at + n - padding;
                    let name = format!("{name}, kind {kind}, entry {b}, {end}");
                    let ours = out.clone().narrow(0, b, 1).narrow(1, n - true_ones, true_ones);
                    let expected = self::expected(&module, b, end, &rule).context;
                    assert_near(&name, &ours, &expected.narrow(1, end - true_ones, true_ones));
                }
                at += n;
            }
            assert!(kind < 2 || at > WINDOW + 3, "the rolling cache has forgotten the padding");
        }
    }
}
