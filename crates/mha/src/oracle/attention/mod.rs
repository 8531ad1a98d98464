//! The attention problem: what it is given, and the scores that both directions start from.

mod backward;
mod forward;
mod softmax;
#[cfg(test)]
mod tests;

pub use backward::Gradients;
pub use forward::Output;
use num_traits::Float;
use softmax::{Softmax, softmax};

use super::{Sizes, number, places, sum};

/// One attention problem; tensors are row-major, in the layout that each field names.
///
/// # Example
///
/// ```
/// use mha::oracle::{Attention, Sizes};
///
/// let sizes = Sizes { seq_k: 2, ..Sizes::ONE };
/// let mut attention = Attention::<f64>::new(sizes, vec![0.0], vec![5.0, 7.0], vec![1.0, 3.0]);
/// assert_eq!(attention.forward().context, [2.0]); // equal scores: the average
///
/// attention.hide(|_batch, _head, _query, key| key == 1);
/// assert_eq!(attention.forward().context, [1.0]);
///
/// attention.quiet();
/// assert_eq!(attention.forward().context, [0.5]); // the sink takes as much as the key left
/// ```
#[derive(Debug, Clone)]
pub struct Attention<T> {
    /// The sizes of all that follows.
    pub sizes: Sizes,
    /// `[batch, seq_q, n_heads, head_dim]`
    pub query: Vec<T>,
    /// `[batch, seq_k, n_kv_heads, head_dim]`
    pub key: Vec<T>,
    /// `[batch, seq_k, n_kv_heads, value_dim]`
    pub value: Vec<T>,
    /// What the products of query and key are multiplied by; 1/√head_dim unless set.
    pub scale: T,
    /// If set, scaled scores become c tanh(score / c), c > 0.
    pub softcap: Option<T>,
    /// Whether a pair is hidden: `[batch, n_heads, seq_q, seq_k]`
    pub hidden: Vec<bool>,
    /// Added to the scaled and capped scores: `[batch, n_heads, seq_q, seq_k]`
    pub bias: Vec<T>,
    /// A logit whose exponential joins the denominator of every softmax of its head: `[n_heads]`.
    ///
    /// It is not scaled, capped, biased, hidden or dropped; −∞ is as good as none. Xiao et al.
    /// 2023, section 3.3: <https://arxiv.org/abs/2309.17453>; learned, as here, in gpt-oss:
    /// <https://arxiv.org/abs/2508.10925>.
    pub sink: Option<Vec<T>>,
    /// Whether dropout drops the weight: `[batch, n_heads, seq_q, seq_k]`
    pub dropped: Vec<bool>,
    /// The probability of dropout, in `[0, 1)`.
    pub dropout: T,
    /// What the context of each head is multiplied by: `[n_heads]`. Shleifer et al. 2021:
    /// <https://arxiv.org/abs/2110.09456>.
    pub head_scale: Option<Vec<T>>,
}

