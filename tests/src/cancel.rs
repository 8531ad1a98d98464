//! How large the terms are that a gradient of 0 is the difference of.

use mha::oracle::{Attention, Gradients, Sizes};
use num_traits::Float;

/// The gradients of scores, queries and keys with every difference turned into a sum: a score's is
/// p (|g| + |ḡ|) where the oracle has p (g - ḡ). A query that sees but one key has a gradient of 0 in
/// exact arithmetic, and what is left of its terms in any other.
pub(crate) fn terms_of<T: Float>(attention: &Attention<T>, d_context: &[T]) -> Gradients<T> {
    let Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, head_dim, value_dim } = attention.sizes;
    let weights = attention.forward().weights;
    let kept = T::one() / (T::one() - attention.dropout);
    let mut terms = attention.backward(d_context);
    for of in [&mut terms.query, &mut terms.key, &mut terms.bias] {
        of.fill(T::zero());
    }
    for row in 0..batch * n_heads * seq_q {
        let [b, h, i] = [row / seq_q / n_heads, row / seq_q % n_heads, row % seq_q];
        let query = (b * seq_q + i) * n_heads + h;
        let key = |j: usize| (b * seq_k + j) * n_kv_heads + h / (n_heads / n_kv_heads);
        let d_out = &d_context[query * value_dim..][..value_dim];
        let d_weight = |j: usize| {
            let value = &attention.value[key(j) * value_dim..][..value_dim];
            let product = d_out.iter().zip(value).fold(T::zero(), |sum, (&d, &v)| sum + d * v);
            if attention.dropped[row * seq_k + j] { T::zero() } else { product * kept }
        };
        let seen: Vec<usize> =
            (0..seq_k).filter(|j| weights[row * seq_k + j] != T::zero()).collect();
        let mean =
            seen.iter().fold(T::zero(), |sum, &j| sum + weights[row * seq_k + j] * d_weight(j));
        let head_scale = attention.head_scale.as_ref().map_or(T::one(), |scale| scale[h]);
        for j in seen {
            let pair = row * seq_k + j;
            let term = head_scale.abs() * weights[pair] * (d_weight(j).abs() + mean.abs());
            terms.bias[pair] = term;
            let term = term * attention.scale.abs();
            for f in 0..head_dim {
                let (q, k) = (query * head_dim + f, key(j) * head_dim + f);
                terms.query[q] = terms.query[q] + term * attention.key[k].abs();
                terms.key[k] = terms.key[k] + term * attention.query[q].abs();
            }
        }
    }
    terms
}
