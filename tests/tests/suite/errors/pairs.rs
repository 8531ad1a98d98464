//! Options that cannot go together.

use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::{
    AttentionOptions, KvCache, Masking, MhaCache, MhaInput, MultiHeadAttention,
    MultiHeadAttentionConfig, Rotary, RotaryScaling, Sink, T5Buckets, Yarn, attention,
    try_attention,
};
use mha_tests::{AnyBackend, floats, on_every_backend};

use super::{assert_cache_refuses, assert_refuses, assert_says, panic_text, zeros};

on_every_backend!(
    overwriting_and_sinks,
    overwriting_and_a_bias,
    positions_without_rotary,
    positions_and_a_scaling_by_length,
    tables_of_two,
    lengths_of_a_call,
    memory_and_keys,
);

fn module<B: AutodiffBackend>(config: MultiHeadAttentionConfig) -> MultiHeadAttention<B> {
    config.init(&Default::default())
}

fn config() -> MultiHeadAttentionConfig {
    MultiHeadAttentionConfig::new(8, 2)
}

#[test]
fn within_a_configuration() {
    let refused = |config: MultiHeadAttentionConfig, said: &str| {
        let device = Default::default();
        assert_says(config.try_init::<AnyBackend>(&device), said);
        assert_eq!(panic_text(|| config.init::<AnyBackend>(&device)), said);
    };
    for (sink, name) in [(Sink::Learned, "Learned"), (Sink::ZeroKey, "ZeroKey")] {
        let said = format!("masking must be Exclude with the sink {name}, got Overwrite");
        refused(config().burn_nn_compat().with_sink(sink), &said);
    }
    assert!(
        config()
            .burn_nn_compat()
            .with_sink(Sink::Quiet)
            .try_init::<AnyBackend>(&Default::default())
            .is_ok()
    );
    let yarn = Yarn::new(4.0, 9).with_attention_factor(1.0).with_mscale(0.7);
    let rotary = Rotary::half(1e4).with_scaling(RotaryScaling::Yarn(yarn));
    refused(
        config().with_position(rotary),
        "mscale must be unset where attention_factor is set, got 0.7",
    );
    let share = RotaryScaling::Proportional { share: 0.5, factor: 1.0 };
    refused(
        config().with_position(Rotary::half(1e4).with_scaling(share).with_width(2)),
        "width must be head_dim 4 or unset with Proportional, got 2",
    );
}

fn overwriting_and_sinks<B: AutodiffBackend>() {
    let refused = |options: AttentionOptions<B>, name: &str| {
        let options = options.masking(Masking::Overwrite { min_float: -1e4 });
        let x = || zeros::<B, 4>([2, 5, 3, 4]);
        let said = format!("masking must be Exclude with the sink {name}, got Overwrite");
        assert_says(try_attention(x(), x(), x(), &options), &said);
        assert_eq!(panic_text(|| attention(x(), x(), x(), &options)), said);
    };
    refused(AttentionOptions::default().sink(zeros([3])), "Learned");
    refused(AttentionOptions::default().zero_attention(), "ZeroKey");
}

/// What a bias of -∞ hides is overwritten too: a row of nothing else averages, where it was NaN.
fn overwriting_and_a_bias<B: AutodiffBackend>() {
    let device = Default::default();
    let options = AttentionOptions::<B>::default()
        .masking(Masking::Overwrite { min_float: -1e4 })
        .bias(Tensor::full([1, 1, 1, 1], f64::NEG_INFINITY, &device));
    let zeros = |seq| zeros::<B, 4>([1, seq, 1, 1]);
    let value = Tensor::from_data([[[[1.0]], [[3.0]]]], &device);
    assert_eq!(floats(attention(zeros(1), zeros(2), value, &options).context), [2.0]);
}

fn positions_without_rotary<B: AutodiffBackend>() {
    let input = || MhaInput::self_attn(zeros::<B, 3>([2, 5, 8]));
    let said = "must be given to a module with rotary positions, got a module without";
    for config in [config(), config().with_position(T5Buckets::causal())] {
        let module = module(config);
        let refused = |input, name| assert_refuses(&module, input, &format!("{name} {said}"));
        refused(input().positions(3), "query_positions");
        refused(input().query_positions(3), "query_positions");
        refused(input().key_positions(3), "key_positions");
    }
}

