//! What holds for any attention, whatever the numbers.

use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Int, Tensor};
use mha::{
    AttentionOptions, Mask, MhaInput, MultiHeadAttentionConfig, Path, attention,
    attention_heads_first,
};
use mha_tests::{assert_close, assert_same, bools, floats, numbers, on_every_path, tensor, wide};

on_every_path!(
    keys_in_any_order,
    causal_prefix_is_the_shorter_call,
    hidden_keys_may_hold_anything,
    empty_rows_have_no_gradient,
    mask_and_infinite_bias,
    heads_first_is_the_same,
    layouts_do_not_matter,
    padded_queries_give_zeros,
);

fn qkv<B: Backend>() -> [Tensor<B, 4>; 3] {
    [
        tensor(&numbers(1, 2 * 5 * 3 * 4), [2, 5, 3, 4]),
        tensor(&numbers(2, 2 * 7 * 3 * 4), [2, 7, 3, 4]),
        tensor(&numbers(3, 2 * 7 * 3 * 4), [2, 7, 3, 4]),
    ]
}

#[track_caller]
fn assert_near(a: &[f32], b: &[f32]) {
    assert_close(a, &wide(b), 1e-6);
}

fn keys_in_any_order<B: AutodiffBackend>(path: Path) {
    let [query, key, value] = qkv::<B>();
    let options = AttentionOptions::default().path(path);
    let before = attention(query.clone(), key.clone(), value.clone(), &options).context;
    let order = Tensor::<B, 1, Int>::from_ints([3, 0, 6, 2, 5, 1, 4], &Default::default());
    let [key, value] = [key, value].map(|x| x.select(1, order.clone()));
    assert_near(&floats(before), &floats(attention(query, key, value, &options).context));
}

fn causal_prefix_is_the_shorter_call<B: AutodiffBackend>(path: Path) {
    let [_, key, value] = qkv::<B>();
    let query = value.clone();
    let options = AttentionOptions::default().path(path).causal();
    let whole = attention(query.clone(), key.clone(), value.clone(), &options).context;
    let [query, key, value] = [query, key, value].map(|x| x.narrow(1, 0, 4));
    let prefix = attention(query, key, value, &options).context;
    assert_near(&floats(whole.narrow(1, 0, 4)), &floats(prefix));
}

/// A key that every query of a head is kept from, by whatever mask, changes nothing: neither the
/// output nor any gradient, also of the projections; and its own gradient is 0.
fn hidden_keys_may_hold_anything<B: AutodiffBackend>(path: Path) {
    let device = Default::default();
    let module =
        MultiHeadAttentionConfig::new(6, 2).with_dropout(0.0).with_path(path).init::<B>(&device);
    let tokens = tensor::<B, 3, _>(&numbers(1, 2 * 5 * 6), [2, 5, 6]);
    let run = |content: f32, which: usize| {
        let memory = tensor::<B, 3, _>(&numbers(2, 2 * 7 * 6), [2, 7, 6]);
        let memory = memory.slice_fill([1..2, 3..5, 0..6], content).require_grad();
        let input = MhaInput::new(tokens.clone(), memory.clone(), memory.clone());
        let mut hidden = vec![false; 2 * 7];
        hidden[7 + 3..7 + 5].fill(true);
        let input = match which {
            0 => input.mask_pad(bools(&hidden, [2, 7])),
            1 => input.mask_attn(bools(&hidden, [2, 1, 7])),
            2 => input.mask(Mask::block(bools::<B, 4>(&hidden, [2, 1, 1, 7]))),
            _ => input.mask_pad(bools(&hidden, [2, 7])).causal(),
        };
        let out = module.forward(input).context;
        let gradients = out.clone().powi_scalar(2).sum().backward();
        let memory = floats(memory.grad(&gradients).unwrap());
        let mut all = vec![floats(out), memory.clone()];
        for linear in [&module.query, &module.key, &module.value, &module.output] {
            all.push(floats(linear.weight.grad(&gradients).unwrap()));
            all.push(floats(linear.bias.as_ref().unwrap().grad(&gradients).unwrap()));
        }
        assert!(memory[(7 + 3) * 6..(7 + 5) * 6].iter().all(|&x| x == 0.0));
        all
    };
    for which in 0..4 {
        let expected = run(0.5, which);
        for content in [1e10, f32::INFINITY, f32::NAN] {
            for (changed, expected) in run(content, which).iter().zip(&expected) {
                assert_same(changed, expected);
            }
        }
    }
}

fn empty_rows_have_no_gradient<B: AutodiffBackend>(path: Path) {
    let [query, key, value] = qkv::<B>().map(Tensor::require_grad);
    let hidden: Vec<bool> = (0..2 * 5 * 7).map(|index| index / 7 % 5 == 2).collect();
    let bias = tensor::<B, 4, _>(&numbers(4, 2 * 3 * 5 * 7), [2, 3, 5, 7]).require_grad();
    let options = AttentionOptions::default()
        .path(path)
        .mask(Mask::block(bools::<B, 3>(&hidden, [2, 5, 7])))
        .bias(bias.clone());
    let options = if path == Path::Plain { options.return_weights() } else { options };
    let out = attention(query.clone(), key.clone(), value.clone(), &options);
    let gradients = out.context.clone().powi_scalar(2).sum().backward();
    let row = |x: Tensor<B, 4>| floats(x.narrow(1, 2, 1));
    assert!(row(out.context).iter().all(|&x| x == 0.0));
    if let Some(weights) = out.weights {
        assert!(floats(weights.narrow(2, 2, 1)).iter().all(|&x| x == 0.0));
    }
    let query = query.grad(&gradients).unwrap();
    assert!(floats(query.clone().narrow(1, 2, 1)).iter().all(|&x| x == 0.0));
    assert!(floats(bias.grad(&gradients).unwrap().narrow(2, 2, 1)).iter().all(|&x| x == 0.0));
    for gradient in [query, key.grad(&gradients).unwrap(), value.grad(&gradients).unwrap()] {
        assert!(floats(gradient).iter().all(|x| x.is_finite()));
    }
}