impl<T: Float> Attention<T> {
    /// A problem without masks, bias, sinks, dropout and scale of the heads.
    ///
    /// # Panics
    ///
    /// When a length is not what `sizes` says.
    pub fn new(sizes: Sizes, query: Vec<T>, key: Vec<T>, value: Vec<T>) -> Self {
        let Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, head_dim, value_dim } = sizes;
        assert!(n_heads.is_multiple_of(n_kv_heads), "{n_kv_heads} key heads for {n_heads}");
        assert_eq!(query.len(), batch * seq_q * n_heads * head_dim, "length of query");
        assert_eq!(key.len(), batch * seq_k * n_kv_heads * head_dim, "length of key");
        assert_eq!(value.len(), batch * seq_k * n_kv_heads * value_dim, "length of value");
        let pairs = batch * n_heads * seq_q * seq_k;
        Self {
            sizes,
            query,
            key,
            value,
            scale: number(1.0 / (head_dim as f64).sqrt()),
            softcap: None,
            hidden: vec![false; pairs],
            bias: vec![T::zero(); pairs],
            sink: None,
            dropped: vec![false; pairs],
            dropout: T::zero(),
            head_scale: None,
        }
    }

    /// Hides, besides what is hidden already, every pair (batch, head, query, key) for which
    /// `rule` is true.
    pub fn hide(&mut self, rule: impl Fn(usize, usize, usize, usize) -> bool) {
        let all = self.pairs();
        for (hidden, [b, h, i, j]) in self.hidden.iter_mut().zip(all) {
            *hidden |= rule(b, h, i, j);
        }
    }

    /// Gives every head a sink of 0: 1 joins each denominator, so that a head can attend to
    /// nothing. Miller 2023: <https://www.evanmiller.org/attention-is-off-by-one.html>.
    pub fn quiet(&mut self) {
        self.sink = Some(vec![T::zero(); self.sizes.n_heads]);
    }

    /// Drops weights as [`MhaInput::dropout_seed`](crate::MhaInput::dropout_seed) does.
    pub fn drop(&mut self, seed: u64, probability: f64) {
        let all = self.pairs();
        let drops = |pair| crate::attention::drops(seed, probability, pair);
        self.dropped = all.into_iter().map(drops).collect();
        self.dropout = number(probability);
    }

    /// The weights of one query's row: exactly 0 where hidden, all 0 where nothing is visible.
    fn softmax(&self, [b, h, i]: [usize; 3]) -> Softmax<T> {
        let score = |j: usize| {
            let pair = [b, h, i, j];
            if self.hidden[self.pair(pair)] {
                return T::neg_infinity();
            }
            self.cap(self.scaled(pair)) + self.bias[self.pair(pair)]
        };
        let scores: Vec<T> = (0..self.sizes.seq_k).map(score).collect();
        softmax(&scores, self.sink.as_ref().map_or(T::neg_infinity(), |sink| sink[h]))
    }

    /// The product of query and key, scaled.
    fn scaled(&self, [b, h, i, j]: [usize; 4]) -> T {
        let width = self.sizes.head_dim;
        let products = (0..width).map(|f| {
            self.query[self.query_at(width, [b, i, h, f])]
                * self.key[self.key_at(width, [b, j, h, f])]
        });
        sum(products) * self.scale
    }

    fn cap(&self, score: T) -> T {
        self.softcap.map_or(score, |c| c * (score / c).tanh())
    }

    fn cap_slope(&self, score: T) -> T {
        self.softcap.map_or(T::one(), |c| T::one() - (score / c).tanh().powi(2))
    }

    /// What dropout multiplies a weight by: 0, or 1 / (1 - probability).
    fn dropout_factor(&self, pair: [usize; 4]) -> T {
        let dropped = self.dropped[self.pair(pair)];
        if dropped { T::zero() } else { T::one() / (T::one() - self.dropout) }
    }

    fn head_scale(&self, h: usize) -> T {
        self.head_scale.as_ref().map_or(T::one(), |scale| scale[h])
    }

    fn pairs(&self) -> Vec<[usize; 4]> {
        let Sizes { batch, n_heads, seq_q, seq_k, .. } = self.sizes;
        places([batch, n_heads, seq_q, seq_k])
    }

    /// Where a pair lies in `[batch, n_heads, seq_q, seq_k]`.
    fn pair(&self, [b, h, i, j]: [usize; 4]) -> usize {
        let Sizes { n_heads, seq_q, seq_k, .. } = self.sizes;
        ((b * n_heads + h) * seq_q + i) * seq_k + j
    }

    /// Where a feature lies in `[batch, seq_q, n_heads, width]`.
    fn query_at(&self, width: usize, [b, i, h, f]: [usize; 4]) -> usize {
        let Sizes { n_heads, seq_q, .. } = self.sizes;
        ((b * seq_q + i) * n_heads + h) * width + f
    }

    /// Where a feature that query head `h` reads lies in `[batch, seq_k, n_kv_heads, width]`.
    fn key_at(&self, width: usize, [b, j, h, f]: [usize; 4]) -> usize {
        let Sizes { n_heads, n_kv_heads, seq_k, .. } = self.sizes;
        ((b * seq_k + j) * n_kv_heads + h / (n_heads / n_kv_heads)) * width + f
    }
}
