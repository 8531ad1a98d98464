//! Bugs reported against attention modules elsewhere, made small, with the right answers.
//!
//! Each test names a report. "Uniform" is a query of zeros, so that every visible key has the same
//! score; the core value is the output of a module whose projections are the identity.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use mha::{
    AttentionOptions, Mask, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, Weights,
    attention,
};
use mha_tests::{
    assert_close, assert_same, bools, floats, numbers, on_every_backend, tensor, wide,
};

on_every_backend!(
    rows_without_keys,
    leading_keys_hidden,
    causal_is_bottom_right,
    causal_in_every_combination,
    polarity_and_float_masks,
    padding_is_per_entry,
    padding_and_causal,
    causal_flag_and_mask_agree,
    nan_is_neither_spread_nor_hidden,
    weights_per_head_and_averaged,
    inference_is_deterministic,
    scale_uses_the_true_width,
    grouped_heads_read_their_own,
    softcap_before_mask_and_bias,
    widths_of_their_own,
    awkward_lengths,
    strong_scores,
    gradient_of_the_bias,
);

/// A module that is its core: identity projections without bias.
fn core<B: Backend>(d_model: usize, n_heads: usize) -> MultiHeadAttention<B> {
    let device = B::Device::default();
    let config = MultiHeadAttentionConfig::new(d_model, n_heads).with_bias(false).with_dropout(0.0);
    let mut module = config.init::<B>(&device);
    let eye = || Linear { weight: Param::from_tensor(Tensor::eye(d_model, &device)), bias: None };
    (module.query, module.key, module.value, module.output) = (eye(), eye(), eye(), eye());
    module
}

/// Uniform attention over the values, one feature: what each of `seq_q` queries gets.
fn uniform<B: Backend>(
    seq_q: usize,
    values: &[f32],
    masks: impl FnOnce(MhaInput<B>) -> MhaInput<B>,
) -> Vec<f32> {
    let device = B::Device::default();
    let query = Tensor::zeros([1, seq_q, 1], &device);
    let key = Tensor::zeros([1, values.len(), 1], &device);
    let input = MhaInput::new(query, key, tensor(values, [1, values.len(), 1]));
    floats(core(1, 1).forward(masks(input)).context)
}

fn count_up(n: usize) -> Vec<f32> {
    (1..=n).map(|x| x as f32).collect()
}

/// pytorch/pytorch #41508 "nn.MultiheadAttention causes gradients to become NaN under some use
/// cases": query 3 of entry 1 sees nothing, and the loss does not ask for it.
fn rows_without_keys<B: AutodiffBackend>() {
    let sees = |b: usize, i: usize, j: usize| (j == i || j + 1 == i) && !(b == 1 && j >= 2);
    let hidden: Vec<bool> = (0..2 * 4 * 4).map(|x| !sees(x / 16, x / 4 % 4, x % 4)).collect();
    let tokens = tensor::<B, 3, _>(&numbers(1, 8), [2, 4, 1]).require_grad();
    let module =
        MultiHeadAttentionConfig::new(1, 1).with_dropout(0.0).init::<B>(&Default::default());
    let input = MhaInput::self_attn(tokens.clone()).mask_attn(bools(&hidden, [2, 4, 4]));
    let out = module.forward(input.weights(Weights::PerHead));

    let bias = floats(module.output.bias.as_ref().unwrap().val())[0];
    assert_eq!(floats(out.context.clone())[7], bias);
    assert!(floats(out.weights.unwrap())[28..].iter().all(|&x| x == 0.0));
    let wanted = out.context.reshape([8]).narrow(0, 0, 6);
    let gradients = wanted.sum().backward();
    let mut all = floats(tokens.grad(&gradients).unwrap());
    assert_eq!(all[7], 0.0); // no loss and no key: no gradient
    for linear in [&module.query, &module.key, &module.value, &module.output] {
        all.extend(floats(linear.weight.grad(&gradients).unwrap()));
        all.extend(floats(linear.bias.as_ref().unwrap().grad(&gradients).unwrap()));
    }
    assert!(all.iter().all(|x| x.is_finite()), "{all:?}");

    // The second try: rows [1,1,0], [1,1,0], [0,0,0].
    let hidden = [false, false, true, false, false, true, true, true, true];
    let out = uniform::<B>(3, &[1.0, 3.0, 5.0], |input| input.mask_attn(bools(&hidden, [1, 3, 3])));
    assert_eq!(out, [2.0, 2.0, 0.0]);
}

