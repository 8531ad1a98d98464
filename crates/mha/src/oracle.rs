//! Attention in the plainest loops: the reference that every path is tested against.
//!
//! Run in f64 it is the exact answer. Run in f32 it is the textbook formula in the precision of
//! the paths under test, and its own error says how exact a path can be asked to be.

use num_traits::Float;

pub use crate::attention::Sizes;

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
    /// Whether dropout drops the weight: `[batch, n_heads, seq_q, seq_k]`
    pub dropped: Vec<bool>,
    /// The probability of dropout, in `[0, 1)`.
    pub dropout: T,
    /// Whether a key of score 0 and value 0 joins every softmax.
    pub quiet_softmax: bool,
}

/// What [`Attention::forward`] returns.
///
/// # Example
///
/// ```
/// use mha::oracle::{Attention, Output, Sizes};
///
/// let sizes = Sizes { seq_k: 2, ..Sizes::ONE };
/// let attention = Attention::<f64>::new(sizes, vec![0.0], vec![5.0, 7.0], vec![1.0, 3.0]);
/// let expected = Output { context: vec![2.0], weights: vec![0.5, 0.5] };
/// assert_eq!(attention.forward(), expected);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Output<T> {
    /// `[batch, seq_q, n_heads, value_dim]`
    pub context: Vec<T>,
    /// Before dropout: `[batch, n_heads, seq_q, seq_k]`
    pub weights: Vec<T>,
}

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
}

impl<T: Float> Attention<T> {
    /// A problem without masks, bias and dropout.
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
            dropped: vec![false; pairs],
            dropout: T::zero(),
            quiet_softmax: false,
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

    /// Drops weights as [`MhaInput::dropout_seed`](crate::MhaInput::dropout_seed) does.
    pub fn drop(&mut self, seed: u64, probability: f64) {
        let all = self.pairs();
        let drops = |pair| crate::attention::drops(seed, probability, pair);
        self.dropped = all.into_iter().map(drops).collect();
        self.dropout = number(probability);
    }

    /// softmax(cap(Q Kᵀ scale) + bias) V over the keys that are not hidden.
    pub fn forward(&self) -> Output<T> {
        let Sizes { batch, n_heads, seq_q, seq_k, value_dim, .. } = self.sizes;
        let mut weights = vec![T::zero(); self.hidden.len()];
        let mut context = vec![T::zero(); batch * seq_q * n_heads * value_dim];
        for [b, h, i] in places([batch, n_heads, seq_q]) {
            let row = self.pair(b, h, i, 0)..self.pair(b, h, i, 0) + seq_k;
            weights[row.clone()].copy_from_slice(&self.softmax(b, h, i));
            for j in 0..seq_k {
                let kept = weights[row.start + j] * self.kept(row.start + j);
                if kept == T::zero() {
                    continue; // a hidden value may hold anything, and 0 · NaN is NaN
                }
                for f in 0..value_dim {
                    let at = self.query_at(value_dim, [b, i, h, f]);
                    let value = self.value[self.key_at(value_dim, [b, j, h, f])];
                    context[at] = context[at] + kept * value;
                }
            }
        }
        Output { context, weights }
    }

    /// The gradients of a loss whose gradient with respect to the context is `d_context`.
    ///
    /// With p the weights, m the dropout's factor, g = dO · v m: dV = Σ p m dO, ds = p (g - Σ p g),
    /// dQ = Σ ds cap' scale k, dK = Σ ds cap' scale q.
    ///
    /// # Panics
    ///
    /// When `d_context` has not the context's length.
    pub fn backward(&self, d_context: &[T]) -> Gradients<T> {
        let Sizes { batch, n_heads, seq_q, seq_k, head_dim, value_dim, .. } = self.sizes;
        assert_eq!(d_context.len(), batch * seq_q * n_heads * value_dim, "length of d_context");
        let mut gradients = Gradients {
            query: vec![T::zero(); self.query.len()],
            key: vec![T::zero(); self.key.len()],
            value: vec![T::zero(); self.value.len()],
            bias: vec![T::zero(); self.bias.len()],
        };
        for [b, h, i] in places([batch, n_heads, seq_q]) {
            let weights = self.softmax(b, h, i);
            let mut d_weights = vec![T::zero(); seq_k];
            for j in (0..seq_k).filter(|&j| weights[j] != T::zero()) {
                let factor = self.kept(self.pair(b, h, i, j));
                for f in 0..value_dim {
                    let d_out = d_context[self.query_at(value_dim, [b, i, h, f])];
                    let at = self.key_at(value_dim, [b, j, h, f]);
                    d_weights[j] = d_weights[j] + d_out * self.value[at] * factor;
                    gradients.value[at] = gradients.value[at] + weights[j] * factor * d_out;
                }
            }
            let mean = sum((0..seq_k).map(|j| weights[j] * d_weights[j]));
            for j in (0..seq_k).filter(|&j| weights[j] != T::zero()) {
                let d_score = weights[j] * (d_weights[j] - mean);
                gradients.bias[self.pair(b, h, i, j)] = d_score;
                let scaled = d_score * self.cap_slope(self.scaled([b, h, i, j])) * self.scale;
                for f in 0..head_dim {
                    let q = self.query_at(head_dim, [b, i, h, f]);
                    let k = self.key_at(head_dim, [b, j, h, f]);
                    gradients.query[q] = gradients.query[q] + scaled * self.key[k];
                    gradients.key[k] = gradients.key[k] + scaled * self.query[q];
                }
            }
        }
        gradients
    }

