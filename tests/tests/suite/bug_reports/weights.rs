//! Returned weights, and inference.

use burn::module::{AutodiffModule, Module};
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::{Mask, MhaInput, MultiHeadAttentionConfig, Weights};
use mha_tests::{
    assert_close, assert_same, bools, coins, floats, numbers, on_every_backend, tensor, wide,
};

use super::core;

on_every_backend!(
    br_13_weights_per_head_and_averaged,
    br_13_weights_and_dropout,
    br_14_inference_drops_nothing,
    br_14_inference_takes_the_same_masks,
);

/// pytorch/pytorch #34537 "nn.MultiHeadAttention should be able to return attention weights for
/// each head.", and facebookresearch/fairseq #3365 (asking for each head is ignored).
fn br_13_weights_per_head_and_averaged<B: AutodiffBackend>() {
    fn check<B: Backend>() {
        let config = MultiHeadAttentionConfig::new(8, 4).with_dropout(0.2);
        let module = config.init::<B>(&Default::default());
        let input = || {
            let query = tensor::<B, 3, _>(&numbers(1, 2 * 3 * 8), [2, 3, 8]);
            let memory = tensor::<B, 3, _>(&numbers(2, 2 * 6 * 8), [2, 6, 8]);
            MhaInput::new(query, memory.clone(), memory).dropout_seed(3)
        };
        for (each, mean) in [
            (Weights::PerHead, Weights::Averaged),
            (Weights::PerHeadAfterDropout, Weights::AveragedAfterDropout),
        ] {
            let per_head = module.forward(input().weights(each)).weights.unwrap();
            assert_eq!(per_head.dims(), [2, 4, 3, 6]);
            let averaged = module.forward(input().weights(mean)).weights.unwrap();
            assert_eq!(averaged.dims(), [2, 1, 3, 6]);
            let expected = wide(&floats(per_head.clone().mean_dim(1)));
            assert_close(&floats(averaged), &expected, 1e-6);
            if each == Weights::PerHead || !B::ad_enabled(&Default::default()) {
                assert_close(&floats(per_head.sum_dim(3)), &[1.0; 24], 1e-6);
            }
        }
    }
    check::<B>();
    check::<B::InnerBackend>();
}

/// pytorch/pytorch #42929, #33360 and #90842 (weights above 1 in training). With one key its weight
/// before dropout is 1, in training too; after dropout it is 0 or 1 / (1 - 0.2).
fn br_13_weights_and_dropout<B: AutodiffBackend>() {
    fn run<B: Backend>(weights: Weights) -> Vec<f32> {
        let config = MultiHeadAttentionConfig::new(8, 4).with_dropout(0.2);
        let module = config.init::<B>(&Default::default());
        let query = tensor::<B, 3, _>(&numbers(1, 64 * 8), [1, 64, 8]);
        let memory = tensor::<B, 3, _>(&numbers(2, 8), [1, 1, 8]);
        let input = MhaInput::new(query, memory.clone(), memory).dropout_seed(3).weights(weights);
        floats(module.forward(input).weights.unwrap())
    }
    assert_eq!(run::<B>(Weights::PerHead), [1.0; 256]);
    assert_eq!(run::<B>(Weights::Averaged), [1.0; 64]);
    let dropped = run::<B>(Weights::PerHeadAfterDropout);
    assert!(dropped.iter().all(|&x| x == 0.0 || x == 1.25), "{dropped:?}");
    assert!(dropped.contains(&0.0) && dropped.contains(&1.25));
    for wanted in [Weights::PerHead, Weights::PerHeadAfterDropout] {
        assert_eq!(run::<B::InnerBackend>(wanted), [1.0; 256]);
    }
}

/// The tokens, a mask of pairs for each of two entries, and padding.
struct Call {
    tokens: Vec<f32>,
    hidden: Vec<bool>,
    pad: Vec<bool>,
}

impl Call {
    fn new() -> Self {
        let mut hidden = coins(5, 2 * 5 * 5, 40);
        hidden.iter_mut().step_by(5).for_each(|hidden| *hidden = false); // all see key 0
        let pad = (0..10).map(|x| x == 9).collect();
        Self { tokens: numbers(1, 2 * 5 * 9), hidden, pad }
    }

    fn input<B: Backend>(&self) -> MhaInput<B> {
        MhaInput::self_attn(tensor(&self.tokens, [2, 5, 9]))
    }

    /// The same pairs, given in several ways.
    fn ways<B: Backend>(&self) -> Vec<MhaInput<B>> {
        let (hidden, pad) = (|| bools(&self.hidden, [2, 5, 5]), || bools(&self.pad, [2, 5]));
        let by_head = hidden().unsqueeze_dim::<4>(1).expand([2, 3, 5, 5]);
        let input = || self.input();
        vec![
            input().mask_attn(hidden()).mask_pad(pad()),
            input().mask(Mask::block(hidden())).mask(Mask::lengths(vec![5, 4])),
            input().mask(Mask::keep(by_head.bool_not())).mask(Mask::block_keys(pad())),
        ]
    }
}

/// pytorch/pytorch #124464 "SDPA does not switch off dropout during evaluation", #99293 and
/// wenet-e2e/wenet #2699: without autodiff nothing is dropped, and calls repeat bit for bit.
fn br_14_inference_drops_nothing<B: AutodiffBackend>() {
    fn run<B: Backend>(dropout: f64) -> Vec<f32> {
        let config = MultiHeadAttentionConfig::new(9, 3).with_bias(false).with_dropout(dropout);
        let module = config.init::<B>(&Default::default());
        let module = module.try_load_record(core::<B>(9, 3).into_record()).unwrap();
        floats(module.forward(Call::new().input()).context)
    }
    let inference = run::<B::InnerBackend>(0.8);
    assert_same(&inference, &run::<B::InnerBackend>(0.8));
    assert_same(&inference, &run::<B::InnerBackend>(0.0));
    assert_ne!(inference, run::<B>(0.8));
}

/// pytorch/pytorch #97605 and #97128: the inference path takes other shapes of masks, and fails
/// for odd numbers of heads or without bias.
fn br_14_inference_takes_the_same_masks<B: AutodiffBackend>() {
    for bias in [false, true] {
        let config = MultiHeadAttentionConfig::new(9, 3).with_bias(bias).with_dropout(0.0);
        let module = config.init::<B>(&Default::default());
        let call = Call::new();
        let expected = floats(module.forward(call.ways().remove(0)).context);
        let inference = module.valid();
        for weights in [Weights::None, Weights::PerHead] {
            for input in call.ways::<B>() {
                let out = floats(module.forward(input.weights(weights)).context);
                assert_close(&out, &wide(&expected), 1e-6);
            }
            for input in call.ways::<B::InnerBackend>() {
                let out = floats(inference.forward(input.weights(weights)).context);
                assert_close(&out, &wide(&expected), 1e-6);
            }
        }
    }
}
