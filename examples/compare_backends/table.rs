//! The configurations that are compared when no file names one.

use mha::{Gate, Offset, Position, QkNorm, Rotary, Rule, Sink, T5Buckets, oracle::Sizes};
use mha_tests::{Case, Dense};

use crate::subject::Subject;

/// Batch, heads, queries, keys, head and value width of most.
const BASE: [usize; 6] = [2, 4, 32, 32, 16, 16];

/// Query, key and value have tokens of their own, so that each gradient is seen by itself: that of
/// self-attention's tokens is their sum.
pub(crate) fn subjects() -> Vec<Subject> {
    let cases = [masks(), scores(), shapes()].concat();
    cases.into_iter().map(Subject::new).collect()
}

fn causal() -> Vec<Rule> {
    vec![Rule::Causal { offset: Offset::BottomRight }]
}

fn masks() -> Vec<Case> {
    let rules = |name: &str, rules: Vec<Rule>| Case { rules, ..Case::new(name, BASE) };
    let window =
        Rule::Window { left: Some(7), right: Some(2), sinks: 1, offset: Offset::BottomRight };
    let pad = Some(Dense { dims: [2, 32], percent: 30 });
    vec![
        Case::new("no mask", BASE),
        rules("causal", causal()),
        Case { pad, ..Case::new("padding", BASE) },
        rules("lengths", vec![Rule::Lengths { lengths: vec![32, 11] }]),
        rules("window", vec![window]),
    ]
}

fn scores() -> Vec<Case> {
    let causal_with = |name: &str, position: Position| Case {
        position,
        rules: causal(),
        ..Case::new(name, BASE)
    };
    vec![
        causal_with("rotary, causal", Rotary::half(10_000.0).into()),
        causal_with("ALiBi, causal", Position::Alibi),
        Case { position: T5Buckets::bidirectional().into(), ..Case::new("T5 buckets", BASE) },
        Case { bias: Some([1, 4, 32, 32]), ..Case::new("bias with gradient", BASE) },
        Case { sink: Sink::Learned, rules: causal(), ..Case::new("learned sink, causal", BASE) },
        Case { softcap: Some(2.0), ..Case::new("softcap", BASE) },
    ]
}

fn shapes() -> Vec<Case> {
    let grouped = Case::new("grouped heads", [2, 8, 32, 32, 16, 16]);
    vec![
        Case { sizes: Sizes { n_kv_heads: 2, ..grouped.sizes }, ..grouped },
        Case::new("cross, more keys", [2, 4, 12, 40, 16, 16]),
        Case {
            gate: Gate::Elementwise,
            qk_norm: Some(QkNorm::Rms { epsilon: 1e-6 }),
            ..Case::new("gate, RMS norm", BASE)
        },
        Case::new("wider values", [2, 4, 32, 32, 16, 24]),
        Case { rules: causal(), ..Case::new("odd primes, causal", [3, 5, 17, 29, 23, 13]) },
        Case { rules: causal(), ..Case::new("longer, causal", [1, 4, 256, 256, 16, 16]) },
    ]
}
