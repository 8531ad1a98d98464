//! Save, load, run; old files; how parameters start.

use burn::config::{Config, config_to_json};
use burn::module::{Module, Param};
use burn::nn::Linear;
use burn::record::{BinBytesRecorder, FullPrecisionSettings, NamedMpkBytesRecorder, Recorder};
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::{
    Gate, Mask, Masking, MhaInitializer, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig,
    Position, QkNorm, Rotary, RotaryScaling, Rule, Sink, T5Buckets, Weights, Yarn, alibi_slopes,
};
use mha_tests::{assert_same, bools, coins, floats, numbers, on_every_backend, tensor};

use crate::config::everything_set;

on_every_backend!(br_45_save_load_run, br_45_old_files, br_45_how_parameters_start);

const BATCH: usize = 2;
const SEQ_Q: usize = 5;
const SEQ_K: usize = 7;

/// Every option set, with this position.
fn everything(position: Position) -> MultiHeadAttentionConfig {
    MultiHeadAttentionConfig::new(24, 4)
        .with_n_kv_heads(2)
        .with_head_dim(8)
        .with_value_dim(5)
        .with_d_key(20)
        .with_d_value(18)
        .with_d_output(22)
        .with_scale(0.3)
        .with_softcap(20.0)
        .with_dropout(0.25)
        .with_key_bias(false)
        .with_initializer(MhaInitializer::PyTorch)
        .with_position(position)
        .with_qk_norm(QkNorm::Rms { epsilon: 1e-6 })
        .with_bias_kv(1)
        .with_sink(Sink::Learned)
        .with_gate(Gate::PerHead)
}

/// At most one position at a time.
fn positions() -> [Position; 5] {
    let yarn = Rotary::interleaved(100.0).with_scaling(RotaryScaling::Yarn(Yarn::new(4.0, 3)));
    let half = Rotary::half(10_000.0).with_width(6);
    [Position::None, half.into(), yarn.into(), Position::Alibi, T5Buckets::bidirectional().into()]
}

/// A window and lengths, as rules, and pairs in a tensor.
fn mask<B: Backend>() -> Mask<B> {
    let mut hidden = coins(1, BATCH * SEQ_Q * SEQ_K, 30);
    hidden.iter_mut().step_by(SEQ_K).for_each(|hidden| *hidden = false);
    let pairs = Mask::block(bools::<B, 3>(&hidden, [BATCH, SEQ_Q, SEQ_K]));
    Mask::window(4, 1).and(Mask::lengths(vec![7, 6])).and(pairs)
}

/// Context, weights, log-sum-exps and the gradients of all parameters, with dropout.
fn run<B: AutodiffBackend>(module: &MultiHeadAttention<B>, mask: Mask<B>) -> Vec<f32> {
    let tokens = |seed, seq, width| {
        tensor::<B, 3, _>(&numbers(seed, BATCH * seq * width), [BATCH, seq, width])
    };
    let input = MhaInput::new(tokens(1, SEQ_Q, 24), tokens(2, SEQ_K, 20), tokens(3, SEQ_K, 18));
    let bias = tensor(&numbers(4, SEQ_Q * SEQ_K), [1, 1, SEQ_Q, SEQ_K]);
    let input = input.bias(bias).mask(mask).dropout_seed(3).weights(Weights::PerHead).lse();
    let out = module.forward(input);
    let gradients = out.context.clone().powi_scalar(2).sum().backward();
    let parameters = super::parameter_gradients(module, &gradients);
    let (weights, lse) = (floats(out.weights.unwrap()), floats(out.lse.unwrap()));
    [floats(out.context), weights, lse, parameters].concat()
}

/// A recorder there and back.
fn reload<
    B: Backend,
    R: Recorder<B, RecordArgs = (), RecordOutput = Vec<u8>, LoadArgs = Vec<u8>>,
>(
    recorder: &R,
    module: &MultiHeadAttention<B>,
    config: &MultiHeadAttentionConfig,
    mask: Mask<B>,
) -> (MultiHeadAttention<B>, Mask<B>) {
    let device = Default::default();
    let json = config_to_json(config);
    let config = MultiHeadAttentionConfig::load_binary(json.as_bytes()).expect("the file loads");
    let bytes = recorder.record(module.clone().into_record(), ()).expect("saves");
    let record = recorder.load(bytes, &device).expect("loads");
    let loaded = config.init(&device).try_load_record(record).expect("it fits");
    let bytes = recorder.record(mask, ()).expect("saves");
    (loaded, recorder.load(bytes, &device).expect("loads"))
}