/// pytorch/pytorch #127055 "MultiheadAttention returns NaNs when need_weights=False for long
/// sequences with a mask that ignores old tokens".
fn leading_keys_hidden<B: AutodiffBackend>() {
    let n = 600;
    let old: Vec<bool> = (0..n * n).map(|x| x % n > x / n || x % n + 9 < x / n).collect();
    let additive: Vec<f32> = old.iter().map(|&x| if x { f32::NEG_INFINITY } else { 0.0 }).collect();
    for by_bias in [true, false] {
        let tokens = Tensor::<B, 3>::ones([1, n, 2], &Default::default()).require_grad();
        let input = MhaInput::self_attn(tokens.clone());
        let input = if by_bias {
            input.bias(tensor(&additive, [1, 1, n, n]))
        } else {
            input.mask_attn(bools(&old, [1, n, n]))
        };
        let out = core(2, 1).forward(input).context;
        assert_close(&floats(out.clone()), &vec![1.0; 2 * n], 1e-6);
        let gradient = tokens.grad(&out.sum().backward()).unwrap();
        assert!(floats(gradient).iter().all(|x| x.is_finite()));
    }
}

/// tracel-ai/burn #5783 "attention: GQA, causal mask alignment, and softcap/bias order".
fn causal_is_bottom_right<B: AutodiffBackend>() {
    assert_close(&uniform::<B>(2, &count_up(5), MhaInput::causal), &[2.5, 3.0], 1e-6);
    assert_close(&uniform::<B>(1, &count_up(16), MhaInput::causal), &[8.5], 1e-6);
}

/// keras-team/keras #23038 "MultiHeadAttention silently drops the causal mask ..." and
/// tracel-ai/burn #4484 "Flash attention returns incorrect results with causal=true on Metal".
fn causal_in_every_combination<B: AutodiffBackend>() {
    let (batch, n_heads, seq, head_dim) = (2, 4, 16, 32);
    let d_model = n_heads * head_dim;
    let dims = [batch, seq, d_model];
    let before = tensor::<B, 3, _>(&numbers(1, dims.iter().product()), dims);
    let after = before.clone().slice_fill([0..batch, seq - 1..seq, 0..d_model], 0.7);
    let bias = tensor::<B, 4, _>(&numbers(2, seq * seq), [1, 1, seq, seq]);
    for (dropout, with_bias, weights) in [
        (0.0, false, Weights::None),
        (0.1, false, Weights::None),
        (0.0, true, Weights::PerHead),
        (0.1, true, Weights::Averaged),
    ] {
        let mut module = core::<B>(d_model, n_heads);
        let config = MultiHeadAttentionConfig::new(d_model, n_heads).with_dropout(dropout);
        let fresh = config.with_bias(false).init::<B>(&Default::default());
        module = fresh.try_load_record(burn::module::Module::into_record(module)).unwrap();
        let run = |tokens: &Tensor<B, 3>| {
            let input = MhaInput::self_attn(tokens.clone()).causal().dropout_seed(3);
            let input = if with_bias { input.bias(bias.clone()) } else { input };
            module.forward(input.weights(weights))
        };
        let (out, changed) = (run(&before), run(&after));
        let earlier = |x: &Tensor<B, 3>| floats(x.clone().narrow(1, 0, seq - 1));
        assert_same(&earlier(&out.context), &earlier(&changed.context));
        for head in 0..n_heads {
            let of_head = floats(out.context.clone().narrow(2, head * head_dim, head_dim));
            assert!(of_head.iter().any(|&x| x != 0.0), "head {head} is all zero");
        }
        for (index, weight) in out.weights.map(floats).unwrap_or_default().into_iter().enumerate() {
            let [i, j] = [index / seq % seq, index % seq];
            assert!(j <= i || weight == 0.0, "the weight of {i}, {j}");
        }
    }
}

