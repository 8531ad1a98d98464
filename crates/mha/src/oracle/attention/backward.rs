//! The gradients.

use num_traits::Float;

use super::super::{Sizes, places, sum};
use super::{Attention, Softmax};

/// What [`Attention::backward`] returns, each in the layout of its input.
///
/// # Example
///
/// ```
/// use mha::oracle::{Attention, Gradients, Sizes};
///
/// let sizes = Sizes { seq_k: 2, ..Sizes::ONE };
/// let attention = Attention::<f64>::new(sizes, vec![0.0], vec![5.0, 7.0], vec![1.0, 3.0]);
/// let Gradients { value, bias, .. } = attention.backward(&[1.0]);
/// assert_eq!(value, [0.5, 0.5]);
/// assert_eq!(bias, [-0.5, 0.5]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Gradients<T> {
    /// `[batch, seq_q, n_heads, head_dim]`
    pub query: Vec<T>,
    /// `[batch, seq_k, n_kv_heads, head_dim]`
    pub key: Vec<T>,
    /// `[batch, seq_k, n_kv_heads, value_dim]`
    pub value: Vec<T>,
    /// `[batch, n_heads, seq_q, seq_k]`
    pub bias: Vec<T>,
    /// `[n_heads]`, or empty without a sink.
    pub sink: Vec<T>,
    /// `[n_heads]`, or empty without a scale of the heads.
    pub head_scale: Vec<T>,
}

impl<T: Float> Attention<T> {
    /// The gradients of a loss whose gradient with respect to the context is `d_context`.
    ///
    /// With O the context before it is multiplied by the head's scale c, p the weights, m the
    /// dropout's factor, g = dO · v m, ḡ = Σ p g = dO · O: dV = Σ p m c dO, ds = c p (g − ḡ),
    /// dQ = Σ ds cap' scale k, dK = Σ ds cap' scale q, d sink = −Σ c p_sink ḡ, dc = Σ ḡ.
    ///
    /// # Panics
    ///
    /// When `d_context` has not the context's length.
    pub fn backward(&self, d_context: &[T]) -> Gradients<T> {
        let Sizes { batch, n_heads, seq_q, seq_k, head_dim, value_dim, .. } = self.sizes;
        assert_eq!(d_context.len(), batch * seq_q * n_heads * value_dim, "length of d_context");
        let zeros = |like: &[T]| vec![T::zero(); like.len()];
        let mut gradients = Gradients {
            query: zeros(&self.query),
            key: zeros(&self.key),
            value: zeros(&self.value),
            bias: zeros(&self.bias),
            sink: zeros(self.sink.as_deref().unwrap_or_default()),
            head_scale: zeros(self.head_scale.as_deref().unwrap_or_default()),
        };
        for [b, h, i] in places([batch, n_heads, seq_q]) {
            let Softmax { weights, sink, .. } = self.softmax([b, h, i]);
            let head_scale = self.head_scale(h);
            let mut d_weights = vec![T::zero(); seq_k]; // g
            for j in (0..seq_k).filter(|&j| weights[j] != T::zero()) {
                let factor = self.dropout_factor([b, h, i, j]);
                for f in 0..value_dim {
                    let d_out = d_context[self.query_at(value_dim, [b, i, h, f])];
                    let v = self.key_at(value_dim, [b, j, h, f]);
                    d_weights[j] = d_weights[j] + d_out * self.value[v] * factor;
                    add(&mut gradients.value[v], weights[j] * factor * head_scale * d_out);
                }
            }
            let mean = sum((0..seq_k).map(|j| weights[j] * d_weights[j])); // ḡ
            if self.sink.is_some() {
                add(&mut gradients.sink[h], -head_scale * sink * mean);
            }
            if self.head_scale.is_some() {
                add(&mut gradients.head_scale[h], mean);
            }
            for j in (0..seq_k).filter(|&j| weights[j] != T::zero()) {
                let pair = [b, h, i, j];
                let d_score = head_scale * weights[j] * (d_weights[j] - mean);
                gradients.bias[self.pair(pair)] = d_score;
                let scaled = d_score * self.cap_slope(self.scaled(pair)) * self.scale;
                for f in 0..head_dim {
                    let q = self.query_at(head_dim, [b, i, h, f]);
                    let k = self.key_at(head_dim, [b, j, h, f]);
                    add(&mut gradients.query[q], scaled * self.key[k]);
                    add(&mut gradients.key[k], scaled * self.query[q]);
                }
            }
        }
        gradients
    }
}

fn add<T: Float>(total: &mut T, term: T) {
    *total = *total + term;
}
