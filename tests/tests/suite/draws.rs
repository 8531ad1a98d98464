//! Whole configurations drawn at random, against the f64 oracle; and causal self-attention in
//! pieces, through a cache, against the full pass.

use std::cell::RefCell;
use std::ops::Range;

use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::{KvCache, Path, Position, RotaryScaling};
use mha_tests::{
    Layer, Pieces, any_case, floats, for_all_draws, largest, max_error, paths, pieces, wide,
};

use super::against_oracle::{check_function, check_module};

/// Tests on a backend, with so many draws of each kind.
macro_rules! draws_on {
    ($($feature:literal $name:ident: $backend:ty, $cases:literal, $pieces:literal;)+) => {
        $(#[cfg(feature = $feature)]
        mod $name {
            #[test]
            fn any_case() {
                super::against_oracle::<burn::backend::Autodiff<$backend>>(stringify!($name), $cases);
            }

            #[test]
            fn pieces() {
                super::against_full_pass::<$backend>(stringify!($name), $pieces);
            }
        })+
    };
}

draws_on! {
    "ndarray" ndarray: burn::backend::NdArray, 2000, 1000;
    "flex" flex: burn::backend::Flex, 2000, 1000;
    // Each draw has shapes of its own, and a GPU backend compiles kernels for some.
    "wgpu" wgpu: burn::backend::Wgpu, 200, 100;
}

/// No option is forgotten by the draws, or by chance.
#[test]
fn every_option_is_drawn() {
    let missing = |draws: &[String], options: &'static str| -> Vec<&str> {
        let there = |option: &str| draws.iter().any(|draw| draw.contains(option));
        options.split(", ").filter(|option| !there(option)).collect()
    };
    let (cases, cut) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    for_all_draws("options", 1000, &any_case(), |case| {
        cases.borrow_mut().push(format!("{case:?}"));
    });
    for_all_draws("caches", 100, &pieces(), |pieces| cut.borrow_mut().push(format!("{pieces:?}")));
    let options = "Causal, Window, sinks: 3, Lengths, LeftPadding, Segments, Prefix, Chunked, \
        BottomRight, At(, PerEntry, pad: Some, attn: Some, heads: Some, percent: 100, \
        widths: Some, scale: Some(0.0), scale: Some(-, softcap: Some, bias: Some, Alibi, \
        bidirectional: true, bidirectional: false, Half, Interleaved, width: Some, Linear, \
        scaling: Ntk, DynamicNtk, Yarn(, truncate: false, attention_factor: Some, mscale: Some, \
        mscale_all_dim: Some, Llama3, LongRope, Proportional, Rms, Layer, L2, bias_kv: 2, \
        Quiet, ZeroKey, Learned, PerHead, Elementwise, head_scale: true, dropout: Some, \
        batch: 0, seq_q: 0, seq_k: 0";
    assert_eq!(missing(&cases.into_inner(), options), [""; 0]);
    assert_eq!(missing(&cut.into_inner(), "Growing, Preallocated, Rolling"), [""; 0]);
}

/// At most twice the textbook formula's error, values and gradients, in the function and the module.
fn against_oracle<B: AutodiffBackend>(backend: &str, count: u32) {
    for_all_draws(&format!("any case on {backend}"), count, &any_case(), |case| {
        if !case.is_for_modules() {
            check_function::<B>(&case);
        }
        check_module::<B>(&case);
    });
}

/// What a cache gives piece by piece is what one call gives.
fn against_full_pass<B: Backend>(backend: &str, count: u32) {
    for_all_draws(&format!("pieces on {backend}"), count, &pieces(), |pieces| {
        check_pieces::<B>(&pieces);
    });
}

fn check_pieces<B: Backend>(pieces: &Pieces) {
    let case = &pieces.case;
    let (mut exact, mut textbook) = (Layer::<f64>::new(case), Layer::<f32>::new(case));
    for index in [1, 2] {
        exact.inputs[index] = exact.inputs[0].clone();
        textbook.inputs[index] = textbook.inputs[0].clone();
    }
    let tokens = &textbook.inputs[0];
    let module = textbook.fill(case.config().init::<B>(&B::Device::default()));
    // Each of the two may be twice as far off as the textbook formula, and a rounding.
    let exact = exact.forward().context;
    let error = max_error(&textbook.forward().context, &exact);
    let tolerance = 2.0 * (2.0 * error + f64::from(f32::EPSILON) * largest(&exact));

    let check = |path: Path, new: Range<usize>, cache: &mut KvCache<B>| {
        let input = case.piece(tokens, &new, &pieces.keys(&new)).path(path);
        let ours = floats(module.forward_cached(input, cache).context);
        // With some scalings the angles of all tokens depend on how many there have been.
        let seen = 0..if depends_on_length(&case.position) { new.end } else { case.sizes.seq_q };
        let keys: Vec<usize> = seen.clone().collect();
        let whole = floats(module.forward(case.piece(tokens, &seen, &keys).path(path)).context);
        let [.., d_output] = case.module_widths();
        let entry = |b: usize| {
            let at = |token| (b * seen.len() + token) * d_output;
            &whole[at(new.start)..at(new.end)]
        };
        let whole: Vec<f32> = (0..case.sizes.batch).flat_map(entry).copied().collect();
        let error = max_error(&ours, &wide(&whole));
        assert!(error <= tolerance, "tokens {new:?}: error {error:e} over {tolerance:e}");
    };
    for path in paths::<B>() {
        let mut cache = pieces.cache();
        pieces.ranges().into_iter().for_each(|new| check(path, new, &mut cache));
        assert_eq!(cache.len(), case.sizes.seq_q);
    }
}

fn depends_on_length(position: &Position) -> bool {
    let Position::Rotary(rotary) = position else { return false };
    matches!(rotary.scaling, RotaryScaling::DynamicNtk { .. } | RotaryScaling::LongRope { .. })
}
