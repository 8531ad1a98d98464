//! `forward_cache` against `burn::nn`'s own, with the same parameters.

use burn::nn::attention as theirs;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, Tensor};
use mha::{Mask, MhaCache, MhaInput, MultiHeadAttention, Rotary, Weights};
use mha_tests::{
    assert_close, assert_same, bools, coins, floats, numbers, on_every_backend, tensor, wide,
};

use super::{assert_near, config, module, part, tokens};

on_every_backend!(self_attention, cross_attention, whole_calls, refused);

const BATCH: usize = 2;
const SEQ: usize = 9;
const SEQ_K: usize = 7;

/// Ours with the parameters of theirs. Burn draws them at first use, and a copy made before draws
/// others: so theirs takes a record of ours.
fn pair<B: Backend>(quiet: bool) -> (theirs::MultiHeadAttention<B>, MultiHeadAttention<B>) {
    let device = Default::default();
    let drawn: MultiHeadAttention<B> = module(&config());
    let mut theirs = theirs::MultiHeadAttentionConfig::new(super::D_MODEL, super::N_HEADS)
        .with_dropout(0.0)
        .with_quiet_softmax(quiet)
        .init(&device);
    (theirs.query, theirs.key) = (drawn.query, drawn.key);
    (theirs.value, theirs.output) = (drawn.value, drawn.output);
    (theirs.clone(), theirs.into())
}

/// Some keys of each entry are hidden, not the first.
fn pad<B: Backend>(seq: usize, n: usize) -> Tensor<B, 2, Bool> {
    let mut hidden = coins(3, BATCH * seq, 30);
    (0..BATCH).for_each(|b| hidden[b * seq] = false);
    bools::<B, 2>(&hidden, [BATCH, seq]).narrow(1, 0, n)
}

/// What was computed, one step after the other, is what they compute; a step's one row is another
/// product than their matrix, with another order of summation, so that the last bits may differ.
#[track_caller]
fn assert_step<B: Backend, const D: usize>(ours: Tensor<B, D>, theirs: Tensor<B, D>) {
    assert_eq!(ours.dims(), theirs.dims());
    assert_close(&floats(ours), &wide(&floats(theirs)), 1e-6);
}

/// Prompts of one and of more tokens; then a token at a time, which is all that theirs can.
fn self_attention<B: AutodiffBackend>() {
    for (quiet, prompt) in [(false, 1), (false, 4), (true, 1), (true, 3)] {
        let (theirs, ours) = pair::<B::InnerBackend>(quiet);
        let all = tokens(1, BATCH, SEQ);
        let mut cache = MhaCache::autoregressive();
        let mut their_cache = theirs::MhaCache::autoregressive();
        for n in prompt..=SEQ {
            let so_far = part(&all, 0, n);
            let attn = mha::generate_autoregressive_mask(BATCH, n, &Default::default());
            let input = theirs::MhaInput::self_attn(so_far.clone());
            let input = input.mask_pad(pad(SEQ, n)).mask_attn(attn.clone());
            let expected = theirs.forward_cache(input, &mut their_cache);
            let input = MhaInput::self_attn(so_far).mask_pad(pad(SEQ, n)).mask_attn(attn);
            let out = ours.forward_cache(input.weights(Weights::PerHead).lse(), &mut cache);
            // Their weights are those of all queries, ours those of the new.
            let new = if n == prompt { n } else { 1 };
            assert_step(out.context, expected.context);
            assert_step(out.weights.unwrap(), expected.weights.narrow(2, n - new, new));
            assert_eq!(out.lse.unwrap().dims(), [BATCH, super::N_HEADS, new]);
        }
    }
}

fn cross_attention<B: AutodiffBackend>() {
    for quiet in [false, true] {
        let (theirs, ours) = pair::<B::InnerBackend>(quiet);
        let (all, memory) = (tokens(1, BATCH, SEQ), tokens(2, BATCH, SEQ_K));
        let mut cache = MhaCache::autoregressive_cross_attention();
        let mut their_cache = theirs::MhaCache::autoregressive_cross_attention();
        for n in 1..=SEQ {
            let attn = coins(4, BATCH * SEQ * SEQ_K, 20);
            let attn = bools::<_, 3>(&attn, [BATCH, SEQ, SEQ_K]).narrow(1, 0, n);
            let (query, memory) = (part(&all, 0, n), memory.clone());
            let input = theirs::MhaInput::new(query.clone(), memory.clone(), memory.clone());
            let input = input.mask_pad(pad(SEQ_K, SEQ_K)).mask_attn(attn.clone());
            let expected = theirs.forward_cache(input, &mut their_cache);
            let input = MhaInput::new(query, memory.clone(), memory);
            let input = input.mask_pad(pad(SEQ_K, SEQ_K)).mask_attn(attn);
            let out = ours.forward_cache(input.weights(Weights::PerHead), &mut cache);
            assert_step(out.context, expected.context);
            assert_step(out.weights.unwrap(), expected.weights.narrow(2, n - 1, 1));
        }
    }
}

