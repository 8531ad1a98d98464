//! In place of `burn::nn::attention`: same parameters, same results up to the documented
//! differences, saved records and configurations load.

use burn::config::Config;
use burn::module::Module;
use burn::nn::attention as burn_nn;
use burn::record::{BinBytesRecorder, FullPrecisionSettings, NamedMpkBytesRecorder, Recorder};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, Tensor};
use mha::{Masking, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, Sink, Weights};
use mha_tests::{
    assert_close, assert_same, bools, coins, floats, max_error, numbers, on_every_backend, tensor,
    wide,
};

on_every_backend!(
    compat_is_bit_for_bit,
    compat_causal_is_bit_for_bit,
    default_is_close,
    mask_helpers,
    records_load
);

const D_MODEL: usize = 15;
const N_HEADS: usize = 3;
const BATCH: usize = 2;
const SEQ_Q: usize = 5;
const SEQ_K: usize = 7;

type Named = NamedMpkBytesRecorder<FullPrecisionSettings>;
type Binary = BinBytesRecorder<FullPrecisionSettings>;

struct Call<B: Backend> {
    query: Tensor<B, 3>,
    memory: Tensor<B, 3>,
    pad: Tensor<B, 2, Bool>,
    attn: Tensor<B, 3, Bool>,
}

fn call<B: Backend>() -> Call<B> {
    let mut pad = coins(1, BATCH * SEQ_K, 30);
    pad[0] = false; // every query sees the first key of both entries ...
    pad[SEQ_K] = false;
    let mut attn = coins(2, BATCH * SEQ_Q * SEQ_K, 30);
    attn.iter_mut().step_by(SEQ_K).for_each(|hidden| *hidden = false);
    Call {
        query: tensor(&numbers(3, BATCH * SEQ_Q * D_MODEL), [BATCH, SEQ_Q, D_MODEL]),
        memory: tensor(&numbers(4, BATCH * SEQ_K * D_MODEL), [BATCH, SEQ_K, D_MODEL]),
        pad: bools(&pad, [BATCH, SEQ_K]),
        attn: bools(&attn, [BATCH, SEQ_Q, SEQ_K]),
    }
}

/// A module whose parameters are drawn. Burn draws them at first use, and a copy made before draws
/// others.
fn drawn<B: Backend>(config: burn_nn::MultiHeadAttentionConfig) -> burn_nn::MultiHeadAttention<B> {
    let device = Default::default();
    config.init(&device).load_record(config.init::<B>(&device).into_record())
}

/// The same parameters in both modules.
fn pair<B: Backend>(
    quiet: bool,
    config: MultiHeadAttentionConfig,
) -> (burn_nn::MultiHeadAttention<B>, MultiHeadAttention<B>) {
    let device = Default::default();
    let theirs = drawn::<B>(
        burn_nn::MultiHeadAttentionConfig::new(D_MODEL, N_HEADS)
            .with_dropout(0.0)
            .with_quiet_softmax(quiet),
    );
    let bytes = Named::default().record(theirs.clone().into_record(), ()).expect("saves");
    let record = Named::default().load(bytes, &device).expect("a burn-nn record loads");
    let ours = config.with_dropout(0.0).with_quiet_softmax(quiet).init::<B>(&device);
    (theirs, ours.try_load_record(record).expect("it fits"))
}

fn compat_is_bit_for_bit<B: AutodiffBackend>() {
    for quiet in [false, true] {
        let config = MultiHeadAttentionConfig::new(D_MODEL, N_HEADS).burn_nn_compat();
        let (theirs, ours) = pair::<B>(quiet, config);
        let Call { query, memory, pad, .. } = call::<B>();
        // An entry whose keys are all hidden, too: burn-nn averages everything.
        let pad = pad.clone().slice_fill([1..2, 0..SEQ_K], true);
        let attn = call::<B>().attn;

        let input = burn_nn::MhaInput::new(query.clone(), memory.clone(), memory.clone());
        let input = input.mask_pad(pad.clone()).mask_attn(attn.clone());
        let expected = theirs.forward(input);
        let input = MhaInput::new(query, memory.clone(), memory).mask_pad(pad).mask_attn(attn);
        let out = ours.forward(input.weights(Weights::PerHead));
        assert_same(&floats(out.context), &floats(expected.context));
        assert_same(&floats(out.weights.unwrap()), &floats(expected.weights));
    }
}

fn default_is_close<B: AutodiffBackend>() {
    for quiet in [false, true] {
        let config = MultiHeadAttentionConfig::new(D_MODEL, N_HEADS);
        let (theirs, ours) = pair::<B>(quiet, config);
        let Call { query, memory, pad, attn } = call::<B>();

        let input = burn_nn::MhaInput::new(query.clone(), memory.clone(), memory.clone());
        let expected = theirs.forward(input.mask_pad(pad.clone()).mask_attn(attn.clone()));
        let input = MhaInput::new(query, memory.clone(), memory).mask_pad(pad).mask_attn(attn);
        let out = ours.forward(input.weights(Weights::PerHead));
        assert_close(&floats(out.context), &wide(&floats(expected.context)), 2e-6);
        assert_close(&floats(out.weights.unwrap()), &wide(&floats(expected.weights)), 1e-6);
    }
}