/// rasbt/LLMs-from-scratch #1061 (polarity) and pytorch/pytorch #136816 (float masks).
fn polarity_and_float_masks<B: AutodiffBackend>() {
    let hidden = bools::<B, 2>(&[false, true], [1, 2]);
    assert_eq!(uniform::<B>(1, &[1.0, 2.0], |input| input.mask_pad(hidden)), [1.0]);
    for (bias, expected) in [(3.0f32.ln(), [0.25, 0.75]), (1.0, [0.268941, 0.731059])] {
        let device = Default::default();
        let zeros = || Tensor::<B, 3>::zeros([1, 2, 1], &device);
        let input = MhaInput::new(zeros().narrow(1, 0, 1), zeros(), zeros());
        let input = input.bias(tensor(&[0.0, bias], [1, 1, 1, 2])).weights(Weights::PerHead);
        assert_close(&floats(core(1, 1).forward(input).weights.unwrap()), &expected, 1e-6);
    }
}

/// keras-team/keras-hub #783: a padding mask that works by luck when batch and heads are as many.
fn padding_is_per_entry<B: AutodiffBackend>() {
    let tokens = tensor::<B, 3, _>(&numbers(1, 2 * 3 * 4), [2, 3, 4]);
    let pad = bools(&[false, false, false, false, false, true], [2, 3]);
    let module = core::<B>(4, 2);
    let padded = module.forward(MhaInput::self_attn(tokens.clone()).mask_pad(pad)).context;
    let alone = |entry: usize, seq: usize| {
        let keys = tokens.clone().narrow(0, entry, 1).narrow(1, 0, seq);
        let query = tokens.clone().narrow(0, entry, 1);
        floats(module.forward(MhaInput::new(query, keys.clone(), keys)).context)
    };
    assert_close(&floats(padded), &wide(&[alone(0, 3), alone(1, 2)].concat()), 1e-6);
}

/// pytorch/pytorch #100709 "key_padding_mask and is_causal breaks".
fn padding_and_causal<B: AutodiffBackend>() {
    let pad = bools::<B, 2>(&[false, false, false, false, true], [1, 5]);
    let out = uniform::<B>(5, &count_up(5), |input| input.causal().mask_pad(pad));
    assert_close(&out, &[1.0, 1.5, 2.0, 2.5, 2.5], 1e-6);
}

/// huggingface/candle PR #3625: mask and causal flag together give NaN at some lengths.
fn causal_flag_and_mask_agree<B: AutodiffBackend>() {
    for n in [1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130] {
        let device = Default::default();
        let dense = || mha::generate_autoregressive_mask::<B>(1, n, &device);
        let values = numbers(1, n);
        let flag = uniform::<B>(n, &values, MhaInput::causal);
        let mask = uniform::<B>(n, &values, |input| input.mask_attn(dense()));
        let both = uniform::<B>(n, &values, |input| input.causal().mask_attn(dense()));
        assert!(flag.iter().all(|x| x.is_finite()));
        assert_eq!((&flag, &flag), (&mask, &both), "length {n}");
    }
}

