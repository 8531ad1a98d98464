//! Masks: what true means, which axis is which, and how they combine.

use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Bool, Tensor};
use mha::{Attention, AttentionOptions, Mask, MhaInput, Weights, attention};
use mha_tests::{assert_close, bools, floats, numbers, on_every_backend, tensor, wide};

use super::{core, count_up, uniform};

on_every_backend!(
    br_07_polarity,
    br_07_float_masks_are_added,
    br_08_padding_is_per_entry,
    br_08_masks_of_each_entry_and_head,
    br_09_padding_and_causal,
    br_09_causal_flag_and_mask_agree,
);

/// rasbt/LLMs-from-scratch #1061 "Bug in Ch03 - Bonus02 - PyTorch's scaled dot product attention
/// without `FlashAttention`": the polarity of a mask, as it is and converted.
fn br_07_polarity<B: AutodiffBackend>() {
    fn of<B: Backend, const D: usize>(dims: [usize; D]) -> Tensor<B, D, Bool> {
        bools(&[false, true], dims)
    }
    // Burn's sense: true is hidden.
    for mask in [
        Mask::block_keys(of([1, 2])),
        Mask::block(of::<B, 2>([1, 2])),
        Mask::block(of::<B, 3>([1, 1, 2])),
        Mask::block(of::<B, 4>([1, 1, 1, 2])),
        Mask::keep_keys(of([1, 2]).bool_not()),
        Mask::keep(of::<B, 2>([1, 2]).bool_not()),
    ] {
        assert_eq!(uniform::<B>(2, &[1.0, 2.0], |input| input.mask(mask)), [1.0, 1.0]);
    }
    let padded = uniform::<B>(2, &[1.0, 2.0], |input| input.mask_pad(of([1, 2])));
    assert_eq!(padded, [1.0, 1.0]);
    let pairs = uniform::<B>(2, &[1.0, 2.0], |input| input.mask_attn(of([1, 1, 2])));
    assert_eq!(pairs, [1.0, 1.0]);

    // The sense of PyTorch's scaled_dot_product_attention: true takes part.
    for mask in [
        Mask::keep_keys(of([1, 2])),
        Mask::keep(of::<B, 2>([1, 2])),
        Mask::keep(of::<B, 3>([1, 1, 2])),
        Mask::keep(of::<B, 4>([1, 1, 1, 2])),
    ] {
        assert_eq!(uniform::<B>(2, &[1.0, 2.0], |input| input.mask(mask)), [2.0, 2.0]);
    }
}

/// pytorch/pytorch #136816 (a float mask misread as yes or no): it is added, 1 too.
fn br_07_float_masks_are_added<B: AutodiffBackend>() {
    for (bias, expected) in [(3.0f32.ln(), [0.25, 0.75]), (1.0, [0.268941, 0.731059])] {
        let device = Default::default();
        let bias: Tensor<B, 4> = tensor(&[0.0, bias], [1, 1, 1, 2]);
        let zeros = || Tensor::<B, 3>::zeros([1, 2, 1], &device);
        let input = MhaInput::new(zeros(), zeros(), zeros());
        let input = input.bias(bias.clone()).weights(Weights::PerHead);
        let of_module = core(1, 1).forward(input).weights.unwrap();
        let zeros = || Tensor::<B, 4>::zeros([1, 2, 1, 1], &device);
        let options = AttentionOptions::default().bias(bias).return_weights();
        let of_function = attention(zeros(), zeros(), zeros(), &options).weights.unwrap();
        for weights in [of_module, of_function] {
            assert_close(&floats(weights.clone()), &expected.repeat(2), 1e-6);
            assert_close(&floats(weights.sum_dim(3)), &[1.0, 1.0], 1e-6);
        }
    }
}

/// keras-team/keras-hub #783 "Function `merge_padding_and_attention_mask` does not return an output
/// with the desired shape when both padding and attention masks are given": it works by luck when
/// batch and heads are as many.
fn br_08_padding_is_per_entry<B: AutodiffBackend>() {
    let tokens = tensor::<B, 3, _>(&numbers(1, 2 * 3 * 4), [2, 3, 4]);
    let pad = || bools(&[false, false, false, false, false, true], [2, 3]);
    let nothing = || bools(&[false; 9], [1, 3, 3]);
    let module = core::<B>(4, 2);
    let alone = |entry: usize, seq: usize| {
        let keys = tokens.clone().narrow(0, entry, 1).narrow(1, 0, seq);
        let query = tokens.clone().narrow(0, entry, 1);
        floats(module.forward(MhaInput::new(query, keys.clone(), keys)).context)
    };
    // Entry 0 is untouched in both heads, entry 1 ignores key 2 in both.
    let expected = wide(&[alone(0, 3), alone(1, 2)].concat());
    let input = || MhaInput::self_attn(tokens.clone()).weights(Weights::PerHead);
    for input in [
        input().mask_pad(pad()),
        input().mask_pad(pad()).mask_attn(nothing()),
        input().mask(Mask::lengths(vec![3, 2])),
    ] {
        let out = module.forward(input);
        assert_close(&floats(out.context), &expected, 1e-6);
        for (index, weight) in floats(out.weights.unwrap()).into_iter().enumerate() {
            let (entry, key) = (index / 18, index % 3);
            assert_eq!(weight == 0.0, (entry, key) == (1, 2), "entry {entry}, key {key}");
        }
    }
}

