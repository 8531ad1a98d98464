//! Caches saved in the middle of a sequence.

use burn::record::{
    BinBytesRecorder, FullPrecisionSettings, HalfPrecisionSettings, NamedMpkBytesRecorder, Recorder,
};
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::{KvCache, MhaInput, MultiHeadAttention, Rotary, RotaryScaling};
use mha_tests::{assert_close, assert_same, floats, on_every_backend, wide};

use super::{config, kinds, module, part, step, tokens};

on_every_backend!(goes_on_with_the_same_bits, half_precision, empty_and_memory);

type Named<S> = NamedMpkBytesRecorder<S>;
type Binary<S> = BinBytesRecorder<S>;
type Full = FullPrecisionSettings;

/// The cache through both recorders.
fn through<B: Backend>(cache: &KvCache<B>) -> [KvCache<B>; 2] {
    let device = Default::default();
    let named = Named::<Full>::default();
    let bytes = Recorder::<B>::record(&named, cache.clone(), ()).expect("it saves");
    let by_name = named.load(bytes, &device).expect("it loads");
    let binary = Binary::<Full>::default();
    let bytes = Recorder::<B>::record(&binary, cache.clone(), ()).expect("it saves");
    [by_name, binary.load(bytes, &device).expect("it loads")]
}

fn modules<B: Backend>() -> [MultiHeadAttention<B>; 2] {
    let scaling = RotaryScaling::DynamicNtk { factor: 2.0, original_length: 4 };
    [RotaryScaling::None, scaling].map(|scaling| {
        let position = Rotary::half(100.0).with_scaling(scaling);
        module(&config().with_n_kv_heads(2).with_value_dim(3).with_position(position))
    })
}

fn goes_on_with_the_same_bits<B: AutodiffBackend>() {
    let all = tokens(1, 2, 9);
    for module in modules::<B::InnerBackend>() {
        for (kind, (mut cache, _)) in kinds(9).into_iter().enumerate() {
            let prompt = MhaInput::self_attn(part(&all, 0, 5)).causal();
            let ragged = kind < 2;
            let prompt = if ragged { prompt.new_lengths(vec![5, 3]) } else { prompt };
            module.forward_cached(prompt, &mut cache);
            for mut loaded in through(&cache) {
                assert_eq!(loaded.lengths(), cache.lengths());
                assert_eq!(loaded.capacity(), cache.capacity());
                let mut cache = cache.clone();
                for at in 5..9 {
                    let [ours, expected] = [&mut loaded, &mut cache]
                        .map(|cache| floats(step(&module, part(&all, at, 1), cache).context));
                    assert_same(&ours, &expected);
                }
            }
        }
    }
}

/// A smaller file, and numbers rounded as f16 has them.
fn half_precision<B: AutodiffBackend>() {
    let [module, _] = modules::<B::InnerBackend>();
    let all = tokens(1, 2, 6);
    let mut cache = KvCache::growing();
    step(&module, part(&all, 0, 5), &mut cache);
    let half = Binary::<HalfPrecisionSettings>::default();
    let bytes = Recorder::<B::InnerBackend>::record(&half, cache.clone(), ()).expect("it saves");
    let mut loaded = half.load(bytes, &Default::default()).expect("it loads");
    let [ours, expected] = [&mut loaded, &mut cache]
        .map(|cache| floats(step(&module, part(&all, 5, 1), cache).context));
    assert_close(&ours, &wide(&expected), 4e-3);
}

fn empty_and_memory<B: AutodiffBackend>() {
    let [module, _] = modules::<B::InnerBackend>();
    let all = tokens(1, 2, 6);
    for (cache, _) in kinds(9) {
        let expected = floats(step(&module, all.clone(), &mut cache.clone()).context);
        for mut loaded in through(&cache) {
            assert!(loaded.lengths().is_empty());
            assert_same(&floats(step(&module, all.clone(), &mut loaded).context), &expected);
        }
    }
    let memory = module.cache_memory(all.clone(), all.clone()).unwrap();
    let ask = |cache: &KvCache<_>| {
        let query = MhaInput::query(part(&all, 0, 1));
        floats(module.forward_cached(query, &mut cache.clone()).context)
    };
    for loaded in through(&memory) {
        assert_same(&ask(&loaded), &ask(&memory));
    }
}
