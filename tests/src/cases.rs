//! The table of cases that runs on every path and backend.

use mha::oracle::Sizes;
use mha::{
    Gate, Offset, Position, ProjectionBias, QkNorm, Rotary, RotaryScaling, Rule, Sink, T5Buckets,
    Yarn,
};

use crate::{Case, Dense};

const BASE: [usize; 6] = [2, 3, 5, 7, 11, 13];
const SQUARE: [usize; 6] = [2, 3, 7, 7, 11, 13];
const SIX_HEADS: [usize; 6] = [2, 6, 5, 7, 11, 13];
/// An even head width, for rotations.
const EVEN: [usize; 6] = [2, 3, 5, 7, 10, 13];

/// The table. Sizes all differ, so that no two axes can be confused unnoticed.
pub fn cases() -> Vec<Case> {
    [masks(), rules(), scores(), positions(), outputs(), groups_and_widths()].concat()
}

fn plain(name: &str, all: [usize; 6]) -> Case {
    Case::new(name, all)
}

/// Query heads in groups, each group with one key head.
fn grouped(name: &str, all: [usize; 6], n_kv_heads: usize) -> Case {
    let case = Case::new(name, all);
    Case { sizes: Sizes { n_kv_heads, ..case.sizes }, ..case }
}

fn causal() -> Vec<Rule> {
    vec![Rule::Causal { offset: Offset::BottomRight }]
}

fn window(left: Option<usize>, right: Option<usize>) -> Rule {
    Rule::Window { left, right, sinks: 0, offset: Offset::BottomRight }
}

fn key_and_gate_alone() -> ProjectionBias {
    let mut bias = ProjectionBias::default();
    (bias.query, bias.value, bias.output) = (false, false, false);
    bias
}

fn masks() -> Vec<Case> {
    let pad = Some(Dense { dims: [2, 7], percent: 30 });
    let attn = |dims, percent| Some(Dense { dims, percent });
    let heads = |dims, percent| Some(Dense { dims, percent });
    vec![
        plain("no mask", BASE),
        plain("one of everything", [1; 6]),
        plain("one query", [3, 2, 1, 19, 5, 7]),
        plain("one key", [3, 2, 17, 1, 5, 7]),
        plain("longer", [1, 2, 67, 129, 23, 17]),
        Case { pad, ..plain("padding", BASE) },
        Case { pad: Some(Dense { dims: [2, 7], percent: 100 }), ..plain("all padding", BASE) },
        Case { attn: attn([2, 5, 7], 40), ..plain("pairs", BASE) },
        Case { attn: attn([1, 5, 7], 60), ..plain("pairs, batch 1", BASE) },
        Case { attn: attn([2, 1, 7], 30), ..plain("pairs, query 1", BASE) },
        Case { attn: attn([2, 5, 1], 50), ..plain("pairs, key 1", BASE) },
        Case { heads: heads([2, 3, 5, 7], 80), ..plain("pairs of heads, many empty rows", BASE) },
        Case { heads: heads([1, 3, 1, 7], 40), ..plain("pairs of heads, batch and query 1", BASE) },
        Case {
            rules: causal(),
            pad,
            bias: Some([1, 3, 1, 7]),
            ..plain("padding, causal, bias", BASE)
        },
    ]
}

fn rules() -> Vec<Case> {
    let rule = |name: &str, all: [usize; 6], rules: &[Rule]| Case {
        rules: rules.to_vec(),
        ..plain(name, all)
    };
    let causal_at = |offset: Offset| Rule::Causal { offset };
    let ids = |ids: &[u32]| ids.to_vec();
    let segments = Rule::Segments {
        query: vec![ids(&[0, 0, 1, 1, 2]), ids(&[3, 1, 1, 1, 1])],
        key: vec![ids(&[0, 0, 0, 1, 1, 1, 2]), ids(&[2, 2, 1, 1, 3, 3, 1])],
    };
    vec![
        rule("causal, more keys", BASE, &causal()),
        rule("causal, more queries", [2, 3, 7, 5, 11, 13], &causal()),
        rule("causal, square", SQUARE, &causal()),
        rule("causal, top left", BASE, &[causal_at(0.into())]),
        rule("causal, offset per entry", BASE, &[causal_at(vec![-2, 1].into())]),
        rule("window", BASE, &[window(Some(2), Some(1))]),
        rule("window of one", SQUARE, &[window(Some(0), Some(0))]),
        rule("window to the left", BASE, &[window(Some(1), None)]),
        rule(
            "causal window with sinks",
            [1, 2, 17, 19, 5, 7],
            &[
                causal_at(Offset::BottomRight),
                Rule::Window { left: Some(3), right: None, sinks: 2, offset: Offset::BottomRight },
            ],
        ),
        rule("lengths", BASE, &[Rule::Lengths { lengths: vec![4, 0] }]),
        rule(
            "left padding, causal",
            SQUARE,
            &[Rule::LeftPadding { padding: vec![3, 0] }, causal_at(Offset::BottomRight)],
        ),
        rule("segments", BASE, std::slice::from_ref(&segments)),
        rule("prefix", SQUARE, &[Rule::Prefix { lengths: vec![3, 5], offset: 0.into() }]),
        rule(
            "chunked, causal",
            SQUARE,
            &[
                Rule::Chunked { size: 3, offset: Offset::BottomRight },
                causal_at(Offset::BottomRight),
            ],
        ),
    ]
}