/// line/lighthouse PR #77 and pytorch/pytorch #64706: masks by entry and head in one axis lie at
/// b · H + h; and no entry depends on its neighbour.
fn br_08_masks_of_each_entry_and_head<B: AutodiffBackend>() {
    let (batch, n_heads, seq, width) = (2, 3, 3, 4);
    let dims = [batch, seq, n_heads, width];
    let [query, key, value] =
        [1, 2, 3].map(|seed| tensor::<B, 4, _>(&numbers(seed, dims.iter().product()), dims));
    // Bit j of a mask hides key j; all differ, the entries' and the heads'.
    let hides = |mask: usize| (0..seq).map(move |j| mask >> j & 1 == 1);
    let pairs = |masks: &[usize]| -> Vec<bool> {
        masks.iter().flat_map(|&mask| (0..seq).flat_map(move |_| hides(mask))).collect()
    };
    let (per_entry, flattened) = ([0b001, 0b110], [0b000, 0b001, 0b010, 0b100, 0b011, 0b101]);
    let by_head = bools::<B, 3>(&pairs(&flattened), [batch * n_heads, seq, seq])
        .reshape([batch, n_heads, seq, seq]);
    for (mask, hidden) in [
        (
            Mask::block(bools::<B, 3>(&pairs(&per_entry), [batch, seq, seq])),
            [0, 0, 0, 1, 1, 1].map(|entry| per_entry[entry]),
        ),
        (Mask::block(by_head), flattened),
    ] {
        let options = AttentionOptions::default().mask(mask.clone()).return_weights();
        let Attention { context, weights, .. } =
            attention(query.clone(), key.clone(), value.clone(), &options);
        let weights = weights.unwrap();
        for (b, h) in (0..batch).flat_map(|b| (0..n_heads).map(move |h| (b, h))) {
            let hidden = hidden[b * n_heads + h];
            let of_head = |x: &Tensor<B, 4>| x.clone().narrow(0, b, 1).narrow(2, h, 1);
            let visible: Vec<usize> = (0..seq).filter(|j| hidden >> j & 1 == 0).collect();
            let seen = |x: &Tensor<B, 4>| {
                let keys = visible.iter().map(|&j| of_head(x).narrow(1, j, 1)).collect();
                Tensor::cat(keys, 1)
            };
            let options = AttentionOptions::default();
            let alone = attention(of_head(&query), seen(&key), seen(&value), &options).context;
            assert_close(&floats(of_head(&context)), &wide(&floats(alone)), 1e-6);
            let weights = floats(weights.clone().narrow(0, b, 1).narrow(1, h, 1));
            for (index, weight) in weights.into_iter().enumerate() {
                assert_eq!(weight == 0.0, hidden >> (index % seq) & 1 == 1);
            }
        }
    }
}

/// pytorch/pytorch #100709 "key_padding_mask and is_causal breaks", #63271: padding hides keys, not
/// queries.
fn br_09_padding_and_causal<B: AutodiffBackend>() {
    let pad = || bools::<B, 2>(&[false, false, false, false, true], [1, 5]);
    let triangle = || mha::generate_autoregressive_mask::<B>(1, 5, &Default::default());
    for out in [
        uniform::<B>(5, &count_up(5), |input| input.causal().mask_pad(pad())),
        uniform::<B>(5, &count_up(5), |input| input.mask_attn(triangle()).mask_pad(pad())),
        uniform::<B>(5, &count_up(5), |input| input.causal().mask(Mask::lengths(vec![4]))),
    ] {
        assert_close(&out, &[1.0, 1.5, 2.0, 2.5, 2.5], 1e-6);
    }
}

/// huggingface/candle PR #3625: mask and causal flag together give NaN at some lengths.
fn br_09_causal_flag_and_mask_agree<B: AutodiffBackend>() {
    for n in 1..=130 {
        let device = Default::default();
        let dense = || mha::generate_autoregressive_mask::<B>(1, n, &device);
        let values = numbers(1, n);
        let flag = uniform::<B>(n, &values, MhaInput::causal);
        let mask = uniform::<B>(n, &values, |input| input.mask_attn(dense()));
        let both = uniform::<B>(n, &values, |input| input.causal().mask_attn(dense()));
        assert!(flag.iter().all(|x| x.is_finite()), "length {n}");
        assert_eq!((&flag, &flag), (&mask, &both), "length {n}");
    }
}
