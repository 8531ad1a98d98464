//! Causal masking.

use burn::module::Param;
use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::{AttentionOptions, Mask, MhaInput, MultiHeadAttentionConfig, Weights, attention};
use mha_tests::{assert_close, assert_same, bools, floats, numbers, on_every_backend, tensor};

use super::{count_up, uniform};

on_every_backend!(br_04_bottom_right, br_06_causal_in_every_combination);

/// tracel-ai/burn #5783 "attention: GQA, causal mask alignment, and softcap/bias order".
fn br_04_bottom_right<B: AutodiffBackend>() {
    let device = Default::default();
    for (seq_q, seq_k, expected) in [(2, 5, vec![2.5, 3.0]), (1, 16, vec![8.5])] {
        let hidden: Vec<bool> =
            (0..seq_q * seq_k).map(|x| x % seq_k > x / seq_k + seq_k - seq_q).collect();
        let dense = || bools::<B, 2>(&hidden, [seq_q, seq_k]);
        let masks = || {
            [
                Mask::causal(),
                Mask::block(dense()),
                Mask::keep(dense().bool_not()),
                Mask::causal().and(Mask::block(dense())),
                Mask::causal().and(Mask::lengths(vec![seq_k])),
                Mask::window(None, 0),
            ]
        };
        for mask in masks() {
            let values = count_up(seq_k);
            for weights in [Weights::None, Weights::PerHead] {
                let out =
                    uniform::<B>(seq_q, &values, |input| input.mask(mask.clone()).weights(weights));
                assert_close(&out, &expected, 1e-6);
            }
            let zeros = |seq| Tensor::<B, 4>::zeros([1, seq, 1, 1], &device);
            let options = AttentionOptions::default().mask(mask);
            let value = tensor(&values, [1, seq_k, 1, 1]);
            let out = attention(zeros(seq_q), zeros(seq_k), value, &options);
            assert_close(&floats(out.context), &expected, 1e-6);
        }
    }
    // The other convention, for those who ask for it.
    let out = uniform::<B>(2, &count_up(5), |input| input.mask(Mask::top_left()));
    assert_close(&out, &[1.0, 1.5], 1e-6);
}

/// What a run of [`br_06_causal_in_every_combination`] has besides the causal mask.
#[derive(Debug, Clone, Copy)]
struct Combination {
    weights: Weights,
    dropout: bool,
    bias: bool,
    softcap: bool,
    grouped: bool,
}

fn combinations() -> impl Iterator<Item = Combination> {
    let wanted = [
        Weights::None,
        Weights::PerHead,
        Weights::Averaged,
        Weights::PerHeadAfterDropout,
        Weights::AveragedAfterDropout,
    ];
    wanted.into_iter().flat_map(|weights| {
        (0..16).map(move |bits| {
            let bit = |index: u32| bits >> index & 1 == 1;
            let (dropout, bias, softcap, grouped) = (bit(0), bit(1), bit(2), bit(3));
            Combination { weights, dropout, bias, softcap, grouped }
        })
    })
}

/// keras-team/keras #23038 "MultiHeadAttention silently drops the causal mask when
/// use_causal_mask=True and the fused SDPA path is disabled ...", pytorch/pytorch #99282
/// (`is_causal` ignored with weights) and tracel-ai/burn #4484 (heads that are all zero).
fn br_06_causal_in_every_combination<B: AutodiffBackend>() {
    let (batch, n_heads, seq, head_dim) = (2, 4, 16, 32);
    let d_model = n_heads * head_dim;
    let device = Default::default();
    let dims = [batch, seq, d_model];
    let before = tensor::<B, 3, _>(&numbers(1, dims.iter().product()), dims);
    let after = before.clone().slice_fill([0..batch, seq - 1..seq, 0..d_model], 0.7);
    let bias = tensor::<B, 4, _>(&numbers(2, seq * seq), [1, 1, seq, seq]);
    for combination in combinations() {
        let config = MultiHeadAttentionConfig::new(d_model, n_heads)
            .with_dropout(if combination.dropout { 0.1 } else { 0.0 })
            .with_n_kv_heads(if combination.grouped { 2 } else { n_heads });
        let config = if combination.softcap { config.with_softcap(2.0) } else { config };
        let mut module = config.with_output_bias(false).init::<B>(&device);
        module.output.weight = Param::from_tensor(Tensor::eye(d_model, &device));
        let run = |tokens: &Tensor<B, 3>| {
            let input = MhaInput::self_attn(tokens.clone()).causal().dropout_seed(3);
            let input = if combination.bias { input.bias(bias.clone()) } else { input };
            module.forward(input.weights(combination.weights))
        };
        let (out, changed) = (run(&before), run(&after));
        let rows = |x: &Tensor<B, 3>, start, n| floats(x.clone().narrow(1, start, n));
        let earlier = |x| rows(x, 0, seq - 1);
        assert_same(&earlier(&changed.context), &earlier(&out.context));
        assert_ne!(rows(&changed.context, seq - 1, 1), rows(&out.context, seq - 1, 1));
        for head in 0..n_heads {
            let of_head = floats(out.context.clone().narrow(2, head * head_dim, head_dim));
            assert!(of_head.iter().any(|&x| x != 0.0), "{combination:?}: head {head} is all zero");
        }
        let Some(weights) = out.weights else { continue };
        for (index, weight) in floats(weights).into_iter().enumerate() {
            let [i, j] = [index / seq % seq, index % seq];
            assert!(j <= i || weight == 0.0, "{combination:?}: the weight of {i}, {j}");
        }
    }
}