fn positions_and_a_scaling_by_length<B: AutodiffBackend>() {
    let factors = || vec![1.0; 2];
    let scalings = [
        RotaryScaling::DynamicNtk { factor: 2.0, original_length: 4 },
        RotaryScaling::LongRope {
            short: factors(),
            long: factors(),
            original_length: 4,
            max_length: 8,
        },
    ];
    for scaling in scalings {
        let module = module(config().with_position(Rotary::half(1e4).with_scaling(scaling)));
        let input = MhaInput::self_attn(zeros::<B, 3>([2, 5, 8]));
        module.try_forward(input.clone().positions(3)).expect("without a cache they may come");
        let said = "must be left out with a cache and a scaling that depends on the length, got \
                    positions";
        let refused = |input, name: &str| {
            assert_cache_refuses(&module, input, &KvCache::growing(), &format!("{name} {said}"));
        };
        refused(input.clone().query_positions(3), "query_positions");
        refused(input.key_positions(3), "key_positions");
    }
}

fn tables_of_two<B: AutodiffBackend>() {
    let module = module(config().with_position(T5Buckets::causal()));
    let input = MhaInput::self_attn(zeros::<B, 3>([2, 5, 8]));
    let said = "t5 must be left out of a module that has a table of its own, got a table";
    assert_refuses(&module, input.t5(T5Buckets::causal(), zeros([32, 2])), said);
}

fn lengths_of_a_call<B: AutodiffBackend>() {
    let module = module(config());
    let input = || MhaInput::self_attn(zeros::<B, 3>([2, 5, 8]));
    let said = "new_lengths must be given with a cache, got a call without one";
    assert_refuses(&module, input().new_lengths(vec![5, 5]), said);
    assert_cache_refuses(
        &module,
        input().new_lengths(vec![5, 3]),
        &KvCache::rolling(4),
        "new_lengths must be the same for all entries of a rolling cache, got [5, 3]",
    );
    // Where entries differ in length, one query for five keys would stand nowhere.
    let one = MhaInput::new(zeros::<B, 3>([2, 1, 8]), zeros([2, 5, 8]), zeros([2, 5, 8]));
    assert_cache_refuses(
        &module,
        one.new_lengths(vec![5, 3]),
        &KvCache::growing(),
        "query must have as many tokens as key, 5, where entries differ in length, got 1",
    );
    let mut cache = MhaCache::autoregressive();
    let said = "new_lengths must be left out: all tokens of the query are true ones, got [5, 3]";
    let input = input().new_lengths(vec![5, 3]);
    assert_says(module.try_forward_cache(input.clone(), &mut cache), said);
    assert_eq!(panic_text(|| module.forward_cache(input, &mut cache)), said);
}

fn memory_and_keys<B: AutodiffBackend>() {
    let module = module(config().with_position(Rotary::half(1e4)));
    let query = || zeros::<B, 3>([2, 1, 8]);
    let memory = || zeros::<B, 3>([2, 7, 8]);
    let cache = module.cache_memory(memory(), memory()).expect("it fits");
    assert_cache_refuses(
        &module,
        MhaInput::new(query(), memory(), memory()),
        &cache,
        "key and value must be left out: the cache holds those of the memory, got both",
    );
    let said =
        "key_positions must be left out: the cache holds the keys of the memory, got positions";
    assert_cache_refuses(&module, MhaInput::query(query()).key_positions(3), &cache, said);
    assert_cache_refuses(&module, MhaInput::query(query()).positions(3), &cache, said);
    let mut same = cache;
    let asked = MhaInput::query(query()).query_positions(3);
    module.try_forward_cached(asked, &mut same).expect("the query's own");

    let said = "key and value must be given, got a query alone";
    let alone = || MhaInput::query(query());
    assert_refuses(&module, alone(), said);
    assert_cache_refuses(&module, alone(), &KvCache::growing(), said);
    assert_says(module.explain(&alone()), said);
    assert_says(module.weights_of(alone(), &[0], &[0]), said);
    let mut cross = MhaCache::autoregressive_cross_attention();
    assert_says(module.try_forward_cache(alone(), &mut cross), said);
}