    /// The weights of one query's row: exactly 0 where hidden, all 0 where nothing is visible.
    fn softmax(&self, b: usize, h: usize, i: usize) -> Vec<T> {
        let seq_k = self.sizes.seq_k;
        let score = |j: usize| {
            let pair = self.pair(b, h, i, j);
            if self.hidden[pair] {
                return T::neg_infinity();
            }
            self.cap(self.scaled([b, h, i, j])) + self.bias[pair]
        };
        let scores: Vec<T> = (0..seq_k).map(score).collect();
        let none = if self.quiet_softmax { T::zero() } else { T::neg_infinity() };
        // A NaN must not be passed over, as `max` would.
        let larger = |a: T, b: T| if b > a || b.is_nan() { b } else { a };
        let max = scores.iter().copied().fold(none, larger);
        if max == T::neg_infinity() {
            return vec![T::zero(); seq_k];
        }
        let exps: Vec<T> = scores.iter().map(|&s| (s - max).exp()).collect();
        let quiet = if self.quiet_softmax { (-max).exp() } else { T::zero() };
        let total = sum(exps.iter().copied()) + quiet;
        exps.into_iter().map(|e| e / total).collect()
    }

    /// What dropout multiplies a weight by: 0, or 1 / (1 - probability).
    fn kept(&self, pair: usize) -> T {
        if self.dropped[pair] { T::zero() } else { T::one() / (T::one() - self.dropout) }
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

    fn pairs(&self) -> Vec<[usize; 4]> {
        let Sizes { batch, n_heads, seq_q, seq_k, .. } = self.sizes;
        places([batch, n_heads, seq_q, seq_k])
    }

    /// Where a pair lies in `[batch, n_heads, seq_q, seq_k]`.
    fn pair(&self, b: usize, h: usize, i: usize, j: usize) -> usize {
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

/// A linear layer in plain loops: `input` `[rows, d_input]` times `weight` `[d_input, d_output]`,
/// plus `bias` `[d_output]` if there is one.
///
/// # Panics
///
/// When the lengths do not fit together.
pub fn linear<T: Float>(input: &[T], weight: &[T], bias: Option<&[T]>, d_input: usize) -> Vec<T> {
    let (rows, d_output) = (input.len() / d_input, weight.len() / d_input);
    assert_eq!((rows * d_input, d_input * d_output), (input.len(), weight.len()), "lengths");
    let cell = |[row, o]: [usize; 2]| {
        let products = (0..d_input).map(|f| input[row * d_input + f] * weight[f * d_output + o]);
        sum(products) + bias.map_or(T::zero(), |bias| bias[o])
    };
    places([rows, d_output]).into_iter().map(cell).collect()
}

/// The gradients of [`linear`] with respect to input, weight and bias, given the output's.
///
/// # Panics
///
/// When the lengths do not fit together.
pub fn linear_backward<T: Float>(
    input: &[T],
    weight: &[T],
    d_output: &[T],
    width: usize,
) -> [Vec<T>; 3] {
    let (rows, d_input) = (d_output.len() / width, weight.len() / width);
    assert_eq!((rows * d_input, rows * width), (input.len(), d_output.len()), "lengths");
    let to_input = |[row, f]: [usize; 2]| {
        sum((0..width).map(|o| d_output[row * width + o] * weight[f * width + o]))
    };
    let to_weight = |[f, o]: [usize; 2]| {
        sum((0..rows).map(|row| input[row * d_input + f] * d_output[row * width + o]))
    };
    let to_bias = |o: usize| sum((0..rows).map(|row| d_output[row * width + o]));
    [
        places([rows, d_input]).into_iter().map(to_input).collect(),
        places([d_input, width]).into_iter().map(to_weight).collect(),
        (0..width).map(to_bias).collect(),
    ]
}

/// All index tuples below `dims`, the last axis fastest.
fn places<const D: usize>(dims: [usize; D]) -> Vec<[usize; D]> {
    let count = dims.iter().product();
    let place = |mut rest: usize| {
        let mut place = [0; D];
        for axis in (0..D).rev() {
            place[axis] = rest % dims[axis];
            rest /= dims[axis];
        }
        place
    };
    (0..count).map(place).collect()
}

fn sum<T: Float>(terms: impl Iterator<Item = T>) -> T {
    terms.fold(T::zero(), |total, term| total + term)
}

fn number<T: Float>(x: f64) -> T {
    T::from(x).expect("f32 and f64 hold every number up to rounding")
}
