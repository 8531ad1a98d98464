//! Records of another module, checked and forced.

use burn::module::Module;
use mha::{Gate, MultiHeadAttention, MultiHeadAttentionConfig, MultiHeadAttentionRecord};
use mha::{MhaInput, QkNorm, Sink, T5Buckets};
use mha_tests::AnyBackend;

use super::{assert_refuses, assert_says, zeros};

type Record = MultiHeadAttentionRecord<AnyBackend>;

fn config(d_model: usize) -> MultiHeadAttentionConfig {
    MultiHeadAttentionConfig::new(d_model, 2)
}

/// All that a module can have.
fn everything(d_model: usize) -> MultiHeadAttentionConfig {
    config(d_model)
        .with_gate(Gate::Elementwise)
        .with_qk_norm(QkNorm::Layer { epsilon: 1e-6 })
        .with_bias_kv(d_model / 2)
        .with_position(T5Buckets::causal().with_n_buckets(d_model))
        .with_sink(Sink::Learned)
}

fn init(config: MultiHeadAttentionConfig) -> MultiHeadAttention<AnyBackend> {
    config.init(&Default::default())
}

#[test]
fn another_module() {
    let load = |into: MultiHeadAttention<AnyBackend>, from: Record, said: &str| {
        assert_says(into.try_load_record(from), said);
    };
    load(
        init(config(8)),
        init(config(6)).into_record(),
        "query.weight: expected shape [8, 8] (d_input, d_output), got [6, 6]",
    );
    load(
        init(config(8)),
        init(config(8).with_bias(false)).into_record(),
        "query.bias: expected a parameter, the record has none",
    );
    load(
        init(config(8).with_bias(false)),
        init(config(8)).into_record(),
        "query.bias: expected none, the record has one",
    );
    // One parameter of another shape in the middle is found too.
    let mut record = init(config(8)).into_record();
    record.value.bias = init(config(6)).into_record().value.bias;
    load(init(config(8)), record, "value.bias: expected shape [8] (d_output), got [6]");
    assert!(init(config(8)).try_load_record(init(config(8)).into_record()).is_ok());
}

/// A changed record is refused, and so is a call of the module that Burn's `load_record` forced it
/// upon.
#[track_caller]
fn refused(change: impl Fn(&mut Record), said: &str) {
    let record = || {
        let mut record = init(everything(8)).into_record();
        change(&mut record);
        record
    };
    assert_says(init(everything(8)).try_load_record(record()), said);
    let forced = init(everything(8)).load_record(record());
    assert_refuses(&forced, MhaInput::self_attn(zeros([1, 3, 8])), said);
}

type Change = fn(&mut Record, Record);

/// A parameter each, with what is said when it comes from a module of 6 features in place of 8.
fn shapes() -> Vec<(Change, &'static str)> {
    vec![
        (
            |to, from| to.query = from.query,
            "query.weight: expected shape [8, 8] (d_input, d_output), got [6, 6]",
        ),
        (
            |to, from| to.output.bias = from.output.bias,
            "output.bias: expected shape [8] (d_output), got [6]",
        ),
        (
            |to, from| to.gate = from.gate,
            "gate.weight: expected shape [8, 8] (d_input, d_output), got [6, 6]",
        ),
        (
            |to, from| to.query_norm = from.query_norm,
            "query_norm.gamma: expected shape [4] (head_dim), got [3]",
        ),
        (
            |to, from| to.key_norm.as_mut().unwrap().beta = from.key_norm.unwrap().beta,
            "key_norm.beta: expected shape [4] (head_dim), got [3]",
        ),
        (
            |to, from| to.bias_k = from.bias_k,
            "bias_k: expected shape [4, 8] (bias_kv, features), got [3, 6]",
        ),
        (
            |to, from| to.bias_v = from.bias_v,
            "bias_v: expected shape [4, 8] (bias_kv, features), got [3, 6]",
        ),
        (
            |to, from| to.relative_bias = from.relative_bias,
            "relative_bias: expected shape [8, 2] (n_buckets, n_heads), got [6, 2]",
        ),
    ]
}

/// Burn's own `load_record` takes any shape in; the next call says what came.
#[test]
fn parameters_of_another_shape() {
    for (change, said) in shapes() {
        let change = |record: &mut Record| change(record, init(everything(6)).into_record());
        refused(change, said);
    }
    // The number of heads is not among the shapes of the others.
    let four = MultiHeadAttentionConfig::new(8, 4).with_sink(Sink::Learned);
    let change = |record: &mut Record| record.sinks = init(four.clone()).into_record().sinks;
    refused(change, "sinks: expected shape [2] (n_heads), got [4]");
}

/// Burn's own `load_record` takes out what a record lacks; the next call says so.
#[test]
fn parameters_that_are_missing() {
    type Remove = fn(&mut Record);
    let missing: [(&str, Remove); 7] = [
        ("gate", |record| record.gate = None),
        ("query_norm", |record| record.query_norm = None),
        ("key_norm", |record| record.key_norm = None),
        ("bias_k", |record| record.bias_k = None),
        ("bias_v", |record| record.bias_v = None),
        ("relative_bias", |record| record.relative_bias = None),
        ("sinks", |record| record.sinks = None),
    ];
    for (name, change) in missing {
        refused(change, &format!("{name}: expected a parameter, the record has none"));
    }
    for (name, from) in [
        ("gate", config(8).with_gate(Gate::PerHead)),
        ("query_norm", config(8).with_qk_norm(QkNorm::L2 { epsilon: 1e-6 })),
        ("bias_k", config(8).with_bias_kv(1)),
        ("relative_bias", config(8).with_position(T5Buckets::causal())),
        ("sinks", config(8).with_sink(Sink::Learned)),
    ] {
        let said = format!("{name}: expected none, the record has one");
        assert_says(init(config(8)).try_load_record(init(from).into_record()), &said);
    }
}
