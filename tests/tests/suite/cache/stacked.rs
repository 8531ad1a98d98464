//! Layers on layers, each with a cache of its own.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::{KvCache, MhaInput, MultiHeadAttention, Rotary};
use mha_tests::{assert_close, floats, on_every_backend, wide};

use super::{Fill, assert_near, config, kinds, part, tokens};

on_every_backend!(two_layers_one_token_at_a_time, positions_may_start_anywhere);

const SEQ: usize = 10;

/// Two layers with residuals.
fn layers<B: Backend>() -> [MultiHeadAttention<B>; 2] {
    let config = config().with_n_kv_heads(2).with_position(Rotary::half(100.0));
    [200, 300].map(|seed| config.init(&Default::default()).map(&mut Fill { seed }))
}

fn through<B: Backend>(
    layers: &[MultiHeadAttention<B>],
    tokens: Tensor<B, 3>,
    mut attend: impl FnMut(usize, &MultiHeadAttention<B>, MhaInput<B>) -> Tensor<B, 3>,
) -> Tensor<B, 3> {
    layers.iter().enumerate().fold(tokens, |x, (index, layer)| {
        x.clone() + attend(index, layer, MhaInput::self_attn(x).causal())
    })
}

/// fla-org/flash-linear-attention #766: a counter that all layers share is one too far in the second.
fn two_layers_one_token_at_a_time<B: AutodiffBackend>() {
    let layers = layers::<B::InnerBackend>();
    let all = tokens(1, 2, SEQ);
    for (cache, rule) in kinds(SEQ) {
        let expected = through(&layers, all.clone(), |_, layer, input| {
            layer.forward(input.mask(rule.clone())).context
        });
        let mut caches = [cache.clone(), cache];
        for at in 0..SEQ {
            let out = through(&layers, part(&all, at, 1), |index, layer, input| {
                layer.forward_cached(input, &mut caches[index]).context
            });
            assert_near("two layers", &out, &part(&expected, at, 1));
        }
    }
}

fn positions_may_start_anywhere<B: AutodiffBackend>() {
    let layers = layers::<B::InnerBackend>();
    let all = tokens(1, 2, SEQ);
    let expected = through(&layers, all.clone(), |_, layer, input| layer.forward(input).context);
    for start in [1000, -1000] {
        let mut caches = [KvCache::growing(), KvCache::growing()];
        for at in 0..SEQ {
            let out = through(&layers, part(&all, at, 1), |index, layer, input| {
                let input = input.positions(start + at as i64);
                layer.forward_cached(input, &mut caches[index]).context
            });
            // Angles of a thousand are rounded where those near 0 are not.
            assert_close(&floats(out), &wide(&floats(part(&expected, at, 1))), 1e-4);
        }
    }
}
