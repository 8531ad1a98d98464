//! Every refused call, word for word; the cache is then as it was.

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, DType, Tensor};
use mha::{KvCache, Mask, MhaInput, MultiHeadAttention, Rotary, RotaryScaling, T5Buckets};
use mha_tests::{assert_same, floats, on_every_backend};

use super::{D_MODEL, assert_near, config, kinds, module, part, refusal, step, tokens, whole};

on_every_backend!(changes_nothing, full, uneven_in_a_rolling_cache, positions);

fn zeros<B: Backend, const D: usize>(dims: [usize; D]) -> Tensor<B, D> {
    Tensor::zeros(dims, &B::Device::default())
}

fn mask<B: Backend, const D: usize>(dims: [usize; D]) -> Tensor<B, D, Bool> {
    zeros::<B, D>(dims).bool()
}

/// Calls that do not fit two entries with `cached` keys of a module with rotary positions, each
/// with what is said.
fn misfits<B: Backend>(cached: usize) -> Vec<(MhaInput<B>, String)> {
    let new = || MhaInput::self_attn(tokens::<B>(2, 2, 2));
    let keys = cached + 2;
    let buckets = T5Buckets::causal();
    let mut all = vec![
        (
            MhaInput::self_attn(zeros([2, 2, 6])),
            format!(
                "query: expected shape [2, 2, {D_MODEL}] (batch, seq_q, d_model), got [2, 2, 6]"
            ),
        ),
        (
            MhaInput::self_attn(tokens(2, 3, 2)),
            "cache must have 3 (batch) entries, got 2".to_string(),
        ),
        (
            MhaInput::new(tokens(2, 2, 2), tokens(2, 2, 3), tokens(2, 2, 2)),
            format!(
                "value: expected shape [2, 3, {D_MODEL}] (batch, seq_k, d_value), got [2, 2, {D_MODEL}]"
            ),
        ),
        (
            new().bias(zeros([2, 4, 2, 2])),
            format!(
                "bias: expected shape [2, 4, 2, {keys}] (batch, n_heads, seq_q, seq_k), each axis may also be 1, got [2, 4, 2, 2]"
            ),
        ),
        (
            new().mask_pad(mask([2, 2])),
            format!("mask_pad: expected shape [2, {keys}] (batch, seq_k), got [2, 2]"),
        ),
        (
            new().mask_attn(mask([2, keys, keys])),
            format!(
                "mask_attn: expected shape [2, 2, {keys}] (batch, seq_q, seq_k), each axis may also be 1, got [2, {keys}, {keys}]"
            ),
        ),
        (
            new().mask(Mask::segments(vec![vec![0; 2]])),
            format!("mask.segments.key must have {keys} (seq_k) ids in each entry, got 2"),
        ),
        (
            new().mask(Mask::causal_at(vec![1, 2, 3])),
            "mask.causal.offset must have 1 or 2 (batch) entries, got 3".to_string(),
        ),
        (
            new().query_offset(vec![1, 2, 3]),
            "query_offset must have 1 or 2 (batch) entries, got 3".to_string(),
        ),
        (
            new().head_scale(zeros([3])),
            "head_scale: expected shape [4] (n_heads), got [3]".to_string(),
        ),
        (
            new().t5(buckets, zeros([32, 3])),
            "t5 table: expected shape [32, 4] (n_buckets, n_heads), got [32, 3]".to_string(),
        ),
        (
            new().new_lengths(vec![2]),
            "new_lengths must be 2 (batch) numbers of at most 2 new tokens, got [2]".to_string(),
        ),
        (
            new().new_lengths(vec![2, 3]),
            "new_lengths must be 2 (batch) numbers of at most 2 new tokens, got [2, 3]".to_string(),
        ),
        (
            new().positions(vec![1, 2, 3]),
            "query_positions must be given for 1 or 2 (batch) entries, got 3".to_string(),
        ),
        (
            new().key_positions(vec![vec![1, 2, 3]]),
            "key_positions must be 2 per entry, got 3".to_string(),
        ),
        (
            MhaInput::query(tokens(2, 2, 2)),
            "key and value must be given, got a query alone".to_string(),
        ),
    ];
    if B::supports_dtype(&Default::default(), DType::F64) {
        all.push((
            MhaInput::self_attn(tokens(2, 2, 2).cast(DType::F64)),
            "query: expected dtype F32 as the parameter query.weight has, got F64".to_string(),
        ));
        all.push((
            new().bias(zeros([1, 1, 1, 1]).cast(DType::F64)),
            "bias: expected dtype F32 as query has, got F64".to_string(),
        ));
    }
    all
}

fn rotary<B: Backend>() -> MultiHeadAttention<B> {
    module(&config().with_n_kv_heads(2).with_position(Rotary::half(100.0)))
}

