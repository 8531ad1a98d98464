//! Caches of keys and values.

use burn::module::Param;
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::{KvCache, Mask, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, Rotary};
use mha_tests::{assert_close, floats, numbers, on_every_backend, tensor, wide};

use super::{core, count_up};

on_every_backend!(
    br_21_two_after_four,
    br_21_any_chunks,
    br_23_window_shorter_than_prefill,
    br_23_positions_go_on_counting
);

/// The sequence in pieces of these lengths, each joining the cache.
fn in_pieces<B: Backend>(
    module: &MultiHeadAttention<B>,
    cache: &mut KvCache<B>,
    pieces: &[usize],
    input: impl Fn(usize, usize) -> MhaInput<B>,
) -> Vec<f32> {
    let mut start = 0;
    let piece = |&n: &usize| {
        let out = module.forward_cached(input(start, n), cache).context;
        start += n;
        out
    };
    floats(Tensor::cat(pieces.iter().map(piece).collect(), 1))
}

/// Uniform causal attention over 1, 2, 3 ..: queries and keys are zeros.
fn uniform_in_pieces<B: Backend>(
    cache: &mut KvCache<B>,
    pieces: &[usize],
    mask: &Mask<B>,
) -> Vec<f32> {
    let values = count_up(pieces.iter().sum());
    in_pieces(&core(1, 1), cache, pieces, |start, n| {
        let zeros = Tensor::zeros([1, n, 1], &Default::default());
        let values = tensor(&values[start..start + n], [1, n, 1]);
        MhaInput::new(zeros.clone(), zeros, values).causal().mask(mask.clone())
    })
}

/// pytorch/pytorch #110144 "The masking matrix seems to be wrong in the
/// torch.nn.functional.scaled_dot_product_attention function": two tokens after four cached ones.
fn br_21_two_after_four<B: AutodiffBackend>() {
    for mut cache in [KvCache::growing(), KvCache::preallocated(6), KvCache::rolling(6)] {
        let out = uniform_in_pieces::<B>(&mut cache, &[4, 2], &Mask::none());
        assert_close(&out, &[1.0, 1.5, 2.0, 2.5, 3.0, 3.5], 1e-6);
        assert_eq!(cache.len(), 6);
    }
}

/// huggingface/candle PR #3743, Dao-AILab/flash-attention #402 and Mikyx-1/TinyLLM #17 (a prefill
/// with a cache attached skips causality): every way to cut a sequence gives the one causal pass.
fn br_21_any_chunks<B: AutodiffBackend>() {
    let config = MultiHeadAttentionConfig::new(8, 4).with_dropout(0.0);
    let grouped = config.clone().with_n_kv_heads(2);
    let rotary = grouped.clone().with_head_dim(6).with_position(Rotary::half(10_000.0));
    for config in [config, grouped, rotary] {
        let module = config.init::<B>(&Default::default());
        let tokens = tensor::<B, 3, _>(&numbers(1, 2 * 10 * 8), [2, 10, 8]);
        let whole = MhaInput::self_attn(tokens.clone()).causal();
        let expected = wide(&floats(module.forward(whole).context));
        for chunk in [1, 2, 3, 5, 10] {
            let pieces: Vec<usize> =
                (0..10).step_by(chunk).map(|start| chunk.min(10 - start)).collect();
            for mut cache in [
                KvCache::growing(),
                KvCache::preallocated(10),
                KvCache::preallocated(16),
                KvCache::rolling(10),
            ] {
                let out = in_pieces(&module, &mut cache, &pieces, |start, n| {
                    MhaInput::self_attn(tokens.clone().narrow(1, start, n)).causal()
                });
                assert_close(&out, &expected, 1e-5);
            }
        }
    }
}

/// The pieces that [`br_23_window_shorter_than_prefill`] names, each of ten tokens, and others.
const PIECES: [&[usize]; 5] = [&[7, 1, 1, 1], &[3, 6, 1], &[10], &[1; 10], &[4, 4, 2]];

/// Lightning-AI/litgpt #2182 "Sliding-window KV cache + prefill longer than window breaks causality
/// ..." and lablup/mlxcel #413: a window of four tokens, the token itself among them.
fn br_23_window_shorter_than_prefill<B: AutodiffBackend>() {
    let expected = [1.0, 1.5, 2.0, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5];
    for pieces in PIECES {
        let mut cache = KvCache::rolling(4);
        let out = uniform_in_pieces::<B>(&mut cache, pieces, &Mask::none());
        assert_close(&out, &expected, 1e-6);
        assert_eq!(cache.len(), 10); // true tokens, of which it keeps four

        // A cache that keeps them all, and the same window as a rule.
        let out = uniform_in_pieces::<B>(&mut KvCache::growing(), pieces, &Mask::window(3, 0));
        assert_close(&out, &expected, 1e-6);
    }
}

/// The same report: rotary positions count true tokens after old ones are dropped.
fn br_23_positions_go_on_counting<B: AutodiffBackend>() {
    let config = MultiHeadAttentionConfig::new(8, 2)
        .with_n_kv_heads(1)
        .with_dropout(0.0)
        .with_position(Rotary::half(10.0));
    let mut module = config.init::<B>(&Default::default());
    // Strong scores, so that a wrong angle would show.
    module.query.weight = Param::from_tensor(tensor(&numbers(2, 64), [8, 8]));
    module.key.weight = Param::from_tensor(tensor(&numbers(3, 32), [8, 4]));
    let tokens = tensor::<B, 3, _>(&numbers(1, 2 * 10 * 8), [2, 10, 8]);
    let piece = |start, n| MhaInput::self_attn(tokens.clone().narrow(1, start, n)).causal();
    let whole = piece(0, 10).mask(Mask::window(3, 0));
    let expected = wide(&floats(module.forward(whole).context));
    for pieces in PIECES {
        let out = in_pieces(&module, &mut KvCache::rolling(4), pieces, piece);
        assert_close(&out, &expected, 1e-5);
    }

    // It would show: counting within the cache, the last query would stand at position 4.
    let mut cache = KvCache::rolling(4);
    in_pieces(&module, &mut cache, &[9], piece);
    let out = module.forward_cached(piece(9, 1).positions(4), &mut cache).context;
    let wrong = floats(out.narrow(0, 0, 1));
    let right = &expected[9 * 8..10 * 8];
    assert!(wrong.iter().zip(right).any(|(&x, y)| (f64::from(x) - y).abs() > 1e-2));
}
