//! More pairs of query and key than 32 bits count (BR-38: mlx #2894, pytorch #145040 and #150054,
//! onnxruntime #20921): the last of them equal the same slice computed alone.
#![cfg(any(feature = "ndarray", feature = "flex"))]

use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::{AttentionOptions, Mask, attention};
use mha_tests::{assert_close, bools, floats, numbers, on_every_cpu, tensor, wide};

on_every_cpu!(last_sample_and_head, last_queries);

/// The context and the gradients of query, key and value, with a gradient of ones.
fn run<B: AutodiffBackend>(
    inputs: [Tensor<B::InnerBackend, 4>; 3],
    mask: Mask<B>,
) -> [Tensor<B::InnerBackend, 4>; 4] {
    let leaves = inputs.map(|input| Tensor::<B, 4>::from_inner(input).require_grad());
    let [query, key, value] = leaves.clone();
    let context = attention(query, key, value, &AttentionOptions::default().mask(mask)).context;
    let gradients = context.clone().sum().backward();
    let [query, key, value] = leaves.map(|leaf| leaf.grad(&gradients).expect("it is a leaf"));
    [context.inner(), query, key, value]
}

fn assert_equal<B: AutodiffBackend>(
    part: Tensor<B::InnerBackend, 4>,
    alone: Tensor<B::InnerBackend, 4>,
) {
    assert_eq!(part.dims(), alone.dims());
    assert_close(&floats(part), &wide(&floats(alone)), 1e-5);
}

/// 8 entries, 64 heads, 2,100 queries and keys: 2.26e9 pairs.
fn last_sample_and_head<B: AutodiffBackend>() {
    let (batch, heads, seq, width) = (8, 64, 2_100, 8);
    let dims = [batch, seq, heads, width];
    let inputs: [Tensor<B::InnerBackend, 4>; 3] =
        [1, 2, 3].map(|seed| tensor(&numbers(seed, batch * seq * heads * width), dims));
    let last = inputs.clone().map(|x| x.narrow(0, batch - 1, 1).narrow(2, heads - 1, 1));
    let hidden: Vec<bool> = (0..seq).map(|j| j % 7 == 3).collect();
    let mask = || Mask::block(bools::<B, 4>(&hidden, [1, 1, 1, seq]));
    let all = run::<B>(inputs, mask());
    for (all, alone) in all.into_iter().zip(run::<B>(last, mask())) {
        assert_equal::<B>(all.narrow(0, batch - 1, 1).narrow(2, heads - 1, 1), alone);
    }
}

/// 46,400 queries and keys: 2.15e9 pairs, of which causal leaves half.
fn last_queries<B: AutodiffBackend>() {
    let (seq, width, few) = (46_400, 8, 100);
    let dims = [1, seq, 1, width];
    let inputs: [Tensor<B::InnerBackend, 4>; 3] =
        [1, 2, 3].map(|seed| tensor(&numbers(seed, seq * width), dims));
    let [query, key, value] = inputs.clone();
    let [context, d_query, ..] = run::<B>(inputs, Mask::causal());
    // The last query stands at the last key: the last ones alone see what they saw.
    let last = [query.narrow(1, seq - few, few), key, value];
    let [context_alone, d_query_alone, ..] = run::<B>(last, Mask::causal());
    assert_equal::<B>(context.narrow(1, seq - few, few), context_alone);
    assert_equal::<B>(d_query.narrow(1, seq - few, few), d_query_alone);
}