/// pytorch/pytorch #101967 "produces NaN when input has NaN in masked-out positions" and #141128
/// (a NaN query silently becomes zeros).
fn nan_is_neither_spread_nor_hidden<B: AutodiffBackend>() {
    for content in [1e10, f32::INFINITY, f32::NAN] {
        let query = tensor::<B, 4, _>(&numbers(1, 8), [1, 2, 1, 4]);
        let spoil = |seed| {
            let clean = tensor::<B, 4, _>(&numbers(seed, 8), [1, 2, 1, 4]);
            clean.slice_fill([0..1, 1..2, 0..1, 0..4], content).require_grad()
        };
        let (key, value) = (spoil(2), spoil(3));
        let options =
            AttentionOptions::default().mask(Mask::block_keys(bools(&[false, true], [1, 2])));
        let out = attention(query, key.clone(), value.clone(), &options).context;
        assert_close(&floats(out.clone()), &wide(&numbers(3, 4).repeat(2)), 1e-6);
        let gradients = out.sum().backward();
        let value = floats(value.grad(&gradients).unwrap());
        assert_eq!(value, [2.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(floats(key.grad(&gradients).unwrap()).iter().all(|&x| x == 0.0));
    }
    let dims = [2, 16, 4, 8];
    let query = Tensor::<B, 4>::full(dims, f32::NAN, &Default::default());
    let [key, value] = [2, 3].map(|seed| tensor(&numbers(seed, 1024), dims));
    for options in [AttentionOptions::default(), AttentionOptions::default().causal()] {
        let out = attention(query.clone(), key.clone(), value.clone(), &options).context;
        assert!(floats(out).iter().all(|x| x.is_nan()));
    }
}

/// pytorch/pytorch #34537 "nn.MultiHeadAttention should be able to return attention weights for
/// each head", #42929 (weights above 1 in training).
fn weights_per_head_and_averaged<B: AutodiffBackend>() {
    let module =
        MultiHeadAttentionConfig::new(8, 4).with_dropout(0.2).init::<B>(&Default::default());
    let input = || {
        let query = tensor::<B, 3, _>(&numbers(1, 2 * 3 * 8), [2, 3, 8]);
        let memory = tensor::<B, 3, _>(&numbers(2, 2 * 6 * 8), [2, 6, 8]);
        MhaInput::new(query, memory.clone(), memory)
    };
    let per_head = module.forward(input().weights(Weights::PerHead)).weights.unwrap();
    assert_eq!(per_head.dims(), [2, 4, 3, 6]);
    assert_close(&floats(per_head.clone().sum_dim(3)), &[1.0; 24], 1e-6);
    let mean = wide(&floats(per_head.mean_dim(1)));
    let averaged = module.forward(input().weights(Weights::Averaged)).weights.unwrap();
    assert_close(&floats(averaged), &mean, 1e-6);

    // One key: before dropout its weight is 1 in training too.
    let one = MhaInput::self_attn(tensor::<B, 3, _>(&numbers(1, 8), [1, 1, 8]));
    let weights = module.forward(one.weights(Weights::PerHead)).weights.unwrap();
    assert_eq!(floats(weights), [1.0; 4]);
}

/// pytorch/pytorch #124464 "SDPA does not switch off dropout during evaluation", #97128 (the
/// inference path fails for odd heads or without bias).
fn inference_is_deterministic<B: AutodiffBackend>() {
    type Inner<B> = <B as AutodiffBackend>::InnerBackend;
    let tokens = numbers(1, 2 * 5 * 9);
    let hidden: Vec<bool> = (0..50).map(|x| x % 5 > x / 5 % 5 + 1).collect();
    let pad: Vec<bool> = (0..10).map(|x| x == 9).collect();
    fn run<B: Backend>(dropout: f64, tokens: &[f32], hidden: &[bool], pad: &[bool]) -> Vec<f32> {
        let mut module = core::<B>(9, 3);
        let config = MultiHeadAttentionConfig::new(9, 3).with_bias(false).with_dropout(dropout);
        let fresh = config.init::<B>(&Default::default());
        module = fresh.try_load_record(burn::module::Module::into_record(module)).unwrap();
        let input = MhaInput::self_attn(tensor(tokens, [2, 5, 9]));
        let input = input.mask_attn(bools(hidden, [2, 5, 5])).mask_pad(bools(pad, [2, 5]));
        floats(module.forward(input).context)
    }
    let inference = run::<Inner<B>>(0.8, &tokens, &hidden, &pad);
    assert_same(&inference, &run::<Inner<B>>(0.8, &tokens, &hidden, &pad));
    assert_same(&inference, &run::<Inner<B>>(0.0, &tokens, &hidden, &pad));
    assert_close(&run::<B>(0.0, &tokens, &hidden, &pad), &wide(&inference), 1e-6);
}

/// Dao-AILab/flash-attention #1347 (head sizes that are no multiple of 8): the scale uses the true
/// width, not a padded one; SKaiNET-developers/SKaiNET #860: no scale is not a scale of 0.
fn scale_uses_the_true_width<B: AutodiffBackend>() {
    for (width, scale, expected) in [
        (4, None, 0.880797),
        (4, Some(0.25), 0.731059),
        (4, Some(1.0), 0.982014),
        (4, Some(0.0), 0.5),
        (5, None, 0.903442),
    ] {
        let device = Default::default();
        let query = Tensor::<B, 4>::ones([1, 1, 1, width], &device);
        let key = Tensor::cat(vec![query.clone(), query.zeros_like()], 1);
        let options = AttentionOptions::default().return_weights();
        let options = scale.into_iter().fold(options, AttentionOptions::scale);
        let weights = attention(query, key.clone(), key, &options).weights.unwrap();
        assert_close(&floats(weights)[..1], &[expected], 1e-6);
    }
}

/// tracel-ai/burn #5783 (item 1) and onnx/onnx PR #7274 (tile versus repeat).
fn grouped_heads_read_their_own<B: AutodiffBackend>() {
    let query = tensor::<B, 4, _>(&numbers(1, 3 * 4), [1, 3, 4, 1]);
    let key = tensor::<B, 4, _>(&numbers(2, 5 * 2), [1, 5, 2, 1]);
    let value = tensor::<B, 4, f32>(&[10.0, 20.0].repeat(5), [1, 5, 2, 1]);
    let options = AttentionOptions::default().causal();
    let grouped = attention(query.clone(), key.clone(), value.clone(), &options).context;
    assert_close(&floats(grouped.clone()), &[10.0, 10.0, 20.0, 20.0].repeat(3), 1e-5);

    // As with the keys and values written out, each twice.
    let [key, value] = [key, value]
        .map(|x| x.reshape([1, 5, 2, 1, 1]).expand([1, 5, 2, 2, 1]).reshape([1, 5, 4, 1]));
    let expanded = attention(query, key, value, &options).context;
    assert_close(&floats(grouped), &wide(&floats(expanded)), 1e-6);
}

/// onnx/onnx #7865 "Softcap in Attention op" and #7829 (the bias inside the cap).
fn softcap_before_mask_and_bias<B: AutodiffBackend>() {
    let run = |scores: [f32; 2], options: AttentionOptions<B>| {
        let query = tensor::<B, 4, f32>(&[1.0], [1, 1, 1, 1]);
        let key = tensor::<B, 4, f32>(&scores, [1, 2, 1, 1]);
        let options = options.scale(1.0).softcap(2.0).return_weights();
        floats(attention(query, key.clone(), key, &options).weights.unwrap())
    };
    let options = AttentionOptions::default;
    let hidden = run([10.0, 0.0], options().mask(Mask::block_keys(bools(&[false, true], [1, 2]))));
    assert_eq!(hidden, [1.0, 0.0]);
    let bias = tensor(&[0.0f32, 3.0], [1, 1, 1, 2]);
    assert_close(&run([4.0, 0.0], options().bias(bias)), &[0.255033, 0.744967], 1e-6);
}

/// pytorch/pytorch #27623 "Not possible to use different key/value dimensionalities in
/// nn.MultiheadAttention" and Dao-AILab/flash-attention #753 (value heads of another width).
fn widths_of_their_own<B: AutodiffBackend>() {
    for (head_dim, value_dim) in [(24, 24), (8, 16), (16, 8)] {
        let config = MultiHeadAttentionConfig::new(24, 1)
            .with_d_key(24)
            .with_d_value(12)
            .with_head_dim(head_dim)
            .with_value_dim(value_dim);
        let module = config.init::<B>(&Default::default());
        let tokens = |seed, width| {
            tensor::<B, 3, _>(&numbers(seed, 5 * 10 * width), [5, 10, width]).require_grad()
        };
        let [query, key, value] = [tokens(1, 24), tokens(2, 24), tokens(3, 12)];
        let input = MhaInput::new(query, key, value.clone());
        let out = module.forward(input).context;
        assert_eq!(out.dims(), [5, 10, 24]);
        let gradient = value.grad(&out.powi_scalar(2).sum().backward()).unwrap();
        assert!(floats(gradient).iter().any(|&x| x != 0.0));
    }
}

/// jax-ml/jax #27224 (lengths that are no multiple of a block) and tenstorrent/tt-metal #54833:
/// all scores are about -50, so that a stray score of 0 would win.
fn awkward_lengths<B: AutodiffBackend>() {
    for seq_q in [1, 7, 33, 65] {
        for seq_k in [1, 31, 63, 129, 193] {
            let device = Default::default();
            let query = Tensor::<B, 4>::full([1, seq_q, 2, 4], 5.0, &device);
            let key = Tensor::full([1, seq_k, 2, 4], -5.0, &device);
            let value = Tensor::<B, 4>::ones([1, seq_k, 2, 3], &device);
            for causal in [false, true] {
                let options = AttentionOptions::default();
                let options = if causal { options.causal() } else { options };
                let [query, key, value] = [query.clone(), key.clone(), value.clone()];
                let context = attention(query, key, value, &options).context;
                let sees_none = |i: usize| causal && i + seq_k < seq_q;
                let row = |i| if sees_none(i) { [0.0; 6] } else { [1.0; 6] };
                let expected: Vec<f64> = (0..seq_q).flat_map(row).collect();
                assert_close(&floats(context), &expected, 1e-5);
            }
        }
    }
}

/// huggingface/candle #3727 and pytorch/pytorch PR #62897 (row maximum not subtracted).
fn strong_scores<B: AutodiffBackend>() {
    let run = |shift: f32| {
        let scores = [1e4 + shift, -1e4 + shift, 1e4 - 1.0 + shift, shift];
        let device = Default::default();
        let zeros = |seq| Tensor::<B, 4>::zeros([1, seq, 1, 1], &device);
        let value = tensor::<B, 4, f32>(&[1.0, 2.0, 3.0, 4.0], [1, 4, 1, 1]);
        let options = AttentionOptions::default().bias(tensor(&scores, [1, 1, 1, 4]));
        floats(attention(zeros(1), zeros(4), value, &options).context)
    };
    // The two largest weigh 1 / (1 + 1/e) and 1 / (1 + e).
    assert_close(&run(0.0), &[1.0 * 0.731_058_58 + 3.0 * 0.268_941_42], 1e-6);
    assert_close(&run(1e4), &[1.0 * 0.731_058_58 + 3.0 * 0.268_941_42], 1e-6);
}

/// facebookresearch/xformers #636 "Support gradients to attention bias" and pytorch/pytorch
/// #148476 (only the mask requires a gradient).
fn gradient_of_the_bias<B: AutodiffBackend>() {
    let device = Default::default();
    let zeros = |seq| Tensor::<B, 4>::zeros([1, seq, 1, 1], &device);
    let bias = Tensor::<B, 4>::zeros([1, 1, 1, 2], &device).require_grad();
    let options = AttentionOptions::default().bias(bias.clone());
    let value = tensor::<B, 4, f32>(&[1.0, 3.0], [1, 2, 1, 1]);
    let out = attention(zeros(1), zeros(2), value, &options).context;
    let gradient = bias.grad(&out.sum().backward()).unwrap();
    assert_close(&floats(gradient), &[-0.5, 0.5], 1e-6);

    let (batch, n_heads, seq) = (2, 3, 33);
    let qkv = [1, 2, 3].map(|seed| {
        tensor::<B, 4, _>(&numbers(seed, batch * seq * n_heads * 4), [batch, seq, n_heads, 4])
    });
    for dims in [[batch, n_heads, seq, seq], [1, n_heads, seq, seq], [1, 1, seq, seq]] {
        let bias = tensor::<B, 4, _>(&numbers(4, dims.iter().product()), dims).require_grad();
        let options = AttentionOptions::default().bias(bias.clone()).causal();
        let [query, key, value] = qkv.clone();
        let out = attention(query, key, value, &options).context;
        let gradient = bias.grad(&out.powi_scalar(2).sum().backward()).unwrap();
        assert_eq!(gradient.dims(), dims);
        let gradient = floats(gradient);
        for (row, of_row) in gradient.chunks(seq).enumerate() {
            let sum: f32 = of_row.iter().sum();
            assert!(sum.abs() < 1e-4, "row {row} sums to {sum}");
            assert!(of_row[row % seq + 1..].iter().all(|&x| x == 0.0), "hidden pairs");
            assert!(row % seq == 0 || of_row.iter().any(|&x| x != 0.0));
        }
    }
}
