//! Tensors that are views of others.

use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::{AttentionOptions, attention};
use mha_tests::{assert_close, floats, numbers, on_every_backend, tensor, wide};

on_every_backend!(br_35_views_of_inputs, br_35_views_of_gradients);

/// The tensor in fresh memory.
fn copy<B: AutodiffBackend>(x: &Tensor<B, 4>) -> Tensor<B, 4> {
    tensor(&floats(x.clone()), x.dims())
}

/// A tensor of these axes that is a view, in one of several ways.
fn view<B: AutodiffBackend>(which: usize, seed: u64, dims: [usize; 4]) -> Tensor<B, 4> {
    let [batch, seq, heads, width] = dims;
    let new = |dims: [usize; 4]| tensor::<B, 4, _>(&numbers(seed, dims.iter().product()), dims);
    match which {
        0 => new([batch, heads, seq, width]).swap_dims(1, 2),
        1 => new([width, heads, seq, batch]).permute([3, 2, 1, 0]),
        2 => new([batch, seq, heads, 3 * width]).narrow(3, seed as usize % 3 * width, width),
        3 => new([batch, seq, 3 * heads, width]).narrow(2, seed as usize % 3 * heads, heads),
        4 => new([1, seq, heads, width]).expand(dims),
        _ => new([batch, 1, 1, width]).expand(dims),
    }
}

const VIEWS: usize = 6;

/// Output and gradients of query, key and value. Without an upstream gradient the loss is the sum,
/// whose gradient is an expanded scalar.
fn run<B: AutodiffBackend>(
    inputs: [Tensor<B, 4>; 3],
    d_context: Option<Tensor<B, 4>>,
    options: &AttentionOptions<B>,
) -> [Vec<f32>; 4] {
    let [query, key, value] = inputs.map(|x| x.detach().require_grad());
    let out = attention(query.clone(), key.clone(), value.clone(), options).context;
    let loss = match d_context {
        Some(d_context) => (out.clone() * d_context).sum(),
        None => out.clone().sum(),
    };
    let gradients = loss.backward();
    let of = |x: Tensor<B, 4>| floats(x.grad(&gradients).unwrap());
    [floats(out), of(query), of(key), of(value)]
}

#[track_caller]
fn assert_alike(ours: &[Vec<f32>; 4], expected: &[Vec<f32>; 4]) {
    for (ours, expected) in ours.iter().zip(expected) {
        assert_close(ours, &wide(expected), 1e-5);
    }
}

/// pytorch/pytorch #181133 "[MPS] scaled_dot_product_attention returns wrong values for
/// non-contiguous (permute-produced) q/k/v", #112577, and ROCm/pytorch #3230 (only V permuted).
fn br_35_views_of_inputs<B: AutodiffBackend>() {
    let dims = [84, 3, 3, 64];
    let d_contexts = || [None, Some(view::<B>(0, 4, dims)), Some(view::<B>(4, 4, dims))];
    for options in [AttentionOptions::default(), AttentionOptions::default().causal()] {
        for (which, d_context) in (0..VIEWS).flat_map(|which| d_contexts().map(|d| (which, d))) {
            let views = [1, 2, 3].map(|seed| view::<B>(which, seed, dims));
            let [query, key, value] = [0, 1, 2].map(|index: usize| copy(&views[index]));
            let fresh = d_context.as_ref().map(copy);
            let expected = run([query.clone(), key.clone(), value], fresh, &options);
            let only_value = [query, key, views[2].clone()];
            assert_alike(&run(views, d_context.clone(), &options), &expected);
            assert_alike(&run(only_value, d_context, &options), &expected);
        }
    }
}

/// Dao-AILab/flash-attention #355 "Incorrect backward pass for non-contiguous output grads".
fn br_35_views_of_gradients<B: AutodiffBackend>() {
    let (q_dims, k_dims) = ([2, 32, 4, 128], [2, 1, 4, 128]);
    for which in 0..VIEWS {
        let inputs = || [(1, q_dims), (2, k_dims), (3, k_dims)];
        let views = inputs().map(|(seed, dims)| view::<B>(which, seed, dims));
        let copies = [0, 1, 2].map(|index: usize| copy(&views[index]));
        for d_context in [None].into_iter().chain((0..VIEWS).map(|of| Some(view(of, 4, q_dims)))) {
            let options = AttentionOptions::default();
            let expected = run(copies.clone(), d_context.as_ref().map(copy), &options);
            assert_alike(&run(views.clone(), d_context.clone(), &options), &expected);
            assert_alike(&run(copies.clone(), d_context, &options), &expected);
        }
    }
}
