//! Cross-attention with a memory that is projected once.

use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, DType, Tensor};
use mha::{
    Gate, KvCache, Masking, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, Position,
    QkNorm, Rotary, RotaryScaling, Sink, T5Buckets, Weights,
};
use mha_tests::{bools, coins, floats, numbers, on_every_backend, tensor};

use super::{N_HEADS, assert_near, config, module, part, refusal, tokens};

on_every_backend!(one_query_at_a_time, edits, memory_of_nothing, refused);

const BATCH: usize = 2;
const SEQ_Q: usize = 5;
const SEQ_K: usize = 7;
const D_KEY: usize = 6;
const D_VALUE: usize = 9;

fn wide_config() -> MultiHeadAttentionConfig {
    config().with_d_key(D_KEY).with_d_value(D_VALUE).with_n_kv_heads(2).with_value_dim(3)
}

fn memory<B: Backend>(batch: usize) -> [Tensor<B, 3>; 2] {
    [(11, D_KEY), (12, D_VALUE)]
        .map(|(seed, d)| tensor(&numbers(seed, batch * SEQ_K * d), [batch, SEQ_K, d]))
}

fn configs() -> Vec<MultiHeadAttentionConfig> {
    let half = |scaling| wide_config().with_position(Rotary::half(100.0).with_scaling(scaling));
    let long_rope = RotaryScaling::LongRope {
        short: vec![1.0, 2.0],
        long: vec![3.0, 5.0],
        original_length: 6,
        max_length: 16,
    };
    let mut all = vec![
        wide_config(),
        half(RotaryScaling::None).with_qk_norm(QkNorm::Rms { epsilon: 1e-6 }),
        half(RotaryScaling::DynamicNtk { factor: 2.0, original_length: 4 }),
        half(long_rope),
        wide_config().with_position(Position::Alibi).with_softcap(2.0),
        wide_config().with_position(T5Buckets::bidirectional()).with_gate(Gate::Elementwise),
        wide_config().with_sink(Sink::ZeroKey).with_bias_kv(1),
        wide_config().with_sink(Sink::Learned),
    ];
    all.push(wide_config().burn_nn_compat());
    all
}

/// Queries stand where the full pass has them: query `i` at `SEQ_K - SEQ_Q + i`, said in numbers.
fn one_query_at_a_time<B: AutodiffBackend>() {
    let pad = bools::<B::InnerBackend, 2>(&coins(3, BATCH * SEQ_K, 30), [BATCH, SEQ_K]);
    let dims = [BATCH, N_HEADS, SEQ_Q, SEQ_K];
    let bias = tensor::<B::InnerBackend, 4, _>(&numbers(4, dims.iter().product()), dims);
    let query = tokens(1, BATCH, SEQ_Q);
    let [key, value] = memory(BATCH);
    for (number, config) in configs().into_iter().enumerate() {
        let module = module(&config);
        let input = |query, [key, value]: [Tensor<_, 3>; 2]| MhaInput::new(query, key, value);
        let full = input(query.clone(), [key.clone(), value.clone()]);
        let full = full.mask_pad(pad.clone()).bias(bias.clone()).causal();
        let full = module.forward(full.weights(Weights::PerHead).lse());
        // What is hidden from all may hold anything; burn-nn lets NaN through.
        let content = if config.masking == Masking::Exclude { f32::NAN } else { 0.5 };
        let [key, value] = [&key, &value].map(|memory| {
            let hidden = pad.clone().unsqueeze_dim::<3>(2).expand(memory.dims());
            memory.clone().mask_fill(hidden, content)
        });
        let mut cache = module.cache_memory(key, value).unwrap();
        assert_eq!((cache.len(), cache.capacity()), (SEQ_K, None));
        assert_eq!(cache.lengths(), [SEQ_K; BATCH]);
        for pieces in [vec![1; 5], vec![2, 3], vec![5]] {
            let mut at = 0;
            for n in pieces {
                let name = format!("config {number}, {at}");
                let piece = MhaInput::query(part(&query, at, n))
                    .mask_pad(pad.clone())
                    .bias(bias.clone().narrow(2, at, n))
                    .causal()
                    .query_offset((SEQ_K - SEQ_Q + at) as i64);
                let piece = piece.weights(Weights::PerHead).lse();
                let out = module.forward_cached(piece, &mut cache);
                assert_near(&name, &out.context, &part(&full.context, at, n));
                let weights = full.weights.clone().unwrap().narrow(2, at, n);
                assert_near(&name, &out.weights.unwrap(), &weights);
                let lse = full.lse.clone().unwrap().narrow(2, at, n);
                assert_near(&name, &out.lse.unwrap(), &lse);
                at += n;
            }
        }
    }
}