fn scores() -> Vec<Case> {
    let attn = Some(Dense { dims: [2, 5, 7], percent: 40 });
    let sink = |name: &str, sink| Case { sink, ..plain(name, BASE) };
    vec![
        Case { bias: Some([2, 3, 5, 7]), ..plain("bias", BASE) },
        Case { bias: Some([1, 3, 5, 7]), ..plain("bias, batch 1", BASE) },
        Case { bias: Some([2, 1, 1, 7]), ..plain("bias, head and query 1", BASE) },
        Case { bias: Some([2, 3, 5, 1]), bias_kv: 2, ..plain("bias, key 1, memory", BASE) },
        Case { scale: Some(0.1), ..plain("scale", BASE) },
        Case { scale: Some(0.0), ..plain("scale 0", BASE) },
        Case { scale: Some(-0.3), attn, ..plain("negative scale, pairs", BASE) },
        Case { softcap: Some(0.7), ..plain("softcap", BASE) },
        Case {
            scale: Some(1.0),
            softcap: Some(2.0),
            bias: Some([2, 3, 5, 7]),
            rules: causal(),
            ..plain("scale, softcap, bias, causal", BASE)
        },
        sink("quiet", Sink::Quiet),
        Case { attn, ..sink("quiet, pairs", Sink::Quiet) },
        sink("zero key", Sink::ZeroKey),
        Case { attn, bias_kv: 1, ..sink("zero key, memory, pairs", Sink::ZeroKey) },
        sink("learned sinks", Sink::Learned),
        Case { attn, ..sink("learned sinks, pairs", Sink::Learned) },
        Case {
            heads: Some(Dense { dims: [2, 3, 5, 7], percent: 90 }),
            ..sink("learned sinks, empty rows", Sink::Learned)
        },
        Case { bias_kv: 3, rules: causal(), ..plain("memory, causal", BASE) },
        Case {
            bias_kv: 1,
            pad: Some(Dense { dims: [2, 7], percent: 100 }),
            ..plain("memory, all padding", BASE)
        },
        Case { qk_norm: Some(QkNorm::Rms { epsilon: 1e-6 }), ..plain("RMS norm", BASE) },
        Case { qk_norm: Some(QkNorm::Layer { epsilon: 1e-5 }), ..plain("layer norm", BASE) },
        Case {
            qk_norm: Some(QkNorm::L2 { epsilon: 1e-12 }),
            scale: Some(5.0),
            ..plain("L2 norm", BASE)
        },
        Case { dropout: Some((7, 0.3)), ..plain("dropout", BASE) },
        Case {
            pad: Some(Dense { dims: [2, 7], percent: 30 }),
            attn,
            heads: Some(Dense { dims: [1, 3, 5, 7], percent: 20 }),
            bias: Some([1, 3, 5, 7]),
            rules: causal(),
            bias_kv: 1,
            sink: Sink::Learned,
            dropout: Some((11, 0.1)),
            ..plain("everything at once", BASE)
        },
    ]
}

