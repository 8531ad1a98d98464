//! Lengths of 0: nothing to attend to is no error.

use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::{AttentionOptions, Mask, MhaInput, MultiHeadAttentionConfig, Weights, attention};
use mha_tests::{bools, floats, on_every_backend};

on_every_backend!(module, function, masks, unbatched);

fn module<B: AutodiffBackend>() {
    let device = Default::default();
    let module = MultiHeadAttentionConfig::new(6, 2).init::<B>(&device);
    for [batch, seq_q, seq_k] in [[0, 3, 5], [2, 0, 5], [2, 3, 0], [0, 0, 0]] {
        let query = Tensor::<B, 3>::ones([batch, seq_q, 6], &device);
        let memory = Tensor::<B, 3>::ones([batch, seq_k, 6], &device);
        let input = MhaInput::new(query, memory.clone(), memory).causal().weights(Weights::PerHead);
        let out = module.try_forward(input).expect("no error");
        assert_eq!(out.context.dims(), [batch, seq_q, 6]);
        assert_eq!(out.weights.expect("asked for").dims(), [batch, 2, seq_q, seq_k]);
        // Without a key the output is the output projection's bias, in every row.
        if batch * seq_q > 0 {
            let bias = floats(module.output.bias.as_ref().expect("a bias").val());
            assert_eq!(floats(out.context), bias.repeat(batch * seq_q));
        }
    }
}

fn function<B: AutodiffBackend>() {
    let device = Default::default();
    let ones = |seq, width| Tensor::<B, 4>::ones([2, seq, 3, width], &device);
    let options = AttentionOptions::default().return_weights();
    let out = attention(ones(5, 4), ones(0, 4), ones(0, 7), &options);
    assert_eq!(out.context.dims(), [2, 5, 3, 7]);
    assert!(floats(out.context).iter().all(|&x| x == 0.0));
    assert_eq!(out.weights.expect("asked for").dims(), [2, 3, 5, 0]);
}

/// Dense masks of every shape, of nothing.
fn masks<B: AutodiffBackend>() {
    let device = Default::default();
    for [batch, seq_q, seq_k] in [[0, 3, 5], [2, 0, 5], [2, 3, 0], [0, 0, 0]] {
        let masks = || {
            [
                Mask::block(bools::<B, 2>(&vec![true; seq_q * seq_k], [seq_q, seq_k])),
                Mask::block(bools::<B, 3>(
                    &vec![true; batch * seq_q * seq_k],
                    [batch, seq_q, seq_k],
                )),
                Mask::block(bools::<B, 4>(&vec![true; batch * seq_k], [batch, 1, 1, seq_k])),
                Mask::block_keys(bools::<B, 2>(&vec![true; batch * seq_k], [batch, seq_k])),
                Mask::keep_keys(bools::<B, 2>(&vec![true; batch * seq_k], [batch, seq_k])),
            ]
        };
        for mask in masks() {
            let ones = |seq| Tensor::<B, 4>::ones([batch, seq, 3, 4], &device);
            let options = AttentionOptions::default().mask(mask);
            let out = attention(ones(seq_q), ones(seq_k), ones(seq_k), &options);
            assert_eq!(out.context.dims(), [batch, seq_q, 3, 4]);
        }
    }
}

fn unbatched<B: AutodiffBackend>() {
    let device = Default::default();
    let module = MultiHeadAttentionConfig::new(6, 2).init::<B>(&device);
    for seq in [0, 3] {
        let tokens = Tensor::<B, 2>::ones([seq, 6], &device);
        assert_eq!(module.forward(MhaInput::unbatched(tokens)).context.dims(), [1, seq, 6]);
    }
}