fn mask_helpers<B: AutodiffBackend>() {
    let device = Default::default();
    let module =
        MultiHeadAttentionConfig::new(D_MODEL, N_HEADS).with_dropout(0.0).init::<B>(&device);
    let tokens: Tensor<B, 3> = call().query;

    // Burn's causal mask and our rule hide the same pairs.
    let dense = mha::generate_autoregressive_mask::<B>(BATCH, SEQ_Q, &device);
    let by_mask = module.forward(MhaInput::self_attn(tokens.clone()).mask_attn(dense)).context;
    let by_rule = module.forward(MhaInput::self_attn(tokens.clone()).causal()).context;
    assert_same(&floats(by_mask), &floats(by_rule));

    // Burn's padding mask hides the padding: the tokens behind it may change at will.
    let padding = mha::generate_padding_mask::<B>(0, vec![vec![1; 5], vec![1; 3]], None, &device);
    let changed = tokens.clone().slice_fill([1..2, 3..5, 0..D_MODEL], 9.0);
    let visible = |tokens| {
        let input = MhaInput::self_attn(tokens).mask_pad(padding.mask.clone());
        floats(module.forward(input).context.slice([1..2, 0..3, 0..D_MODEL]))
    };
    assert_same(&visible(tokens), &visible(changed));
}

fn records_load<B: AutodiffBackend>() {
    let device = Default::default();
    let theirs = drawn::<B>(burn_nn::MultiHeadAttentionConfig::new(D_MODEL, N_HEADS));
    let ours = MultiHeadAttentionConfig::new(D_MODEL, N_HEADS).with_dropout(0.0).init::<B>(&device);
    let weight = |linear: &burn::nn::Linear<B>| floats(linear.weight.val());

    let named = Named::default().record(theirs.clone().into_record(), ()).expect("saves");
    let named = ours.try_load_record(Named::default().load(named, &device).expect("loads"));
    // A binary record has no names: it loads into what wrote it, and that converts.
    let binary = Binary::default().record(theirs.clone().into_record(), ()).expect("saves");
    let config = burn_nn::MultiHeadAttentionConfig::new(D_MODEL, N_HEADS);
    let binary = config.init(&device).load_record(Binary::default().load(binary, &device).unwrap());
    for loaded in [named.expect("it fits"), MultiHeadAttention::from(binary)] {
        assert_same(&weight(&loaded.query), &weight(&theirs.query));
        assert_same(&weight(&loaded.key), &weight(&theirs.key));
        assert_same(&weight(&loaded.value), &weight(&theirs.value));
        assert_same(&weight(&loaded.output), &weight(&theirs.output));
        assert!(max_error(&weight(&loaded.query), &[0.0; D_MODEL * D_MODEL]) > 0.0);
    }
}

/// The causal rule in compatible mode is burn-nn with its causal mask.
fn compat_causal_is_bit_for_bit<B: AutodiffBackend>() {
    let config = MultiHeadAttentionConfig::new(D_MODEL, N_HEADS).burn_nn_compat();
    let (theirs, ours) = pair::<B>(false, config);
    let tokens: Tensor<B, 3> = call().query;
    let mask = mha::generate_autoregressive_mask::<B>(BATCH, SEQ_Q, &Default::default());
    let expected = theirs.forward(burn_nn::MhaInput::self_attn(tokens.clone()).mask_attn(mask));
    let out = ours.forward(MhaInput::self_attn(tokens).causal());
    assert_same(&floats(out.context), &floats(expected.context));
}

/// What a configuration saved by `burn::nn` 0.21 asks for, ours does.
#[test]
fn burn_nn_config_loads() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/config-burn-nn-0.21.json");
    let config = MultiHeadAttentionConfig::load(path).expect("a burn-nn file loads");
    assert_eq!((config.d_model, config.n_heads, config.dropout), (32, 4, 0.2));
    assert_eq!(config.sink, Sink::Quiet);
    assert_eq!(config.masking, Masking::Overwrite { min_float: -1.0e4 });
    config.try_init::<mha_tests::AnyBackend>(&Default::default()).expect("it can be built");

    // The fixture is what burn-nn writes.
    let theirs =
        burn_nn::MultiHeadAttentionConfig::new(32, 4).with_dropout(0.2).with_quiet_softmax(true);
    let fixture = std::fs::read_to_string(path).expect("the fixture");
    assert_eq!(fixture.trim_end(), burn::config::config_to_json(&theirs));
}