fn positions() -> Vec<Case> {
    let at = |name: &str, all: [usize; 6], position: Position| Case {
        position,
        rules: causal(),
        ..plain(name, all)
    };
    let rotary = |name: &str, rotary: Rotary| at(name, EVEN, rotary.into());
    let half = || Rotary::half(10_000.0);
    let scaled = |name: &str, scaling| rotary(name, half().with_scaling(scaling));
    let yarn = Yarn::new(4.0, 6).with_mscale(0.7).with_mscale_all_dim(0.5);
    vec![
        rotary("rotary, half", half()),
        rotary("rotary, interleaved", Rotary::interleaved(100.0)),
        rotary("rotary, partial width", half().with_width(6)),
        rotary("rotary, interleaved, partial width", Rotary::interleaved(100.0).with_width(4)),
        scaled("rotary, linear", RotaryScaling::Linear { factor: 3.0 }),
        scaled("rotary, NTK", RotaryScaling::Ntk { factor: 3.0 }),
        scaled(
            "rotary, dynamic NTK",
            RotaryScaling::DynamicNtk { factor: 2.0, original_length: 3 },
        ),
        scaled("rotary, YaRN", RotaryScaling::Yarn(Yarn::new(4.0, 6))),
        scaled("rotary, YaRN of DeepSeek", RotaryScaling::Yarn(yarn)),
        scaled(
            "rotary, Llama 3",
            RotaryScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original_length: 100 },
        ),
        scaled(
            "rotary, LongRoPE",
            RotaryScaling::LongRope {
                short: vec![1.0; 5],
                long: vec![1.0, 1.5, 2.0, 4.0, 8.0],
                original_length: 5,
                max_length: 20,
            },
        ),
        scaled("rotary, proportional", RotaryScaling::Proportional { share: 0.5, factor: 2.0 }),
        Case {
            qk_norm: Some(QkNorm::Rms { epsilon: 1e-6 }),
            sizes: Sizes { n_kv_heads: 3, ..Case::new("", [2, 6, 7, 7, 10, 13]).sizes },
            ..at("rotary, RMS norm, grouped", [2, 6, 7, 7, 10, 13], half().into())
        },
        at("ALiBi", BASE, Position::Alibi),
        at("ALiBi, more queries, six heads", [2, 6, 7, 5, 11, 13], Position::Alibi),
        Case {
            rules: vec![],
            ..at("T5, both directions", BASE, T5Buckets::bidirectional().into())
        },
        at(
            "T5, causal, few buckets",
            [1, 2, 17, 19, 5, 7],
            Position::T5(T5Buckets::causal().with_n_buckets(8).with_max_distance(12)),
        ),
        Case {
            bias: Some([1, 1, 5, 7]),
            bias_kv: 2,
            softcap: Some(3.0),
            sink: Sink::ZeroKey,
            dropout: Some((5, 0.2)),
            ..at("T5, bias, memory, zero key, softcap", BASE, T5Buckets::causal().into())
        },
    ]
}

fn outputs() -> Vec<Case> {
    vec![
        Case { head_scale: true, ..plain("head scale", BASE) },
        Case { gate: Gate::PerHead, ..plain("gate per head", BASE) },
        Case { gate: Gate::Elementwise, rules: causal(), ..plain("gate per feature", BASE) },
        Case {
            gate: Gate::Elementwise,
            head_scale: true,
            qk_norm: Some(QkNorm::Rms { epsilon: 1e-6 }),
            position: Rotary::half(10_000.0).with_width(4).into(),
            sink: Sink::Learned,
            bias_kv: 1,
            softcap: Some(5.0),
            rules: vec![window(Some(3), Some(0))],
            pad: Some(Dense { dims: [2, 7], percent: 20 }),
            dropout: Some((3, 0.1)),
            ..grouped("a module with everything", [2, 6, 7, 7, 11, 13], 2)
        },
    ]
}

fn groups_and_widths() -> Vec<Case> {
    let pad = Some(Dense { dims: [2, 7], percent: 30 });
    let widths = Some([9, 10, 14, 15]);
    vec![
        grouped("grouped heads", SIX_HEADS, 2),
        grouped("one key head", SIX_HEADS, 1),
        Case { pad, rules: causal(), ..grouped("grouped, padding, causal", SIX_HEADS, 3) },
        Case {
            heads: Some(Dense { dims: [2, 6, 5, 7], percent: 70 }),
            bias: Some([1, 6, 5, 7]),
            softcap: Some(1.5),
            sink: Sink::Learned,
            dropout: Some((13, 0.2)),
            ..grouped("grouped, everything", SIX_HEADS, 2)
        },
        Case { bias_kv: 2, sink: Sink::Quiet, ..grouped("grouped, memory, quiet", SIX_HEADS, 3) },
        Case { widths, ..plain("free widths", BASE) },
        Case {
            projection_bias: key_and_gate_alone(),
            gate: Gate::PerHead,
            ..plain("few projection biases", BASE)
        },
        Case { pad, widths, ..grouped("free widths, grouped", SIX_HEADS, 2) },
        Case {
            widths,
            bias_kv: 1,
            gate: Gate::PerHead,
            ..grouped("free widths, gate", SIX_HEADS, 2)
        },
    ]
}
