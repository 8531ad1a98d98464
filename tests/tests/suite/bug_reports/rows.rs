//! Rows with nothing to attend to, and rows whose first keys are hidden.

use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::{AttentionOptions, Mask, MhaInput, MultiHeadAttentionConfig, Weights, attention};
use mha_tests::{assert_close, assert_same, bools, floats, numbers, on_every_backend, tensor};

use super::{assert_finite, core, parameter_gradients, uniform};

on_every_backend!(
    br_01_rows_without_keys,
    br_01_rows_without_keys_add_nothing,
    br_03_leading_keys_hidden
);

const WANTED: [Weights; 2] = [Weights::None, Weights::PerHead];

/// Hidden pairs of two entries of four tokens: token i sees i - 1 and i, and in entry 1 the keys 2
/// and 3 are padding, so that its query 3 sees nothing.
fn band_and_padding() -> Vec<bool> {
    let sees = |b: usize, i: usize, j: usize| (j == i || j + 1 == i) && !(b == 1 && j >= 2);
    (0..2 * 4 * 4).map(|x| !sees(x / 16, x / 4 % 4, x % 4)).collect()
}

/// The same hidden pairs, `[batch, seq, seq]`, as a mask and as an additive bias; beside each mask
/// a bias of zeros, so that there is one to have a gradient.
fn ways<B: AutodiffBackend>(hidden: &[bool], batch: usize, seq: usize) -> Vec<Way<B>> {
    let dims = [batch, 1, seq, seq];
    let additive: Vec<f32> =
        hidden.iter().map(|&hide| if hide { f32::NEG_INFINITY } else { 0.0 }).collect();
    let zeros = Tensor::zeros(dims, &Default::default());
    let mask = Mask::block(bools::<B, 3>(hidden, [batch, seq, seq]));
    vec![(mask, zeros.require_grad()), (Mask::none(), tensor(&additive, dims).require_grad())]
}

type Way<B> = (Mask<B>, Tensor<B, 4>);

/// pytorch/pytorch #41508 "nn.MultiheadAttention causes gradients to become NaN under some use
/// cases": query 3 of entry 1 sees nothing, and the loss does not ask for it.
fn br_01_rows_without_keys<B: AutodiffBackend>() {
    let module =
        MultiHeadAttentionConfig::new(1, 1).with_dropout(0.0).init::<B>(&Default::default());
    let output_bias = floats(module.output.bias.as_ref().unwrap().val())[0];
    let mut ways = ways::<B>(&band_and_padding(), 2, 4);
    let pad = bools::<B, 2>(&[[false; 4], [false, false, true, true]].concat(), [2, 4]);
    let zeros = Tensor::zeros([2, 1, 4, 4], &Default::default()).require_grad();
    ways.push((Mask::window(1, 0).and(Mask::block_keys(pad)), zeros));
    for ((mask, bias), weights) in ways.iter().flat_map(|way| WANTED.map(|wanted| (way, wanted))) {
        let tokens = tensor::<B, 3, _>(&numbers(1, 8), [2, 4, 1]).require_grad();
        let input = MhaInput::self_attn(tokens.clone()).mask(mask.clone()).bias(bias.clone());
        let out = module.forward(input.weights(weights));

        assert_eq!(floats(out.context.clone())[7], output_bias);
        if let Some(weights) = out.weights {
            assert!(floats(weights)[28..].iter().all(|&x| x == 0.0));
        }
        let wanted = out.context.reshape([8]).narrow(0, 0, 6);
        let gradients = wanted.sum().backward();
        let of_tokens = floats(tokens.grad(&gradients).unwrap());
        assert_eq!(of_tokens[7], 0.0); // no loss and no key: no gradient
        assert_finite(&of_tokens);
        assert_finite(&floats(bias.grad(&gradients).unwrap()));
        assert_finite(&parameter_gradients(&module, &gradients));
    }

    // The second try: rows [1,1,0], [1,1,0], [0,0,0].
    let hidden = [false, false, true, false, false, true, true, true, true];
    let out = uniform::<B>(3, &[1.0, 3.0, 5.0], |input| input.mask_attn(bools(&hidden, [1, 3, 3])));
    assert_eq!(out, [2.0, 2.0, 0.0]);
}

/// The same report: the core value of a row without keys is 0 and its query has no gradient; with
/// or without it in the loss, keys and values have the same.
fn br_01_rows_without_keys_add_nothing<B: AutodiffBackend>() {
    let second = [false, false, true, false, false, true, true, true, true];
    for (hidden, batch, seq) in [(band_and_padding(), 2, 4), (second.to_vec(), 1, 3)] {
        let dead = batch * seq - 1; // the last row of the last entry
        for (mask, bias) in ways::<B>(&hidden, batch, seq) {
            let run = |in_loss: bool| {
                let [query, key, value] = [1, 2, 3].map(|seed| {
                    let dims = [batch, seq, 1, 1];
                    tensor::<B, 4, _>(&numbers(seed, batch * seq), dims).require_grad()
                });
                let options = AttentionOptions::default().mask(mask.clone()).bias(bias.clone());
                let out = attention(query.clone(), key.clone(), value.clone(), &options).context;
                let rows = out.clone().reshape([batch * seq]);
                let rows = if in_loss { rows } else { rows.narrow(0, 0, dead) };
                let gradients = rows.powi_scalar(2).sum().backward();
                let of = |x: &Tensor<B, 4>| floats(x.grad(&gradients).unwrap());
                [floats(out), of(&query), of(&key), of(&value), of(&bias)]
            };
            let (all, living) = (run(true), run(false));
            assert_eq!((all[0][dead], all[1][dead]), (0.0, 0.0));
            assert!(all[4][dead * seq..].iter().all(|&x| x == 0.0));
            for (all, living) in all.iter().zip(&living) {
                assert_finite(all);
                assert_same(all, living);
            }
        }
    }
}

/// pytorch/pytorch #127055 "MultiheadAttention returns NaNs when need_weights=False for long
/// sequences with a mask that ignores old tokens".
fn br_03_leading_keys_hidden<B: AutodiffBackend>() {
    let n = 600;
    let old: Vec<bool> = (0..n * n).map(|x| x % n > x / n || x % n + 9 < x / n).collect();
    let mut ways = ways::<B>(&old, 1, n);
    for window in [Mask::window(9, 0), Mask::window(9, None).and(Mask::causal())] {
        let zeros = Tensor::zeros([1, 1, n, n], &Default::default()).require_grad();
        ways.push((window, zeros));
    }
    let module = core::<B>(2, 1);
    for ((mask, bias), weights) in ways.iter().flat_map(|way| WANTED.map(|wanted| (way, wanted))) {
        let tokens = Tensor::<B, 3>::ones([1, n, 2], &Default::default()).require_grad();
        let input = MhaInput::self_attn(tokens.clone()).mask(mask.clone()).bias(bias.clone());
        let out = module.forward(input.weights(weights)).context;
        assert_close(&floats(out.clone()), &vec![1.0; 2 * n], 1e-6);
        let gradients = out.sum().backward();
        assert_finite(&floats(tokens.grad(&gradients).unwrap()));
        assert_finite(&floats(bias.grad(&gradients).unwrap()));
        assert_finite(&parameter_gradients(&module, &gradients));
    }
}
