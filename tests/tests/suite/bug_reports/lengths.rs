//! Lengths that are no multiple of a block.

use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use mha::oracle::{Attention, Gradients, Sizes};
use mha::{AttentionOptions, Mask, attention};
use mha_tests::{bools, coins, floats, max_error, numbers, on_every_backend, tensor, wide};

on_every_backend!(br_33_longer_than_a_block, br_33_awkward_lengths);

/// What hides pairs, if anything does.
#[derive(Debug, Clone, Copy)]
enum Hiding {
    Nothing,
    Additive,
    Causal,
    Padding,
}

use Hiding::{Additive, Causal, Nothing, Padding};

/// Compares the context and all gradients with the plain reference. All scores are near -50: the
/// product of the first channels says so.
fn check<B: AutodiffBackend>(sizes: Sizes, hiding: Hiding) {
    let Sizes { batch, n_heads, seq_q, seq_k, head_dim, .. } = sizes;
    let scale = 1.0 / (head_dim as f64).sqrt();
    let strong = (50.0 / scale).sqrt() as f32;
    let heads = |seed, seq: usize, first: Option<f32>| {
        let mut all = numbers(seed, batch * seq * n_heads * head_dim);
        for of_head in all.chunks_mut(head_dim) {
            of_head[0] = first.unwrap_or(of_head[0]);
        }
        all
    };
    let query = heads(1, seq_q, Some(strong));
    let (key, value) = (heads(2, seq_k, Some(-strong)), heads(3, seq_k, None));
    let d_context = heads(4, seq_q, None);
    let bias = numbers(5, batch * n_heads * seq_q * seq_k);
    let hidden = coins(6, batch * seq_k, 30);

    let mut oracle = Attention::<f64>::new(sizes, wide(&query), wide(&key), wide(&value));
    let q_dims = [batch, seq_q, n_heads, head_dim];
    let k_dims = [batch, seq_k, n_heads, head_dim];
    let leaf = |numbers: &[f32], dims| tensor::<B, 4, _>(numbers, dims).require_grad();
    let leaves = [leaf(&query, q_dims), leaf(&key, k_dims), leaf(&value, k_dims)];
    let options = AttentionOptions::<B>::default();
    let mut tracked = leaves.to_vec();
    let options = match hiding {
        Nothing => options,
        Additive => {
            oracle.bias = wide(&bias);
            tracked.push(leaf(&bias, [batch, n_heads, seq_q, seq_k]));
            options.bias(tracked[3].clone())
        }
        Causal => {
            oracle.hide(|_, _, i, j| j + seq_q > i + seq_k);
            options.causal()
        }
        Padding => {
            oracle.hide(|b, _, _, j| hidden[b * seq_k + j]);
            options.mask(Mask::block_keys(bools(&hidden, [batch, seq_k])))
        }
    };
    let [query, key, value] = leaves;
    let context = attention(query, key, value, &options).context;
    let d_tensor = tensor::<B, 4, _>(&d_context, q_dims);
    let gradients = (context.clone() * d_tensor).sum().backward();

    let exact = oracle.forward().context;
    let Gradients { query, key, value, bias, .. } = oracle.backward(&wide(&d_context));
    let of = |x: &Tensor<B, 4>| floats(x.grad(&gradients).expect("a gradient"));
    let what = |name: &str| format!("{name} of {seq_q} queries, {seq_k} keys, {hiding:?}");
    let error = max_error(&floats(context), &exact);
    assert!(error <= 1e-5, "{}: error {error:e}", what("context"));
    for ((name, exact), ours) in
        [("dQ", query), ("dK", key), ("dV", value), ("dBias", bias)].iter().zip(&tracked)
    {
        // A score of -50 is off by its rounding, and `strong` multiplies what comes of it.
        let error = max_error(&of(ours), exact);
        assert!(error <= 1e-5 * f64::from(strong), "{}: error {error:e}", what(name));
    }
}

fn sizes(n_heads: usize, [seq_q, seq_k]: [usize; 2], width: usize) -> Sizes {
    let (head_dim, value_dim, n_kv_heads) = (width, width, n_heads);
    Sizes { n_heads, n_kv_heads, seq_q, seq_k, head_dim, value_dim, ..Sizes::ONE }
}

/// jax-ml/jax #27224 "Pallas GPU FlashAttention forward only works when sequence lengths are
/// multiples of block size".
fn br_33_longer_than_a_block<B: AutodiffBackend>() {
    for hiding in [Nothing, Additive, Causal, Padding] {
        check::<B>(sizes(8, [192, 192], 16), hiding);
    }
}

/// The same report and tenstorrent/tt-metal #54833 (zero-padded mask columns read as visible): a
/// stray score of 0 would win over those of -50.
fn br_33_awkward_lengths<B: AutodiffBackend>() {
    const LENGTHS: [usize; 9] = [1, 7, 31, 33, 63, 65, 127, 129, 193];
    for pair in LENGTHS.iter().flat_map(|&seq_q| LENGTHS.map(|seq_k| [seq_q, seq_k])) {
        for hiding in [Nothing, Additive, Causal, Padding] {
            check::<B>(sizes(1, pair, 4), hiding);
        }
    }
}