/// pytorch/pytorch PR #24404 "Support `load_state_dict` func for nn.MultiheadAttention".
fn br_45_save_load_run<B: AutodiffBackend>() {
    for position in positions() {
        let config = everything(position);
        let json = config_to_json(&config);
        assert_eq!(MultiHeadAttentionConfig::load_binary(json.as_bytes()).unwrap(), config);

        let mut module = config.init::<B>(&Default::default());
        let sinks = [0.5, -1.0, 2.0, 30.0];
        module.sinks = Some(Param::from_tensor(tensor::<B, 1, f32>(&sinks, [4])));
        let before = run(&module, mask());
        assert_ne!(before, run(&config.init::<B>(&Default::default()), mask()));
        let named = NamedMpkBytesRecorder::<FullPrecisionSettings>::default();
        let binary = BinBytesRecorder::<FullPrecisionSettings>::default();
        for (loaded, mask) in
            [reload(&named, &module, &config, mask()), reload(&binary, &module, &config, mask())]
        {
            assert_same(&run(&loaded, mask), &before);
            assert_eq!(floats(loaded.sinks.as_ref().unwrap().val()), sinks);
        }
    }
    // Rules alone also go through serde, and slopes follow from the number of heads.
    let rules = mask::<B>().rules().to_vec();
    let json = serde_json::to_string(&rules).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Rule>>(&json).unwrap(), rules);
    assert_eq!(alibi_slopes(4), [0.25, 0.0625, 0.015625, 0.00390625]);
}

/// pytorch/pytorch PR #29001 (old saved modules lack newer fields): they take the defaults that the
/// documentation names, and keep what they did.
fn br_45_old_files<B: AutodiffBackend>() {
    let json = br#"{"d_model": 24, "n_heads": 4}"#;
    let old = MultiHeadAttentionConfig::load_binary(json).expect("the file loads");
    assert_eq!(old, MultiHeadAttentionConfig::new(24, 4));
    assert_eq!((old.n_kv_heads, old.head_dim, old.value_dim), (None, None, None));
    assert_eq!((old.d_key, old.d_value, old.d_output), (None, None, None));
    assert_eq!((old.scale, old.softcap, old.dropout), (None, None, 0.1));
    assert!(old.bias.query && old.bias.key && old.bias.value && old.bias.output);
    assert_eq!((old.initializer, old.position), (MhaInitializer::BurnNn, Position::None));
    assert_eq!((old.qk_norm, old.bias_kv, old.sink), (None, 0, Sink::None));
    assert_eq!((old.gate, old.masking), (Gate::None, Masking::Exclude));

    // A file of 0.1.0, before positions, norms, gates, memory and learned sinks: what its module
    // computes is what one without them computes.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/config-0.1.0.json");
    let old = MultiHeadAttentionConfig::load(path).expect("the file loads");
    let run = |module: &MultiHeadAttention<B>| {
        let tokens = |seed, seq, width| {
            tensor::<B, 3, _>(&numbers(seed, BATCH * seq * width), [BATCH, seq, width])
        };
        let input = MhaInput::new(tokens(1, SEQ_Q, 48), tokens(2, SEQ_K, 24), tokens(3, SEQ_K, 20));
        floats(module.forward(input.mask(mask()).dropout_seed(3)).context)
    };
    let device = Default::default();
    let module = old.init::<B>(&device);
    let before = run(&module); // draws the parameters, which a copy would else draw anew
    let explicit = everything_set().init::<B>(&device).try_load_record(module.into_record());
    assert_same(&run(&explicit.expect("the same parameters")), &before);
}

/// pytorch/pytorch #166378 "Multihead Attention's `in_proj_weight` is initialized inconsistently":
/// Xavier's bound of a matrix of its own is 0.216506 for 64 features, that of the packed one
/// 0.153093. [`MhaInitializer::PyTorch`] says when it is which.
fn br_45_how_parameters_start<B: AutodiffBackend>() {
    let largest = |numbers: Vec<f32>| numbers.into_iter().fold(0.0, |max: f32, x| max.max(x.abs()));
    let weight = |linear: &Linear<B>| largest(floats(linear.weight.val()));
    // Of 4,096 uniform draws the largest lies in the last percent of the range, all but surely.
    let check = |drawn: f32, bound: f32| {
        assert!(drawn <= bound && drawn > 0.99 * bound, "{drawn} for {bound}");
    };
    let config = MultiHeadAttentionConfig::new(64, 4).with_initializer(MhaInitializer::PyTorch);
    let packed = config.init::<B>(&Default::default());
    for linear in [&packed.query, &packed.key, &packed.value] {
        check(weight(linear), 0.153_093_2);
        assert_eq!(largest(floats(linear.bias.as_ref().unwrap().val())), 0.0);
    }
    check(weight(&packed.output), 0.125);

    // Keys of another width, though as many features in all heads: three matrices.
    let separate = config.with_d_key(32).init::<B>(&Default::default());
    check(weight(&separate.query), 0.216_506_35);
    check(weight(&separate.value), 0.216_506_35);
    check(weight(&separate.key), 0.25); // of 32 and 64 features: the square root of 6 / 96

    // Ours by default: as burn::nn.
    let module = MultiHeadAttentionConfig::new(64, 4).init::<B>(&Default::default());
    for linear in [&module.query, &module.key, &module.value, &module.output] {
        check(weight(linear), 0.125);
    }
}
