//! What hidden keys and values may hold.

use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::{Attention, AttentionOptions, Mask, MhaInput, MultiHeadAttentionConfig, attention};
use mha_tests::{
    assert_close, assert_same, bools, floats, numbers, on_every_backend, tensor, wide,
};

use super::parameter_gradients;

on_every_backend!(br_11_hidden_is_not_spread, br_11_visible_nan_is_not_lost);

/// The ways to hide key 1 of two from every query.
fn masks<B: AutodiffBackend>() -> [Mask<B>; 5] {
    [
        Mask::block_keys(bools(&[false, true], [1, 2])),
        Mask::block(bools::<B, 2>(&[false, true, false, true], [2, 2])),
        Mask::block(bools::<B, 4>(&[false, true], [1, 1, 1, 2])),
        Mask::lengths(vec![1]),
        Mask::lengths(vec![1]).and(Mask::causal()),
    ]
}

/// pytorch/pytorch #101967 "produces NaN when input has NaN in masked-out positions".
fn br_11_hidden_is_not_spread<B: AutodiffBackend>() {
    let spoil = |seed, content: f32| {
        let clean = tensor::<B, 4, _>(&numbers(seed, 8), [1, 2, 1, 4]);
        clean.slice_fill([0..1, 1..2, 0..1, 0..4], content).require_grad()
    };
    for mask in masks::<B>() {
        let run = |content: f32| {
            let query = tensor::<B, 4, _>(&numbers(1, 8), [1, 2, 1, 4]).require_grad();
            let (key, value) = (spoil(2, content), spoil(3, content));
            let options = AttentionOptions::default().mask(mask.clone()).return_weights();
            let Attention { context, weights, .. } =
                attention(query.clone(), key.clone(), value.clone(), &options);
            assert_close(&floats(context.clone()), &wide(&numbers(3, 4).repeat(2)), 1e-6);
            assert_eq!(floats(weights.unwrap()), [1.0, 0.0, 1.0, 0.0]);
            let gradients = context.clone().sum().backward();
            let of = |x: &Tensor<B, 4>| floats(x.grad(&gradients).unwrap());
            assert_eq!(of(&value), [2.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
            assert!(of(&key).iter().all(|&x| x == 0.0));
            [floats(context), of(&query)].concat()
        };
        let expected = run(0.5);
        for content in [1e10, f32::INFINITY, f32::NAN] {
            assert_same(&run(content), &expected);
        }
    }

    // In a module, whose projections would spread it too.
    let module =
        MultiHeadAttentionConfig::new(4, 2).with_dropout(0.0).init::<B>(&Default::default());
    for mask in masks::<B>() {
        let run = |content: f32| {
            let tokens = tensor::<B, 3, _>(&numbers(1, 8), [1, 2, 4]);
            let memory = spoil(2, content).reshape([1, 2, 4]);
            let input = MhaInput::new(tokens, memory.clone(), memory).mask(mask.clone());
            let out = module.forward(input).context;
            let gradients = parameter_gradients(&module, &out.clone().sum().backward());
            [floats(out), gradients].concat()
        };
        let expected = run(0.5);
        for content in [1e10, f32::INFINITY, f32::NAN] {
            assert_same(&run(content), &expected);
        }
    }
}

/// pytorch/pytorch #141128 "Possible regression of F.scaled_dot_product_attention on CPU in PyTorch
/// 2.5": a NaN query silently becomes zeros.
fn br_11_visible_nan_is_not_lost<B: AutodiffBackend>() {
    let dims = [2, 16, 4, 8];
    let nan = || Tensor::<B, 4>::full(dims, f32::NAN, &Default::default());
    let clean = |seed| tensor::<B, 4, _>(&numbers(seed, 1024), dims);
    let bias = Tensor::zeros([1, 1, 1, 16], &Default::default());
    for options in [
        AttentionOptions::default(),
        AttentionOptions::default().causal(),
        AttentionOptions::default().bias(bias),
        AttentionOptions::default().quiet_softmax(),
        AttentionOptions::default().softcap(5.0),
    ] {
        for [query, key, value] in
            [[nan(), clean(2), clean(3)], [clean(1), nan(), clean(3)], [clean(1), clean(2), nan()]]
        {
            let out = attention(query, key, value, &options).context;
            assert!(floats(out).iter().all(|x| x.is_nan()));
        }
    }
}
