//! The context, and what is known on the way to it.

use num_traits::Float;

use super::super::{Sizes, places, sum};
use super::Attention;

/// What [`Attention::forward`] returns.
///
/// # Example
///
/// ```
/// use mha::oracle::{Attention, Output, Sizes};
///
/// let sizes = Sizes { seq_k: 2, ..Sizes::ONE };
/// let attention = Attention::<f64>::new(sizes, vec![0.0], vec![5.0, 7.0], vec![1.0, 3.0]);
/// let Output { context, weights, lse, .. } = attention.forward();
/// assert_eq!((context, weights), (vec![2.0], vec![0.5, 0.5]));
/// assert_eq!(lse, [2f64.ln()]); // two scores of 0
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Output<T> {
    /// `[batch, seq_q, n_heads, value_dim]`
    pub context: Vec<T>,
    /// Before dropout: `[batch, n_heads, seq_q, seq_k]`
    pub weights: Vec<T>,
    /// After dropout: `[batch, n_heads, seq_q, seq_k]`
    pub dropped_weights: Vec<T>,
    /// ln(exp(sink) + Σ exp(score)), so −∞ for a query that has neither key nor sink:
    /// `[batch, n_heads, seq_q]`
    pub lse: Vec<T>,
}

impl<T: Float> Attention<T> {
    /// dropout(softmax(cap(Q Kᵀ scale) + bias, sink)) V head_scale over the keys that are not
    /// hidden; a query that sees none gets zeros.
    pub fn forward(&self) -> Output<T> {
        let Sizes { batch, n_heads, seq_q, seq_k, value_dim, .. } = self.sizes;
        let mut context = vec![T::zero(); batch * seq_q * n_heads * value_dim];
        let [mut weights, mut dropped_weights, mut lse] = [vec![], vec![], vec![]];
        for [b, h, i] in places([batch, n_heads, seq_q]) {
            let row = self.softmax([b, h, i]);
            let kept: Vec<T> =
                (0..seq_k).map(|j| row.weights[j] * self.dropout_factor([b, h, i, j])).collect();
            for f in 0..value_dim {
                let value = |j: usize| self.value[self.key_at(value_dim, [b, j, h, f])];
                // A hidden value may hold anything, and 0 · NaN is NaN.
                let visible = (0..seq_k).filter(|&j| kept[j] != T::zero());
                let average = sum(visible.map(|j| kept[j] * value(j)));
                context[self.query_at(value_dim, [b, i, h, f])] = average * self.head_scale(h);
            }
            weights.extend(row.weights);
            dropped_weights.extend(kept);
            lse.push(row.lse);
        }
        Output { context, weights, dropped_weights, lse }
    }
}