fn changes_nothing<B: AutodiffBackend>() {
    let module = rotary::<B::InnerBackend>();
    let all = tokens(1, 2, 8);
    for (kind, (mut cache, _)) in kinds(8).into_iter().enumerate() {
        step(&module, part(&all, 0, 6), &mut cache);
        let mut twin = cache.clone();
        let kept = [6, 6, 3, 5][kind];
        for (input, said) in misfits(kept) {
            assert_eq!(refusal(&module, input.clone(), &mut cache), said);
            let panic = catch_unwind(AssertUnwindSafe(|| {
                drop(module.forward_cached(input, &mut cache));
            }));
            let panic = panic.expect_err("a panic");
            assert_eq!(panic.downcast_ref::<String>().expect("a text"), &said);
        }
        let [ours, expected] = [&mut cache, &mut twin]
            .map(|cache| floats(step(&module, part(&all, 6, 2), cache).context));
        assert_same(&ours, &expected);
    }
    // Nor does a refused first call leave a trace: not even the number of entries.
    for (mut cache, rule) in kinds(8) {
        let input = MhaInput::self_attn(tokens(2, 3, 2)).mask_pad(mask([3, 5]));
        let said = "mask_pad: expected shape [3, 2] (batch, seq_k), got [3, 5]";
        assert_eq!(refusal(&module, input, &mut cache), said);
        assert!(cache.lengths().is_empty());
        assert_near(
            "fresh",
            &step(&module, all.clone(), &mut cache).context,
            &whole(&module, &all, &rule),
        );
    }
    let error = module.try_forward(MhaInput::self_attn(tokens(2, 2, 2)).new_lengths(vec![1, 2]));
    assert_eq!(
        error.map(drop).unwrap_err().to_string(),
        "new_lengths must be given with a cache, got a call without one"
    );
}

fn full<B: AutodiffBackend>() {
    let module = rotary::<B::InnerBackend>();
    let all = tokens(1, 2, 7);
    let expected = whole(&module, &all, &Mask::none());
    let mut cache = KvCache::preallocated(7);
    step(&module, part(&all, 0, 5), &mut cache);
    let too_many = || MhaInput::self_attn(tokens(2, 2, 3)).causal();
    let said = "cache must fit into its capacity of 7 tokens, got 5 seen and 3 new";
    assert_eq!(refusal(&module, too_many(), &mut cache), said);
    let out = step(&module, part(&all, 5, 2), &mut cache).context;
    assert_near("what fits", &out, &part(&expected, 5, 2));

    // Now it is full to the last place.
    let said = "cache must fit into its capacity of 7 tokens, got 7 seen and 3 new";
    assert_eq!(refusal(&module, too_many(), &mut cache), said);
    assert_eq!(step(&module, part(&all, 0, 0), &mut cache).context.dims(), [2, 0, D_MODEL]);
    // Padding needs no room.
    cache.truncate(5).unwrap();
    let out = module.forward_cached(too_many().new_lengths(vec![2, 0]), &mut cache);
    assert_eq!((out.context.dims(), cache.lengths()), ([2, 3, D_MODEL], &[7, 5][..]));
}

fn uneven_in_a_rolling_cache<B: AutodiffBackend>() {
    let module = rotary::<B::InnerBackend>();
    let all = tokens(1, 2, 5);
    for (mut cache, rule) in kinds(9).into_iter().skip(2) {
        let input = MhaInput::self_attn(part(&all, 0, 3)).causal();
        let said = "new_lengths must be the same for all entries of a rolling cache, got [3, 2]";
        assert_eq!(refusal(&module, input.clone().new_lengths(vec![3, 2]), &mut cache), said);
        // All of them is no padding at all.
        module.forward_cached(input.new_lengths(vec![3, 3]), &mut cache);
        let out = step(&module, part(&all, 3, 2), &mut cache).context;
        assert_near("even", &out, &part(&whole(&module, &all, &rule), 3, 2));
    }
}

/// Positions where they have no meaning, and where a cache cannot honour them.
fn positions<B: AutodiffBackend>() {
    let new = || MhaInput::self_attn(tokens(2, 2, 2)).causal().positions(7);
    let plain = module::<B::InnerBackend>(&config());
    let said =
        "query_positions must be given to a module with rotary positions, got a module without";
    assert_eq!(refusal(&plain, new(), &mut KvCache::growing()), said);

    let scaling = RotaryScaling::DynamicNtk { factor: 2.0, original_length: 4 };
    let position = Rotary::half(100.0).with_scaling(scaling);
    let late = module::<B::InnerBackend>(&config().with_position(position));
    let said = "query_positions must be left out with a cache and a scaling that depends on the \
                length, got positions";
    assert_eq!(refusal(&late, new(), &mut KvCache::growing()), said);

    // The farthest there are do not overflow.
    let rotary = rotary::<B::InnerBackend>();
    for start in [i64::MIN, i64::MAX] {
        let input = MhaInput::self_attn(tokens(2, 2, 2)).causal().positions(start);
        let out = rotary.forward_cached(input, &mut KvCache::growing()).context;
        assert!(floats(out).iter().all(|x| x.is_finite()));
    }
    let out = late.forward(new().positions(i64::MAX)).context;
    assert!(floats(out).iter().all(|x| x.is_finite()));
}