/// The mask wins over a bias of +∞ or NaN, and a bias of -∞ is a mask.
fn mask_and_infinite_bias<B: AutodiffBackend>(path: Path) {
    let hidden: Vec<bool> = (0..5 * 7).map(|pair| pair % 3 == 0).collect();
    let run = |hide: bool, there: f32| {
        let [query, key, value] = qkv::<B>().map(Tensor::require_grad);
        let bias: Vec<f32> = hidden.iter().map(|&hide| if hide { there } else { 0.0 }).collect();
        let bias = tensor::<B, 4, _>(&bias, [1, 1, 5, 7]).require_grad();
        let options = AttentionOptions::default().path(path).bias(bias.clone());
        let options =
            if hide { options.mask(Mask::block(bools::<B, 2>(&hidden, [5, 7]))) } else { options };
        let out = attention(query.clone(), key.clone(), value.clone(), &options).context;
        let gradients = out.clone().powi_scalar(2).sum().backward();
        let all = [query, key, value, bias].map(|x| floats(x.grad(&gradients).unwrap()));
        [vec![floats(out)], all.to_vec()].concat()
    };
    let expected = run(true, 0.0);
    for (hide, there) in [(true, f32::INFINITY), (true, f32::NAN), (false, f32::NEG_INFINITY)] {
        for (ours, expected) in run(hide, there).iter().zip(&expected) {
            assert_same(ours, expected);
        }
    }
}

fn heads_first_is_the_same<B: AutodiffBackend>(path: Path) {
    let [query, key, value] = qkv::<B>();
    let options = AttentionOptions::default().path(path).causal();
    let ours = attention(query.clone(), key.clone(), value.clone(), &options).context;
    let [query, key, value] = [query, key, value].map(|x| x.swap_dims(1, 2));
    let theirs = attention_heads_first(query, key, value, &options).context;
    assert_eq!(theirs.dims(), [2, 3, 5, 4]);
    assert_same(&floats(ours), &floats(theirs.swap_dims(1, 2)));
}

/// Views of other tensors give what fresh copies give, output and gradients, and so does a gradient
/// that comes in as a view.
fn layouts_do_not_matter<B: AutodiffBackend>(path: Path) {
    let copy = |x: &Tensor<B, 4>| tensor::<B, 4, _>(&floats(x.clone()), x.dims()).require_grad();
    let options = AttentionOptions::default().path(path).causal();
    let packed = tensor::<B, 4, _>(&numbers(1, 2 * 7 * 3 * 12), [2, 7, 3, 12]);
    let sliced = [0, 4, 8].map(|start| packed.clone().narrow(3, start, 4));
    let swapped =
        [1, 2, 3].map(|seed| tensor::<B, 4, _>(&numbers(seed, 168), [2, 3, 7, 4]).swap_dims(1, 2));
    let expanded = [1, 2, 3]
        .map(|seed| tensor::<B, 4, _>(&numbers(seed, 84), [1, 7, 3, 4]).expand([2, 7, 3, 4]));
    let d_context = tensor::<B, 4, _>(&numbers(4, 168), [2, 3, 7, 4]).swap_dims(1, 2);
    let one = Tensor::<B, 4>::ones([1, 1, 1, 1], &Default::default()).expand([2, 7, 3, 4]);

    for views in [sliced, swapped, expanded] {
        let copies = [copy(&views[0]), copy(&views[1]), copy(&views[2])];
        let views = views.map(|x| x.detach().require_grad());
        for d_context in [&d_context, &one] {
            let run = |[query, key, value]: &[Tensor<B, 4>; 3], d_context: Tensor<B, 4>| {
                let out = attention(query.clone(), key.clone(), value.clone(), &options).context;
                let gradients = (out.clone() * d_context).sum().backward();
                let gradients = [query, key, value].map(|x| floats(x.grad(&gradients).unwrap()));
                (floats(out), gradients)
            };
            let (ours, our_gradients) = run(&views, d_context.clone());
            let (expected, gradients) = run(&copies, copy(d_context).detach());
            assert_near(&ours, &expected);
            for (ours, expected) in our_gradients.iter().zip(&gradients) {
                assert_near(ours, expected);
            }
        }
    }
}

/// Outputs of queries that are padding are 0 and give no gradient; the others are what they were.
fn padded_queries_give_zeros<B: AutodiffBackend>(path: Path) {
    let module = MultiHeadAttentionConfig::new(6, 2)
        .with_dropout(0.0)
        .with_path(path)
        .init::<B>(&Default::default());
    let tokens = tensor::<B, 3, _>(&numbers(1, 2 * 5 * 6), [2, 5, 6]).require_grad();
    let input = || MhaInput::self_attn(tokens.clone());
    let whole = floats(module.forward(input()).context);
    let padded = module.forward(input().query_lengths(vec![5, 2])).context;
    let ours = floats(padded.clone());
    assert_same(&ours[..7 * 6], &whole[..7 * 6]);
    assert!(ours[7 * 6..].iter().all(|&x| x == 0.0));
    let bias = module.output.bias.as_ref().unwrap().grad(&padded.sum().backward()).unwrap();
    assert_same(&floats(bias), &[7.0; 6]); // one for each true query

    let error = module.try_forward(input().query_lengths(vec![6, 2])).map(drop).unwrap_err();
    let words = "query_lengths must be 2 (batch) numbers of at most 5 queries, got [6, 2]";
    assert_eq!(error.to_string(), words);
}
