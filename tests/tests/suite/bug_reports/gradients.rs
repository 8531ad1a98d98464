//! The gradient of an additive bias.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::{AttentionOptions, Mask, MhaInput, MultiHeadAttentionConfig, attention};
use mha_tests::{assert_close, floats, numbers, on_every_backend, tensor, wide};

use super::core;

on_every_backend!(br_41_gradient_of_a_bias, br_41_every_shape, br_41_only_the_bias_is_tracked);

/// facebookresearch/xformers #636 "Support gradients to attention bias".
fn br_41_gradient_of_a_bias<B: AutodiffBackend>() {
    let device = Default::default();
    let bias = || Tensor::<B, 4>::zeros([1, 1, 1, 2], &device).require_grad();

    let of_function = bias();
    let zeros = |seq| Tensor::<B, 4>::zeros([1, seq, 1, 1], &device).require_grad();
    let options = AttentionOptions::default().bias(of_function.clone());
    let value = tensor::<B, 4, f32>(&[1.0, 3.0], [1, 2, 1, 1]).require_grad();
    let out = attention(zeros(1), zeros(2), value, &options).context;
    let gradient = of_function.grad(&out.sum().backward()).unwrap();
    assert_close(&floats(gradient), &[-0.5, 0.5], 1e-6);

    let of_module = bias();
    let zeros = |seq| Tensor::<B, 3>::zeros([1, seq, 1], &device);
    let value = tensor::<B, 3, f32>(&[1.0, 3.0], [1, 2, 1]);
    let input = MhaInput::new(zeros(1), zeros(2), value).bias(of_module.clone());
    let out = core(1, 1).forward(input).context;
    let gradient = of_module.grad(&out.sum().backward()).unwrap();
    assert_close(&floats(gradient), &[-0.5, 0.5], 1e-6);
}

const BATCH: usize = 2;
const N_HEADS: usize = 3;
const SEQ: usize = 33;
const SHAPES: [[usize; 4]; 4] =
    [[BATCH, N_HEADS, SEQ, SEQ], [1, N_HEADS, SEQ, SEQ], [1, 1, SEQ, SEQ], [BATCH, 1, 1, SEQ]];

/// The gradient of a bias of this shape; with `all_pairs` that of the same bias written out for
/// every pair.
fn gradient<B: AutodiffBackend>(
    dims: [usize; 4],
    all_pairs: bool,
    others_tracked: bool,
    mask: Mask<B>,
) -> Tensor<B::InnerBackend, 4> {
    let values = tensor::<B, 4, _>(&numbers(4, dims.iter().product()), dims);
    let bias = if all_pairs { values.expand(SHAPES[0]) } else { values }.require_grad();
    let [query, key, value] = [1, 2, 3].map(|seed| {
        let dims = [BATCH, SEQ, N_HEADS, 4];
        let x = tensor::<B, 4, _>(&numbers(seed, dims.iter().product()), dims);
        if others_tracked { x.require_grad() } else { x }
    });
    let options = AttentionOptions::default().bias(bias.clone()).mask(mask);
    let out = attention(query, key, value, &options).context;
    bias.grad(&out.powi_scalar(2).sum().backward()).expect("a gradient")
}

/// Whether a mask hides a pair (entry, query, key).
type Hides = fn(usize, usize, usize) -> bool;

fn masks<B: AutodiffBackend>() -> [(Mask<B>, Hides); 3] {
    [
        (Mask::none(), |_, _, _| false),
        (Mask::causal(), |_, i, j| j > i),
        (Mask::lengths(vec![20, SEQ]), |entry, _, j| entry == 0 && j >= 20),
    ]
}

/// The same report, #783 and meta-pytorch/attention-gym #20: each shape has a gradient, the sum of
/// those of the pairs it stands for.
fn br_41_every_shape<B: AutodiffBackend>() {
    for (dims, (mask, hides)) in SHAPES.iter().flat_map(|&dims| masks::<B>().map(|m| (dims, m))) {
        let ours = gradient(dims, false, true, mask.clone());
        assert_eq!(ours.dims(), dims);
        let of_pairs = gradient(dims, true, true, mask);
        for (row, of_row) in floats(of_pairs.clone()).chunks(SEQ).enumerate() {
            let (entry, i) = (row / SEQ / N_HEADS, row % SEQ);
            let sum: f32 = of_row.iter().sum();
            assert!(sum.abs() < 1e-5, "row {row} sums to {sum}");
            let (hidden, visible): (Vec<_>, Vec<_>) =
                of_row.iter().enumerate().partition(|&(j, _)| hides(entry, i, j));
            assert!(hidden.iter().all(|&(_, &x)| x == 0.0), "hidden pairs of row {row}");
            assert!(visible.len() == 1 || visible.iter().all(|&(_, &x)| x != 0.0), "row {row}");
        }
        let axes = (0..4).filter(|&axis| dims[axis] == 1);
        let summed = axes.fold(of_pairs, |x, axis| x.sum_dim(axis));
        assert_close(&floats(ours.clone()), &wide(&floats(summed)), 1e-5);
        for of_row in floats(ours).chunks(SEQ) {
            assert!(of_row.iter().sum::<f32>().abs() < 1e-4);
        }
    }
}

/// pytorch/pytorch #148476 "Illegal memory access ... if only attn_mask requires grad".
fn br_41_only_the_bias_is_tracked<B: AutodiffBackend>() {
    for dims in SHAPES {
        for (mask, _) in masks::<B>() {
            let expected = floats(gradient(dims, false, true, mask.clone()));
            let ours = floats(gradient(dims, false, false, mask));
            assert_close(&ours, &wide(&expected), 1e-6);
        }
    }

    // In a module whose parameters are frozen.
    let config = MultiHeadAttentionConfig::new(6, N_HEADS).with_dropout(0.0);
    let module = config.init::<B>(&Default::default());
    let run = |module: &mha::MultiHeadAttention<B>| {
        let tokens = tensor::<B, 3, _>(&numbers(1, BATCH * SEQ * 6), [BATCH, SEQ, 6]);
        let bias = tensor::<B, 4, _>(&numbers(2, SEQ), [1, 1, 1, SEQ]).require_grad();
        let input = MhaInput::self_attn(tokens).causal().bias(bias.clone());
        let out = module.forward(input).context;
        floats(bias.grad(&out.powi_scalar(2).sum().backward()).expect("a gradient"))
    };
    let expected = wide(&run(&module));
    assert_close(&run(&module.no_grad()), &expected, 1e-6);
}
