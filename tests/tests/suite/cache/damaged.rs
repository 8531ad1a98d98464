//! Caches of another module and from files that lie: an error, never a panic.

use burn::module::{Module, ModuleMapper, Param};
use burn::record::{FullPrecisionSettings, Record};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{DType, Tensor};
use mha::{KvCache, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, Rotary};
use mha_tests::on_every_backend;
use serde_json::{Value, json};

use super::{config, module, part, refusal, step, tokens};

on_every_backend!(of_another_module, of_another_type, lies);

/// A cache of five tokens.
fn filled<B: Backend>(config: MultiHeadAttentionConfig, mut cache: KvCache<B>) -> KvCache<B> {
    step(&module(&config), tokens(1, 2, 5), &mut cache);
    cache
}

fn of_another_module<B: AutodiffBackend>() {
    let ours = module::<B::InnerBackend>(&config());
    let cases = [
        (
            config().with_n_kv_heads(2),
            "cached key: expected shape [2, 5, 4, 4] (batch, room, n_kv_heads, features), \
             got [2, 5, 2, 4]",
        ),
        (
            config().with_head_dim(6),
            "cached key: expected shape [2, 5, 4, 4] (batch, room, n_kv_heads, features), \
             got [2, 5, 4, 6]",
        ),
        (
            config().with_value_dim(3),
            "cached value: expected shape [2, 5, 4, 4] (batch, room, n_kv_heads, features), \
             got [2, 5, 4, 3]",
        ),
    ];
    for (other, said) in cases {
        let mut cache = filled(other.with_position(Rotary::half(100.0)), KvCache::growing());
        assert_eq!(refusal(&ours, MhaInput::self_attn(tokens(2, 2, 1)), &mut cache), said);
    }
    let mut cache = filled(config(), KvCache::growing());
    let said = "cache must have 3 (batch) entries, got 2";
    assert_eq!(refusal(&ours, MhaInput::self_attn(tokens(2, 3, 1)), &mut cache), said);
}

struct Cast(DType);

impl<B: Backend> ModuleMapper<B> for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        param.map(|tensor| tensor.cast(self.0))
    }
}

fn of_another_type<B: AutodiffBackend>() {
    if !B::supports_dtype(&Default::default(), DType::F64) {
        return; // a GPU without f64: no backend can hold such a cache there
    }
    let module = module::<B::InnerBackend>(&config());
    let double = module.clone().map(&mut Cast(DType::F64));
    for cache in [KvCache::growing(), KvCache::preallocated(9), KvCache::rolling(3)] {
        let mut cache = filled(config(), cache);
        let new = || MhaInput::self_attn(tokens(2, 2, 1).cast(DType::F64));
        let said = "cached key: expected dtype F64 as query has, got F32";
        assert_eq!(refusal(&double, new(), &mut cache), said);
        cache.clear(); // the room has a type, too
        assert_eq!(refusal(&double, new(), &mut cache), said);
    }
    let mut fresh = KvCache::growing();
    let tokens = tokens(2, 2, 4).cast(DType::F64);
    step(&double, part(&tokens.clone(), 0, 3), &mut fresh);
    assert_eq!(step(&double, part(&tokens, 3, 1), &mut fresh).context.dtype(), DType::F64);
}

/// The cache after something was done to its file.
fn changed<B: Backend>(cache: &KvCache<B>, change: impl FnOnce(&mut Value)) -> KvCache<B> {
    type Item<B> = <KvCache<B> as Record<B>>::Item<FullPrecisionSettings>;
    let item: Item<B> = cache.clone().into_item::<FullPrecisionSettings>();
    let mut file = serde_json::to_value(item).expect("an item is data");
    change(&mut file);
    let item: Item<B> = serde_json::from_value(file).expect("it is one still");
    KvCache::from_item::<FullPrecisionSettings>(item, &Default::default())
}

fn lies<B: AutodiffBackend>() {
    let module: MultiHeadAttention<B::InnerBackend> = module(&config());
    let [growing, fixed, rolling] =
        [KvCache::growing(), KvCache::preallocated(9), KvCache::rolling(3)]
            .map(|cache| filled(config(), cache));
    let says = |cache: &KvCache<_>, change: &dyn Fn(&mut Value), said: &str| {
        for n in [1, 0] {
            let mut cache = changed(cache, change);
            let input = MhaInput::self_attn(part(&tokens(2, 2, 1), 0, n)).causal();
            assert_eq!(refusal(&module, input, &mut cache), said);
            // What else may be asked of it.
            let _ = (cache.len(), cache.capacity(), cache.truncate(3), cache.reorder(&[0, 0]));
            cache.clear();
        }
    };
    let lengths = |cache: &KvCache<_>, lengths: Value, said: &str| {
        says(cache, &|file| file["lengths"] = lengths.clone(), said);
    };
    let at_most = |lengths: &str| {
        format!("cache must have lengths for 2 entries of at most 5, got {lengths}")
    };
    lengths(&growing, json!([5, 6]), &at_most("[5, 6]"));
    lengths(&growing, json!([]), &at_most("[]"));
    lengths(&growing, json!([usize::MAX, 0]), &at_most(&format!("[{}, 0]", usize::MAX)));
    lengths(&growing, json!([5]), "cache must have 2 (batch) entries, got 1");
    lengths(
        &fixed,
        json!([10, 5]),
        "cache must have lengths for 2 entries of at most 9, got [10, 5]",
    );
    lengths(
        &rolling,
        json!([5, 6]),
        "cache must have seen as many tokens in every entry, since it is a rolling one, got [5, 6]",
    );
    let far = usize::MAX - 1;
    lengths(
        &rolling,
        json!([far, far]),
        &format!("cache must have lengths for 2 entries of at most 3, got [{far}, {far}]"),
    );

    for name in ["key", "value"] {
        let take = |file: &mut Value| file[name] = Value::Null;
        says(&growing, &take, "cache must hold keys and values, got one without");
    }
    let both = |file: &mut Value| (file["key"], file["value"]) = (Value::Null, Value::Null);
    says(&growing, &both, "cache must hold keys and values, got one without");

    let kind = |cache: &KvCache<_>, kind: Value, said: &str| {
        says(cache, &|file| file["kind"] = kind.clone(), said)
    };
    for capacity in [3usize, 1 << 50] {
        let said = format!(
            "cached key: expected shape [2, {capacity}, 4, 4] (batch, room, n_kv_heads, features), \
             got [2, 5, 4, 4]"
        );
        kind(&growing, json!({"Preallocated": {"capacity": capacity}}), &said);
    }
    kind(
        &rolling,
        json!({"Rolling": {"window": 0, "sinks": 2}}),
        "cache must have a window of at least 1, got 0",
    );
    kind(
        &rolling,
        json!({"Rolling": {"window": 4, "sinks": usize::MAX}}),
        "cache must have lengths for 2 entries of at most 3, got [5, 5]",
    );
    let said = "key and value must be left out: the cache holds those of the memory, got both";
    kind(&growing, json!("Memory"), said);

    // Rows that keys have and values have not.
    let other: KvCache<B::InnerBackend> = filled(config(), KvCache::rolling(4));
    let mixed = |file: &mut Value| {
        let item = other.clone().into_item::<FullPrecisionSettings>();
        file["value"] = serde_json::to_value(item).expect("an item is data")["value"].clone();
    };
    says(
        &rolling,
        &mixed,
        "cached value: expected shape [2, 3, 4, 4] (batch, room, n_kv_heads, features), \
         got [2, 4, 4, 4]",
    );
}