/// Without mask and position queries need not say where they stand. Beams share a memory; a shorter
/// one is its beginning; a cleared one is refused.
fn edits<B: AutodiffBackend>() {
    let module = module::<B::InnerBackend>(&wide_config());
    let [key, value] = memory(BATCH);
    let full = |query: &Tensor<_, 3>, entries: &[usize], n: usize| {
        let pick = |x: &Tensor<_, 3>| {
            let entry = |&entry: &usize| x.clone().narrow(0, entry, 1).narrow(1, 0, n);
            Tensor::cat(entries.iter().map(entry).collect(), 0)
        };
        module.forward(MhaInput::new(query.clone(), pick(&key), pick(&value))).context
    };
    let mut cache = module.cache_memory(key.clone(), value.clone()).unwrap();
    let query = tokens(1, BATCH, SEQ_Q);
    let ask = |query: &Tensor<_, 3>, cache: &mut KvCache<_>| {
        module.forward_cached(MhaInput::query(query.clone()), cache).context
    };
    assert_near("as it is", &ask(&query, &mut cache), &full(&query, &[0, 1], SEQ_K));
    assert_eq!(ask(&part(&query, 0, 0), &mut cache).dims(), [BATCH, 0, super::D_MODEL]);

    let mut beams = cache.clone();
    beams.reorder(&[1, 1, 0]).unwrap();
    let three = tokens(2, 3, 1);
    assert_near("beams", &ask(&three, &mut beams), &full(&three, &[1, 1, 0], SEQ_K));

    let mut shorter = cache.clone();
    shorter.truncate(4).unwrap();
    assert_eq!(shorter.lengths(), [4; BATCH]);
    assert_near("shorter", &ask(&query, &mut shorter), &full(&query, &[0, 1], 4));
    shorter.truncate(0).unwrap();
    let nothing = module.forward(MhaInput::new(
        query.clone(),
        Tensor::zeros([BATCH, 0, D_KEY], &Default::default()),
        Tensor::zeros([BATCH, 0, D_VALUE], &Default::default()),
    ));
    assert_near("nothing left", &ask(&query, &mut shorter), &nothing.context);

    cache.clear();
    let error = refusal(&module, MhaInput::query(query), &mut cache);
    assert_eq!(error, "cache must be filled, got one that was cleared");
}

/// No key, or no entry: all that a query gets is the output's bias.
fn memory_of_nothing<B: AutodiffBackend>() {
    for config in configs() {
        let module = module::<B::InnerBackend>(&config);
        for [batch, seq_k] in [[2, 0], [0, 7], [0, 0]] {
            let device = Default::default();
            let [key, value] = [D_KEY, D_VALUE].map(|d| Tensor::zeros([batch, seq_k, d], &device));
            let mut cache = module.cache_memory(key.clone(), value.clone()).unwrap();
            let query = tokens(1, batch, 3);
            let hidden = Tensor::<_, 2, Bool>::empty([batch, seq_k], &device);
            let input = MhaInput::query(query.clone()).mask_pad(hidden.clone());
            let out = module.forward_cached(input.query_offset(0), &mut cache).context;
            let input = MhaInput::new(query, key, value).mask_pad(hidden).query_offset(0);
            assert_near("nothing", &out, &module.forward(input).context);
            if batch == 2 {
                cache.reorder(&[0, 1, 1]).unwrap();
                let query = MhaInput::query(tokens(1, 3, 1));
                assert!(floats(module.forward_cached(query, &mut cache).context)[0].is_finite());
            }
        }
    }
}

fn refused<B: AutodiffBackend>() {
    let module =
        module::<B::InnerBackend>(&wide_config().with_position(Rotary::interleaved(100.0)));
    let [key, value] = memory(BATCH);
    let query = tokens(1, BATCH, 1);
    let filled = module.cache_memory(key.clone(), value.clone()).unwrap();
    let ask = || MhaInput::query(query.clone());
    let mask = |dims| Tensor::<_, 2>::zeros(dims, &Default::default()).bool();
    let cases = [
        (
            MhaInput::new(query.clone(), key.clone(), value.clone()),
            "key and value must be left out: the cache holds those of the memory, got both",
        ),
        (
            ask().key_positions(3),
            "key_positions must be left out: the cache holds the keys of the memory, got positions",
        ),
        (
            ask().mask_pad(mask([BATCH, 1])),
            "mask_pad: expected shape [2, 7] (batch, seq_k), got [2, 1]",
        ),
        (
            ask().new_lengths(vec![1, 0]),
            "new_lengths must be 2 (batch) numbers of at most 0 new tokens, got [1, 0]",
        ),
        (MhaInput::query(tokens(1, 3, 1)), "cache must have 3 (batch) entries, got 2"),
        (
            MhaInput::query(tensor(&numbers(1, 12), [BATCH, 1, 6])),
            "query: expected shape [2, 1, 16] (batch, seq_q, d_model), got [2, 1, 6]",
        ),
    ];
    let expected = floats(module.forward_cached(ask(), &mut filled.clone()).context);
    let mut cache = filled.clone();
    for (input, said) in cases {
        assert_eq!(refusal(&module, input, &mut cache), said);
    }
    assert_eq!(floats(module.forward_cached(ask(), &mut cache).context), expected);

    // A query alone has no keys elsewhere.
    let said = "key and value must be given, got a query alone";
    let mut growing = KvCache::growing();
    assert_eq!(refusal(&module, ask(), &mut growing), said);
    assert_eq!(module.try_forward(ask()).map(drop).unwrap_err().to_string(), said);

    let fill = |key: Tensor<_, 3>, value: Tensor<_, 3>| {
        module.cache_memory(key, value).map(drop).unwrap_err().to_string()
    };
    assert_eq!(
        fill(value.clone(), value.clone()),
        "key: expected shape [2, 7, 6] (batch, seq_k, d_key), got [2, 7, 9]"
    );
    assert_eq!(
        fill(key.clone(), value.clone().narrow(1, 0, 5)),
        "value: expected shape [2, 7, 9] (batch, seq_k, d_value), got [2, 5, 9]"
    );
    assert_eq!(
        fill(key.clone(), value.clone().cast(DType::F64)),
        "value: expected dtype F32 as query has, got F64"
    );
    // The memory of a module with other heads.
    let other: MultiHeadAttention<_> = super::module(&wide_config().with_n_kv_heads(4));
    let mut cache = other.cache_memory(key, value).unwrap();
    assert_eq!(
        refusal(&module, ask(), &mut cache),
        "cached key: expected shape [2, 7, 2, 4] (batch, room, n_kv_heads, features), \
         got [2, 7, 4, 4]"
    );
}
