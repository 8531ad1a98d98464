//! Rolling caches: known numbers, sizes that are odd, and a storage that does not grow.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::module::Param;
use burn::nn::Linear;
use burn::record::{FullPrecisionSettings, Record};
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::{KvCache, Mask, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, Rotary};
use mha_tests::{assert_close, floats, on_every_backend, tensor};

use super::{assert_near, config, kinds, module, part, step, tokens, whole};

on_every_backend!(
    cached_rows_are_bottom_right,
    a_prompt_longer_than_the_window,
    odd_sizes,
    empty_batch,
    storage_does_not_grow,
);

/// One head of one feature that gives the mean of the tokens it sees: zero query, identity values.
fn mean<B: Backend>() -> MultiHeadAttention<B> {
    let config = MultiHeadAttentionConfig::new(1, 1).with_bias(false).with_dropout(0.0);
    let mut module = config.init::<B>(&Default::default());
    let weight = |x: f32| Linear { weight: Param::from_tensor(tensor(&[x], [1, 1])), bias: None };
    (module.query, module.value, module.output) = (weight(0.0), weight(1.0), weight(1.0));
    module
}

fn means<B: Backend>(numbers: &[f32], cache: &mut KvCache<B>) -> Vec<f32> {
    let tokens = tensor::<B, 3, _>(numbers, [1, numbers.len(), 1]);
    floats(step(&mean(), tokens, cache).context)
}

/// pytorch/pytorch #110144 "The masking matrix seems to be wrong in the
/// torch.nn.functional.scaled_dot_product_attention function": four tokens cached, then two at once.
fn cached_rows_are_bottom_right<B: AutodiffBackend>() {
    for (mut cache, _) in kinds::<B>(6).into_iter().take(2) {
        means(&[1.0, 2.0, 3.0, 4.0], &mut cache);
        assert_close(&means(&[5.0, 6.0], &mut cache), &[3.0, 3.5], 1e-6);
    }
}

/// Lightning-AI/litgpt #2182 "Sliding-window KV cache + prefill longer than window breaks causality".
fn a_prompt_longer_than_the_window<B: AutodiffBackend>() {
    let expected = [1.0, 1.5, 2.0, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5];
    let numbers: Vec<f32> = (1..=10).map(|x| x as f32).collect();
    for pieces in [vec![7, 1, 1, 1], vec![3, 6, 1], vec![10], vec![4, 1, 5]] {
        let mut cache = KvCache::<B>::rolling(4);
        let mut start = 0;
        for n in pieces {
            let out = means(&numbers[start..start + n], &mut cache);
            assert_close(&out, &expected[start..start + n], 1e-6);
            start += n;
        }
    }
}

/// Windows of one token and of more than all, sinks of more than all, no room at all.
fn odd_sizes<B: AutodiffBackend>() {
    let module = module::<B::InnerBackend>(&config().with_position(Rotary::half(100.0)));
    let all = tokens(1, 2, 7);
    let expected = whole(&module, &all, &Mask::none());
    let most = usize::MAX;
    let wide = [(most, 0), (1, most), (most, most), (100, 2), (7, 0), (3, 4)];
    for (window, sinks) in wide {
        let mut cache = KvCache::rolling_with_sinks(window, sinks);
        for [start, n] in [[0, 5], [5, 1], [6, 0], [6, 1]] {
            let out = step(&module, part(&all, start, n), &mut cache).context;
            assert_near(&format!("{window}, {sinks}"), &out, &part(&expected, start, n));
        }
        assert_eq!((cache.len(), cache.capacity()), (7, None));
    }
    // A query that sees itself alone.
    let mut cache = KvCache::rolling(1);
    for at in 0..7 {
        let out = step(&module, part(&all, at, 1), &mut cache).context;
        assert_near("itself", &out, &whole(&module, &part(&all, at, 1), &Mask::none()));
    }
    let panic = catch_unwind(AssertUnwindSafe(|| KvCache::<B>::rolling(0))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"window must be at least 1, got 0"));

    let mut none = KvCache::preallocated(0);
    assert_eq!(step(&module, part(&all, 0, 0), &mut none).context.dims(), [2, 0, super::D_MODEL]);
    let error = super::refusal(&module, MhaInput::self_attn(all), &mut none);
    assert_eq!(error, "cache must fit into its capacity of 0 tokens, got 0 seen and 7 new");
}

/// No entry, so nothing to remember: the cache stays free for any batch.
fn empty_batch<B: AutodiffBackend>() {
    let module = module::<B::InnerBackend>(&config().with_position(Rotary::half(100.0)));
    let all = tokens(1, 2, 5);
    for (mut cache, rule) in kinds(9) {
        for n in [0, 4, 1] {
            let input = MhaInput::self_attn(tokens(1, 0, n)).causal();
            let hidden =
                Mask::from_fn([1, 1, n.max(1), n.max(1)], &Default::default(), |_, _, _, _| true);
            let input = if n > 0 { input.mask(hidden) } else { input };
            let out = module.forward_cached(input, &mut cache).context;
            assert_eq!(out.dims(), [0, n, super::D_MODEL]);
        }
        assert!(cache.is_empty() && cache.lengths().is_empty());
        let out = step(&module, all.clone(), &mut cache).context;
        assert_near("after none", &out, &whole(&module, &all, &rule));
    }
}

/// Three hundred steps, with positions far beyond the window, each as in a full pass.
fn storage_does_not_grow<B: AutodiffBackend>() {
    const STEPS: usize = 300;
    let config = config().with_n_kv_heads(2).with_position(Rotary::half(100.0));
    let module = module::<B::InnerBackend>(&config);
    let all = tokens(1, 1, STEPS);
    for (kind, (mut cache, rule)) in kinds(9).into_iter().enumerate().skip(2) {
        let expected = whole(&module, &all, &rule);
        let rows = super::WINDOW + [0, super::SINKS][kind - 2];
        for at in 0..STEPS {
            let out = step(&module, part(&all, at, 1), &mut cache).context;
            assert_near("step", &out, &part(&expected, at, 1));
            if at % 50 == 49 {
                let dims = [1, rows, 2, 4];
                assert_eq!(stored(&cache), [dims, dims]);
            }
        }
        assert_eq!(cache.len(), STEPS);
        // Nor does a long prompt stay.
        step(&module, all.clone(), &mut cache);
        assert_eq!(stored(&cache)[0], [1, rows, 2, 4]);
    }
    // A growing one has room for at most twice the tokens, a preallocated one for its capacity.
    let (mut growing, mut fixed) = (KvCache::growing(), KvCache::preallocated(STEPS));
    for at in 0..STEPS {
        step(&module, part(&all, at, 1), &mut growing);
        step(&module, part(&all, at, 1), &mut fixed);
    }
    assert!((STEPS..2 * STEPS).contains(&stored(&growing)[0][1]));
    assert_eq!(stored(&fixed)[1], [1, STEPS, 2, 4]);
}

/// The shapes of the keys and values that a cache holds.
fn stored<B: Backend>(cache: &KvCache<B>) -> [[usize; 4]; 2] {
    let item = Record::<B>::into_item::<FullPrecisionSettings>(cache.clone());
    let json = serde_json::to_value(item).expect("an item is data");
    ["key", "value"]
        .map(|name| serde_json::from_value(json[name]["shape"].clone()).expect("four axes"))
}
