//! Wrong attention must not pass: each classic mistake, made on purpose, is far outside what the
//! comparison with the oracle allows.

use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, Tensor, activation::softmax};
use mha::{MhaInput, MultiHeadAttention};
use mha_tests::{Case, Layer, as_accurate_as_textbook, cases, floats, largest, on_every_backend};

on_every_backend!(mistakes_are_found);

/// A module written out in tensor operations, with one mistake or none.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mistake {
    None,
    NoScaling,
    SoftmaxOverQueries,
    MergeWithoutTranspose,
    MaskInverted,
    OutputProjectionDropped,
}

fn attend<B: Backend>(
    module: &MultiHeadAttention<B>,
    [query, key, value]: [Tensor<B, 3>; 3],
    hidden: Tensor<B, 4, Bool>,
    mistake: Mistake,
) -> Tensor<B, 3> {
    let [batch, seq_q, _] = query.dims();
    let all_heads = module.n_heads() * module.value_dim();
    let [query, key, value] = module.project(query, key, value);
    let [query, key, value] = module.split_heads(query, key, value).map(|x| x.swap_dims(1, 2));
    let mut scores = query.matmul(key.transpose());
    if mistake != Mistake::NoScaling {
        scores = scores.div_scalar((module.head_dim() as f32).sqrt());
    }
    let hidden = if mistake == Mistake::MaskInverted { hidden.bool_not() } else { hidden };
    let hidden = hidden.expand(scores.dims());
    let axis = if mistake == Mistake::SoftmaxOverQueries { 2 } else { 3 };
    let weights = softmax(scores.mask_fill(hidden, -1e9), axis);
    let context = weights.matmul(value);
    let context = if mistake == Mistake::MergeWithoutTranspose {
        context.reshape([batch, seq_q, all_heads])
    } else {
        context.swap_dims(1, 2).reshape([batch, seq_q, all_heads])
    };
    if mistake == Mistake::OutputProjectionDropped {
        context
    } else {
        module.output.forward(context)
    }
}

fn mistakes_are_found<B: AutodiffBackend>() {
    let mut case: Case = cases().into_iter().find(|case| case.name == "padding").unwrap();
    case.sizes.value_dim = case.sizes.head_dim; // so that a dropped projection keeps the shape
    let (exact, textbook) = (Layer::<f64>::new(&case), Layer::<f32>::new(&case));
    let module = textbook.fill(case.config().init::<B>(&Default::default()));
    let verdict = |context: Tensor<B, 3>| {
        let (theirs, exact) = (textbook.forward().context, exact.forward().context);
        as_accurate_as_textbook(&floats(context), &theirs, &exact, largest(&exact))
    };

    let [query, key, value] = textbook.tensors::<B>();
    let right = module.forward(case.apply(MhaInput::new(query, key, value))).context;
    assert_eq!(verdict(right), Ok(()));

    let hidden = case.pad_tensor::<B>().unsqueeze_dims::<4>(&[1, 2]);
    let with = |mistake| verdict(attend(&module, textbook.tensors(), hidden.clone(), mistake));
    assert_eq!(with(Mistake::None), Ok(()));
    for mistake in [
        Mistake::NoScaling,
        Mistake::SoftmaxOverQueries,
        Mistake::MergeWithoutTranspose,
        Mistake::MaskInverted,
        Mistake::OutputProjectionDropped,
    ] {
        assert!(with(mistake).is_err(), "{mistake:?} passes for right");
    }
}
