//! The kernels of a GPU at sizes that they are made for: several tiles and blocks, units that hold
//! several rows, keys that are split over cubes.
#![cfg(feature = "wgpu")]

use burn::backend::{Autodiff, Wgpu};
use burn::tensor::backend::Backend;
use burn::tensor::{DType, Tensor};
use mha::oracle::Sizes;
use mha::{
    AttentionOptions, Mask, Offset, Path, PathTaken, Position, Reason, Rule, Sink, T5Buckets,
    attention, attention_path,
};
use mha_tests::{Case, assert_close, assert_same, floats, numbers, tensor, wide};

use super::against_oracle::check_kernels;

type B = Autodiff<Wgpu>;

fn causal() -> Vec<Rule> {
    vec![Rule::Causal { offset: Offset::BottomRight }]
}

/// Heads of 24 and 40 features, which are none of the widths that kernels are compiled for.
#[test]
fn many_tiles_against_the_oracle() {
    let all = [1, 2, 263, 269, 24, 40];
    let plain = |name: &str| Case::new(name, all);
    let cases = [
        plain("many tiles"),
        Case { rules: causal(), ..plain("many tiles, causal") },
        Case {
            rules: vec![Rule::Window {
                left: Some(37),
                right: Some(5),
                sinks: 3,
                offset: Offset::BottomRight,
            }],
            sink: Sink::Learned,
            ..plain("many tiles, window and sinks")
        },
        Case {
            rules: causal(),
            bias: Some([1, 2, 1, 269]),
            softcap: Some(3.0),
            dropout: Some((7, 0.2)),
            ..plain("many tiles, bias, cap, dropout")
        },
        Case {
            position: Position::T5(
                T5Buckets::bidirectional().with_n_buckets(8).with_max_distance(20),
            ),
            ..plain("many tiles, T5")
        },
        Case {
            sizes: Sizes { n_kv_heads: 1, ..plain("").sizes },
            rules: causal(),
            ..plain("many tiles, one key head")
        },
    ];
    cases.iter().for_each(check_kernels::<B>);
}

/// Software Vulkan leaves loops after 65,535 turns, silently, those of the innermost loops counted: so
/// many tiles are met in several launches. Queries and keys on one side of the square, both in the other.
#[test]
fn more_turns_than_a_loop_may_take() {
    let plain = |name: &str, all: [usize; 6]| Case {
        rules: causal(),
        bias: Some([1, 2, 1, all[3]]),
        softcap: Some(5.0),
        sink: Sink::Learned,
        ..Case::new(name, all)
    };
    for all in [[1, 2, 3, 6007, 3, 5], [1, 2, 6007, 3, 3, 5], [1, 2, 805, 811, 3, 5]] {
        check_kernels::<B>(&plain("many turns", all));
    }
    check_kernels::<B>(&Case {
        position: Position::T5(T5Buckets::bidirectional().with_n_buckets(8)),
        ..Case::new("many turns, T5", [1, 1, 503, 509, 3, 5])
    });
    // Gradients of queries' own biases, a strip of queries at a time.
    check_kernels::<B>(&Case {
        bias: Some([1, 2, 211, 1]),
        sink: Sink::Learned,
        ..Case::new("many turns, biases of queries", [1, 2, 211, 809, 3, 5])
    });
}

/// One and three queries of grouped heads over keys that are split, with all that can be added.
#[test]
fn few_queries_over_many_keys() {
    for (seq_q, n_kv_heads) in [(1, 1), (1, 2), (3, 4)] {
        let case = Case::new("few queries", [2, 4, seq_q, 1031, 24, 16]);
        let case = Case { sizes: Sizes { n_kv_heads, ..case.sizes }, ..case };
        check_kernels::<B>(&case);
        check_kernels::<B>(&Case {
            rules: vec![Rule::Lengths { lengths: vec![700, 0] }],
            bias: Some([1, 4, 1, 1031]),
            sink: Sink::Quiet,
            position: Position::Alibi,
            ..case
        });
    }
}

fn qkv<B: Backend>(seq: usize) -> [Tensor<B, 4>; 3] {
    [1, 2, 3].map(|seed| tensor(&numbers(seed, 2 * seq * 3 * 16), [2, seq, 3, 16]))
}

