//! Calls that a cache cannot take, and caches that a file made up.

use burn::record::{FullPrecisionSettings, Record};
use burn::tensor::backend::AutodiffBackend;
use burn::tensor::{DType, Distribution, Tensor};
use mha::Rotary;
use mha::{KvCache, Mask, MhaCache, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use mha_tests::{AnyBackend, assert_close, assert_same, floats, on_every_backend, wide};

use super::{assert_cache_refuses, assert_says, mask, panic_text, zeros};

on_every_backend!(
    another_layer,
    too_much,
    going_back,
    a_memory_that_was_cut,
    whole_sequences,
    whole_sequences_and_offsets,
    a_refused_memory,
);

fn module<B: AutodiffBackend>() -> MultiHeadAttention<B> {
    MultiHeadAttentionConfig::new(8, 2).init(&Default::default())
}

fn tokens<B: AutodiffBackend>(batch: usize, seq: usize) -> Tensor<B, 3> {
    zeros([batch, seq, 8])
}

fn random<B: AutodiffBackend>(seq: usize) -> Tensor<B, 3> {
    Tensor::random([1, seq, 8], Distribution::Default, &Default::default())
}

/// A cache that has seen three tokens of two entries.
fn filled<B: AutodiffBackend>(module: &MultiHeadAttention<B>, kind: KvCache<B>) -> KvCache<B> {
    let mut cache = kind;
    module.forward_cached(MhaInput::self_attn(tokens(2, 3)), &mut cache);
    cache
}

fn another_layer<B: AutodiffBackend>() {
    let device = Default::default();
    let module = module::<B>();
    let cache = filled(&module, KvCache::growing());
    let one = || MhaInput::self_attn(tokens(2, 1));
    let said = "cache must have 1 (batch) entries, got 2";
    assert_cache_refuses(&module, MhaInput::self_attn(tokens(1, 1)), &cache, said);
    let config = MultiHeadAttentionConfig::new(8, 2);
    assert_cache_refuses(
        &config.clone().with_n_kv_heads(1).init(&device),
        one(),
        &cache,
        "cached key: expected shape [2, 3, 1, 4] (batch, room, n_kv_heads, features), got [2, 3, \
         2, 4]",
    );
    assert_cache_refuses(
        &config.with_value_dim(3).init(&device),
        one(),
        &cache,
        "cached value: expected shape [2, 3, 2, 3] (batch, room, n_kv_heads, features), got [2, 3, \
         2, 4]",
    );
    assert_cache_refuses(
        &module,
        one().mask(Mask::lengths(vec![5])),
        &cache,
        "mask.lengths must be at most 4 (seq_k), got 5",
    );
    assert_cache_refuses(
        &module,
        one().mask_pad(mask([2, 1])),
        &cache,
        "mask_pad: expected shape [2, 4] (batch, seq_k), got [2, 1]",
    );
    if B::supports_dtype(&device, DType::F64) {
        let double = |x: Tensor<B, 3>| x.cast(DType::F64);
        let mut wide = KvCache::growing();
        let doubled = burn::module::Module::map(module.clone(), &mut Double);
        doubled.forward_cached(MhaInput::self_attn(double(tokens(2, 3))), &mut wide);
        let said = "cached key: expected dtype F32 as query has, got F64";
        assert_cache_refuses(&module, one(), &wide, said);
    }
}

struct Double;

impl<B: AutodiffBackend> burn::module::ModuleMapper<B> for Double {
    fn map_float<const D: usize>(
        &mut self,
        parameter: burn::module::Param<Tensor<B, D>>,
    ) -> burn::module::Param<Tensor<B, D>> {
        parameter.map(|tensor| tensor.cast(DType::F64))
    }
}

fn too_much<B: AutodiffBackend>() {
    let module = module::<B>();
    assert_cache_refuses(
        &module,
        MhaInput::self_attn(tokens(2, 2)),
        &filled(&module, KvCache::preallocated(4)),
        "cache must fit into its capacity of 4 tokens, got 3 seen and 2 new",
    );
    for (lengths, shown) in [(vec![3, 1], "[3, 1]"), (vec![1], "[1]")] {
        assert_cache_refuses(
            &module,
            MhaInput::self_attn(tokens(2, 2)).new_lengths(lengths),
            &KvCache::growing(),
            &format!("new_lengths must be 2 (batch) numbers of at most 2 new tokens, got {shown}"),
        );
    }
    // Sums of sizes do not overflow.
    let mut endless = KvCache::rolling_with_sinks(usize::MAX, usize::MAX);
    for _ in 0..2 {
        module
            .try_forward_cached(MhaInput::self_attn(tokens(2, 2)), &mut endless)
            .expect("it fits");
    }
}

fn going_back<B: AutodiffBackend>() {
    let module = module::<B>();
    let mut cache = filled(&module, KvCache::rolling(2));
    let said = "len must be at least 3 in a rolling cache that has forgotten keys, got 2";
    assert_says(cache.truncate(2), said);
    assert_says(cache.reorder(&[]), "entries must name at least one, got none");
    assert_says(cache.reorder(&[1, 2]), "entries must be below 2 (batch), got 2");
    assert_says(KvCache::<B>::growing().reorder(&[0]), "entries must be below 0 (batch), got 0");

    let mut memory = module.cache_memory(tokens(2, 3), tokens(2, 3)).expect("it fits");
    memory.clear();
    let said = "cache must be filled, got one that was cleared";
    assert_cache_refuses(&module, MhaInput::query(tokens(2, 1)), &memory, said);
}

/// A memory that was truncated is attended to as far as it goes.
fn a_memory_that_was_cut<B: AutodiffBackend>() {
    let module =
        MultiHeadAttentionConfig::new(8, 2).with_dropout(0.0).init::<B>(&Default::default());
    let (query, memory) = (random::<B>(2), random::<B>(7));
    let mut cache = module.cache_memory(memory.clone(), memory.clone()).expect("it fits");
    for n in [7, 3, 0] {
        cache.truncate(n).expect("it is shorter");
        let rest = memory.clone().slice([0..1, 0..n, 0..8]);
        let expected = module.forward(MhaInput::new(query.clone(), rest.clone(), rest)).context;
        let out = module.forward_cached(MhaInput::query(query.clone()), &mut cache).context;
        assert_close(&floats(out), &wide(&floats(expected)), 1e-6);
    }
}

fn whole_sequences<B: AutodiffBackend>() {
    let module = module::<B>();
    let refused = |input: MhaInput<B>, said: &str| {
        let mut cache = MhaCache::autoregressive();
        module.forward_cache(MhaInput::self_attn(tokens(2, 5)), &mut cache);
        assert_says(module.try_forward_cache(input.clone(), &mut cache), said);
        assert_eq!(panic_text(|| module.forward_cache(input, &mut cache)), said);
        // As it was.
        let next = MhaInput::self_attn(tokens(2, 6));
        assert_eq!(module.forward_cache(next, &mut cache).context.dims(), [2, 6, 8]);
    };
    let six = || MhaInput::self_attn(tokens(2, 6));
    refused(
        MhaInput::self_attn(tokens(2, 5)),
        "query must be longer than the 5 tokens that the cache has seen, got 5",
    );
    refused(MhaInput::self_attn(tokens(3, 6)), "cache must have 3 (batch) entries, got 2");
    // What only the tokens seen before have wrong is wrong too.
    refused(
        MhaInput::new(tokens(2, 6), tokens(2, 4), tokens(2, 4)),
        "key must be longer than the 5 tokens that the cache has seen, got 4",
    );
    refused(
        MhaInput::new(tokens(2, 6), tokens(2, 6), tokens(2, 7)),
        "value: expected shape [2, 6, 8] (batch, seq_k, d_value), got [2, 7, 8]",
    );
    refused(
        six().mask_attn(mask([2, 3, 6])),
        "mask_attn: expected shape [2, 6, 6] (batch, seq_q, seq_k), each axis may also be 1, got \
         [2, 3, 6]",
    );
    refused(
        six().bias(zeros([1, 1, 4, 6])),
        "bias: expected shape [2, 2, 6, 6] (batch, n_heads, seq_q, seq_k), each axis may also be \
         1, got [1, 1, 4, 6]",
    );
    let mut cross = MhaCache::autoregressive_cross_attention();
    let over = |seq_q, seq_k| MhaInput::new(tokens(2, seq_q), tokens(2, seq_k), tokens(2, seq_k));
    module.forward_cache(over(1, 7), &mut cross);
    let said = "key: expected shape [2, 7, 8] (batch, seq_k, d_key), got [2, 6, 8]";
    assert_says(module.try_forward_cache(over(2, 6), &mut cross), said);
    module.forward_cache(over(2, 7), &mut cross);
}

/// What a call adds, given the ids of its tokens.
type Change<B> = fn(MhaInput<B>, &[u32]) -> MhaInput<B>;

/// Places that count from the first query of the whole sequence are cut with it.
fn whole_sequences_and_offsets<B: AutodiffBackend>() {
    let config = MultiHeadAttentionConfig::new(8, 2).with_dropout(0.0);
    let module = config.with_position(Rotary::half(100.0)).init::<B>(&Default::default());
    let all = random::<B>(6);
    let ids = [0, 0, 1, 1, 1, 1];
    let changes: [Change<B>; 7] = [
        |input, _| input.mask(Mask::top_left()),
        |input, _| input.causal().query_offset(0),
        |input, _| input.mask(Mask::causal_at(vec![0])),
        |input, _| input.causal().positions(5),
        |input, _| input.causal().query_positions(5),
        |input, ids| input.causal().mask(Mask::segments(vec![ids.to_vec()])),
        |input, ids| {
            let doubled: Vec<i64> = (0..ids.len() as i64).map(|i| 2 * i).collect();
            input.causal().positions(vec![doubled])
        },
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let so_far = |n| change(MhaInput::self_attn(all.clone().narrow(1, 0, n)), &ids[..n]);
        let mut cache = MhaCache::autoregressive();
        for n in [2, 5, 6] {
            let expected = floats(module.forward(so_far(n)).context);
            let out = floats(module.forward_cache(so_far(n), &mut cache).context);
            let error = mha_tests::max_error(&out, &wide(&expected));
            assert!(error < 1e-6, "case {index}, {n} tokens: {error}");
        }
    }
}

/// A refused first call does not leave its memory in the cache.
fn a_refused_memory<B: AutodiffBackend>() {
    let module =
        MultiHeadAttentionConfig::new(8, 2).with_dropout(0.0).init::<B>(&Default::default());
    let (query, first, second) = (random::<B>(1), random::<B>(4), random::<B>(4));
    let over = |memory: &Tensor<B, 3>| MhaInput::new(query.clone(), memory.clone(), memory.clone());
    let mut cache = MhaCache::autoregressive_cross_attention();
    let wrong = over(&first).positions(3);
    assert!(module.try_forward_cache(wrong, &mut cache).is_err());
    let out = module.forward_cache(over(&second), &mut cache).context;
    assert_same(&floats(out), &floats(module.forward(over(&second)).context));
}

/// A cache from a file whose numbers were changed.
#[test]
fn files() {
    type S = FullPrecisionSettings;
    let device = Default::default();
    let module = MultiHeadAttentionConfig::new(8, 2).init::<AnyBackend>(&device);
    let token = |n| MhaInput::self_attn(zeros::<AnyBackend, 3>([2, n, 8]));
    let changed = |cache: KvCache<AnyBackend>, from: &str, to: &str| -> KvCache<AnyBackend> {
        let saved = serde_json::to_string(&cache.into_item::<S>()).expect("saves");
        assert!(saved.contains(from), "{from} in {saved}");
        let item = serde_json::from_str(&saved.replace(from, to)).expect("loads");
        KvCache::from_item::<S>(item, &device)
    };
    let with = |mut cache: KvCache<AnyBackend>| {
        module.forward_cached(token(3), &mut cache);
        cache
    };
    let cache = changed(with(KvCache::growing()), "[3,3]", "[3,9]");
    let said = "cache must have lengths for 2 entries of at most 3, got [3, 9]";
    assert_cache_refuses(&module, token(1), &cache, said);
    let cache = changed(KvCache::growing(), "\"lengths\":[]", "\"lengths\":[3,3]");
    let said = "cache must hold keys and values, got one without";
    assert_cache_refuses(&module, token(1), &cache, said);
    let cache = changed(KvCache::rolling(4), "\"window\":4", "\"window\":0");
    let said = "cache must have a window of at least 1, got 0";
    assert_cache_refuses(&module, token(1), &cache, said);
}
