//! Sliding windows.

use burn::tensor::backend::AutodiffBackend;
use mha::{KvCache, Mask, MhaInput, Weights};
use mha_tests::{assert_close, assert_same, floats, numbers, on_every_backend, tensor, wide};

use super::{core, count_up, uniform};

on_every_backend!(br_24_window_counts_the_token_itself, br_24_window_of_one_and_of_all);

/// A causal window of this many tokens, the token itself among them, said in two ways.
fn windows<B: AutodiffBackend>(tokens: usize) -> [Mask<B>; 2] {
    [Mask::window(tokens - 1, 0), Mask::window(tokens - 1, None).and(Mask::causal())]
}

/// huggingface/transformers #39408 "Off-by-one error when using flash_attention with a sliding
/// window".
fn br_24_window_counts_the_token_itself<B: AutodiffBackend>() {
    for window in windows::<B>(3) {
        for weights in [Weights::None, Weights::PerHead] {
            let run = |seq_q| {
                uniform::<B>(seq_q, &count_up(6), |input| {
                    input.mask(window.clone()).weights(weights)
                })
            };
            assert_close(&run(6), &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0], 1e-6);
            assert_close(&run(2), &[4.0, 5.0], 1e-6);
        }
    }
    // The size of a rolling cache counts the token itself too.
    let values = tensor::<B, 3, _>(&count_up(6), [1, 6, 1]);
    let input = MhaInput::new(values.zeros_like(), values.zeros_like(), values).causal();
    let out = core::<B>(1, 1).forward_cached(input, &mut KvCache::rolling(3)).context;
    assert_close(&floats(out), &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0], 1e-6);
}

/// The same report: a window of one token gives the values, one as long as the sequence is plain
/// causal attention.
fn br_24_window_of_one_and_of_all<B: AutodiffBackend>() {
    let module = core::<B>(6, 2);
    let run = |mask: Mask<B>| {
        let tokens = tensor::<B, 3, _>(&numbers(1, 2 * 7 * 6), [2, 7, 6]);
        floats(module.forward(MhaInput::self_attn(tokens).mask(mask)).context)
    };
    for window in windows(1) {
        assert_close(&run(window), &wide(&numbers(1, 2 * 7 * 6)), 1e-6);
    }
    for tokens in [7, 8, 1000] {
        for window in windows(tokens) {
            assert_same(&run(window), &run(Mask::causal()));
        }
    }
    assert_ne!(run(Mask::window(5, 0)), run(Mask::causal()));
}