/// Sums are taken in an order of their own, not in that of whoever comes first.
#[test]
fn the_same_bits_every_time() {
    let run = || {
        let leaves = qkv::<B>(131).map(Tensor::require_grad);
        let bias = tensor::<B, 4, _>(&numbers(4, 3 * 131), [1, 3, 1, 131]).require_grad();
        let options = AttentionOptions::default().causal().bias(bias.clone()).path(Path::Fused);
        let options = options.dropout(0.1).dropout_seed(5);
        let [query, key, value] = leaves.clone();
        let context = attention(query, key, value, &options).context;
        let gradients = context.clone().powi_scalar(2).sum().backward();
        let of = leaves.each_ref().map(|leaf| floats(leaf.grad(&gradients).expect("a leaf")));
        let [query, key, value] = of;
        [floats(context), query, key, value, floats(bias.grad(&gradients).expect("a leaf"))]
    };
    let first = run();
    for _ in 0..3 {
        for (again, first) in run().iter().zip(&first) {
            assert_same(again, first);
        }
    }
}

/// Tensors in halves go to the kernels as they are; sums are in f32.
#[test]
fn halves_are_not_cast() {
    let run = |dtype: DType, path| {
        let leaves = qkv::<B>(67).map(|x| x.cast(dtype).detach().require_grad());
        let [query, key, value] = leaves.clone();
        let options = AttentionOptions::default().causal().path(path);
        let context = attention(query, key, value, &options).context;
        assert_eq!(context.dtype(), dtype);
        let gradients = context.clone().cast(DType::F32).powi_scalar(2).sum().backward();
        let of = leaves.each_ref().map(|leaf| leaf.grad(&gradients).expect("a leaf"));
        assert!(of.iter().all(|gradient| gradient.dtype() == dtype));
        let [query, key, value] = of.map(|gradient| floats(gradient.cast(DType::F32)));
        [floats(context.cast(DType::F32)), query, key, value]
    };
    // The same halves in f32, so that only what goes in and out is rounded.
    let in_half = run(DType::F16, Path::Fused);
    let in_f32 = {
        let leaves =
            qkv::<B>(67).map(|x| x.cast(DType::F16).cast(DType::F32).detach().require_grad());
        let [query, key, value] = leaves.clone();
        let options = AttentionOptions::default().causal().path(Path::Plain);
        let context = attention(query, key, value, &options).context;
        let gradients = context.clone().powi_scalar(2).sum().backward();
        let of = leaves.each_ref().map(|leaf| floats(leaf.grad(&gradients).expect("a leaf")));
        let [query, key, value] = of;
        [floats(context), query, key, value]
    };
    for (half, exact) in in_half.iter().zip(&in_f32) {
        let largest = exact.iter().fold(1f32, |largest, x| largest.max(x.abs()));
        assert_close(half, &wide(exact), 4.0 * 2f64.powi(-10) * f64::from(largest));
    }
}

/// What goes beyond the device, or the kernels, is said before anything runs, and runs in tensor
/// operations unless kernels were asked for.
#[test]
fn too_large_for_kernels() {
    let ones = |seq, width| Tensor::<Wgpu, 4>::ones([1, seq, 1, width], &Default::default());
    let (query, key, value) = (ones(2, 260), ones(3, 260), ones(3, 4));
    let options = AttentionOptions::default;
    let reason = Reason::TooLarge { what: "head_dim", is: 260, most: 256 };
    let path = attention_path(&query, &key, &value, &options()).unwrap();
    assert_eq!(path, PathTaken::Plain(reason));
    let error =
        mha::try_attention(query.clone(), key.clone(), value.clone(), &options().path(Path::Fused));
    assert_eq!(
        error.map(drop).unwrap_err().to_string(),
        "path must be Auto or Plain: head_dim is 260, and kernels on this device take at most 256, \
         got Fused"
    );
    let context = attention(query, key, value, &options()).context;
    assert_close(&floats(context), &[1.0; 8], 1e-6);

    // Distances that 32 bits do not hold.
    let (query, key) = (ones(2, 4), ones(3, 4));
    let far = AttentionOptions::default().alibi(vec![0.5]).query_offset(1i64 << 40);
    let path = attention_path(&query, &key, &key, &far).unwrap();
    assert!(
        matches!(
            path,
            PathTaken::Plain(Reason::TooLarge { what: "the distance of query and key", .. })
        ),
        "{path}"
    );
    let mask = Mask::causal_at(1i64 << 40);
    let path = attention_path(&query, &key, &key, &options().mask(mask)).unwrap();
    assert_eq!(path, PathTaken::Fused);
}