/// What a call says of the whole sequence holds for the new tokens: rules with offsets and ids of
/// their own, positions, bias, and keys that are more than the queries.
fn whole_calls<B: AutodiffBackend>() {
    type Call<B> = fn(Tensor<B, 3>) -> MhaInput<B>;
    fn seq<B: Backend>(tokens: &Tensor<B, 3>) -> usize {
        tokens.dims()[1]
    }
    let calls: [Call<B::InnerBackend>; 7] = [
        |x| MhaInput::self_attn(x).mask(Mask::top_left()),
        |x| MhaInput::self_attn(x).causal().query_offset(vec![0, -1]),
        |x| {
            let ids = (0..seq(&x)).map(|at| u32::from(at >= 3)).collect();
            MhaInput::self_attn(x).mask(Mask::segments(vec![ids])).causal()
        },
        |x| MhaInput::self_attn(x).positions(vec![100, 7]).causal(),
        |x| {
            let ids = (0..seq(&x) as i64).map(|at| 3 * at).collect::<Vec<_>>();
            MhaInput::self_attn(x).positions(vec![ids]).causal()
        },
        |x| {
            let n = seq(&x);
            let bias: Tensor<_, 4> = tensor(&numbers(5, SEQ * SEQ), [1, 1, SEQ, SEQ]);
            let bias = bias.narrow(2, 0, n).narrow(3, 0, n);
            MhaInput::self_attn(x).bias(bias).causal()
        },
        |x| {
            let more = Tensor::cat(vec![tokens(6, BATCH, 2), x.clone()], 1);
            MhaInput::new(x, more.clone(), more).causal()
        },
    ];
    let module = module(&config().with_position(Rotary::half(100.0)));
    let all = tokens(1, BATCH, SEQ);
    for (number, call) in calls.into_iter().enumerate() {
        let expected = module.forward(call(all.clone())).context;
        let mut cache = MhaCache::autoregressive();
        for n in [2, 3, 6, 7, 9] {
            let mut fork = cache.clone();
            let out = module.forward_cache(call(part(&all, 0, n)), &mut cache).context;
            assert_near(&format!("call {number}, {n}"), &out, &part(&expected, 0, n));
            let again = module.forward_cache(call(part(&all, 0, n)), &mut fork).context;
            assert_same(&floats(again), &floats(out));
        }
    }
    // No entry at all.
    let mut cache = MhaCache::autoregressive();
    for n in 1..3 {
        let out = module.forward_cache(MhaInput::self_attn(tokens(1, 0, n)).causal(), &mut cache);
        assert_eq!(out.context.dims(), [0, n, super::D_MODEL]);
    }
}

fn refused<B: AutodiffBackend>() {
    let module = module::<B::InnerBackend>(&config());
    let all = tokens(1, BATCH, SEQ);
    let input = |n| MhaInput::self_attn(part(&all, 0, n)).causal();
    let mut cache = MhaCache::autoregressive();
    module.forward_cache(input(4), &mut cache);
    let mut twin = cache.clone();
    let hidden = |dims| Tensor::<_, 3>::zeros(dims, &Default::default()).bool();
    let cases = [
        (input(4), "query must be longer than the 4 tokens that the cache has seen, got 4"),
        (input(3), "query must be longer than the 4 tokens that the cache has seen, got 3"),
        (
            MhaInput::new(part(&all, 0, 5), part(&all, 0, 4), part(&all, 0, 4)),
            "key must be longer than the 4 tokens that the cache has seen, got 4",
        ),
        (MhaInput::self_attn(tokens(1, 3, 5)), "cache must have 3 (batch) entries, got 2"),
        (
            input(5).mask_attn(hidden([BATCH, 6, 5])),
            "mask_attn: expected shape [2, 5, 5] (batch, seq_q, seq_k), each axis may also be 1, \
             got [2, 6, 5]",
        ),
        (
            input(5).new_lengths(vec![5, 4]),
            "new_lengths must be left out: all tokens of the query are true ones, got [5, 4]",
        ),
        (MhaInput::query(part(&all, 0, 5)), "key and value must be given, got a query alone"),
    ];
    for (input, said) in cases {
        let error = module.try_forward_cache(input, &mut cache).map(drop).unwrap_err();
        assert_eq!(error.to_string(), said);
    }
    let [ours, expected] =
        [&mut cache, &mut twin].map(|cache| floats(module.forward_cache(input(6), cache).context));
    assert_same(&ours, &expected);

    // A refused first call leaves no memory behind.
    let mut cache = MhaCache::autoregressive_cross_attention();
    let cross = |seed, seq_k| {
        let memory = tokens(seed, BATCH, seq_k);
        MhaInput::new(part(&all, 0, 1), memory.clone(), memory)
    };
    let said = "mask_attn: expected shape [2, 1, 7] (batch, seq_q, seq_k), each axis may also be 1, \
                got [2, 1, 5]";
    let wrong = cross(7, SEQ_K).mask_attn(hidden([BATCH, 1, 5]));
    let error = module.try_forward_cache(wrong, &mut cache).map(drop).unwrap_err();
    assert_eq!(error.to_string(), said);
    let out = module.forward_cache(cross(8, SEQ_K), &mut cache).context;
    assert_near("its own memory", &out, &module.forward(cross(8, SEQ_K)).context);
    let memory = tokens(8, BATCH, 5);
    let shorter = MhaInput::new(part(&all, 0, 2), memory.clone(), memory);
    let error = module.try_forward_cache(shorter, &mut cache).map(drop).unwrap_err();
    assert_eq!(
        error.to_string(),
        "key: expected shape [2, 7, 16] (batch, seq_k, d_key), got [2, 5, 16]"
    );
}
