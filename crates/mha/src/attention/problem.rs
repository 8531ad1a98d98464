//! One attention call whose parts have been checked: what every path computes.

use burn::tensor::{Bool, Int, Tensor, backend::Backend};

use super::options::WantedWeights;
use super::path::{PathTaken, choose};
use super::sink::SinkInput;
use super::sizes::Sizes;
use super::{AttentionOptions, Masking, check};
use crate::Error;
use crate::mask::Frame;

/// A checked call: shapes, element types and devices agree.
#[derive(Debug, Clone)]
pub(crate) struct Problem<B: Backend> {
    /// `[batch, seq_q, n_heads, head_dim]`
    pub(crate) query: Tensor<B, 4>,
    /// `[batch, seq_k + n_memory, n_kv_heads, head_dim]`
    pub(crate) key: Tensor<B, 4>,
    /// `[batch, seq_k + n_memory, n_kv_heads, value_dim]`
    pub(crate) value: Tensor<B, 4>,
    /// Of the call: without the memory.
    pub(crate) sizes: Sizes,
    /// Keys behind the others that every query sees, without bias and place.
    pub(crate) n_memory: usize,
    pub(crate) frame: Frame,
    pub(crate) options: AttentionOptions<B>,
    pub(crate) path: PathTaken,
}

impl<B: Backend> Problem<B> {
    pub(crate) fn new(
        query: Tensor<B, 4>,
        key: Tensor<B, 4>,
        value: Tensor<B, 4>,
        options: &AttentionOptions<B>,
    ) -> Result<Self, Error> {
        let sizes = check::sizes(&query, &key, &value)?;
        options.check(&sizes, "query", &query)?;
        let path =
            choose([&query, &key, &value].map(Tensor::dtype), options, &sizes, &query.device())?;
        let (frame, options) = (options.frame(&sizes), options.clone());
        let mut problem = Self { query, key, value, sizes, n_memory: 0, frame, options, path };
        if let Some([key, value]) = problem.options.memory.take() {
            problem.remember(key, value);
        }
        let wants_weights = problem.options.weights != WantedWeights::None;
        if wants_weights && matches!(problem.options.sink, SinkInput::ZeroKey) {
            // A key like any other, so that its weight is a column like any other.
            let &Sizes { n_kv_heads, head_dim, value_dim, .. } = &sizes;
            let like = (&problem.query.device(), problem.query.dtype());
            let zeros = |width| Tensor::zeros([1, n_kv_heads, width], like);
            problem.remember(zeros(head_dim), zeros(value_dim));
            problem.options.sink = SinkInput::None;
        }
        Ok(problem)
    }

    /// Adds keys and values, `[n, n_kv_heads, features]`, that every entry has.
    fn remember(&mut self, key: Tensor<B, 3>, value: Tensor<B, 3>) {
        let [n, ..] = key.dims();
        let append = |to: &Tensor<B, 4>, memory: Tensor<B, 3>| {
            let [batch, seq, heads, width] = to.dims();
            let memory = memory.unsqueeze_dim::<4>(0).expand([batch, n, heads, width]);
            if seq == 0 { memory } else { Tensor::cat(vec![to.clone(), memory], 1) }
        };
        if n > 0 && self.sizes.batch > 0 {
            self.key = append(&self.key, key);
            self.value = append(&self.value, value);
        }
        self.n_memory += n;
    }

    /// Keys in all, the memory's too.
    pub(crate) fn n_keys(&self) -> usize {
        self.sizes.seq_k + self.n_memory
    }

    /// Whether there is no pair of query and key.
    pub(crate) fn is_empty(&self) -> bool {
        self.sizes.batch == 0 || self.frame.n_rows() == 0 || self.n_keys() == 0
    }

    /// The pairs that a mask hides, `[batch or 1, n_heads or 1, rows, n_keys]`, if there can be any.
    pub(crate) fn hidden_pairs(&self) -> Option<Tensor<B, 4, Bool>> {
        let hidden = self.options.mask.hidden_pairs(&self.frame, &self.query.device())?;
        Some(self.and_memory(hidden))
    }

    /// The keys that no query of their entry and group of heads sees, where these pairs are hidden:
    /// `[batch or 1, n_kv_heads or 1, n_keys, 1]`; nothing if a hidden pair is but a score
    /// overwritten.
    pub(crate) fn unseen_keys(&self, hidden: &Tensor<B, 4, Bool>) -> Option<Tensor<B, 4, Bool>> {
        if self.options.masking != Masking::Exclude {
            return None;
        }
        let mask = &self.options.mask;
        let unseen = if mask.is_by_keys() {
            // Known from numbers, most often that there is none.
            let keys = mask.hidden_keys(&self.frame, &self.query.device())?;
            let [batch, seq_k] = keys.dims();
            self.and_memory(keys.reshape([batch, 1, 1, seq_k]))
        } else {
            let [batch, n_heads, rows, n_keys] = hidden.dims();
            let n_kv_heads = if n_heads == 1 { 1 } else { self.sizes.n_kv_heads };
            let by_group = [batch, n_kv_heads, n_heads / n_kv_heads * rows, n_keys];
            hidden.clone().reshape(by_group).all_dim(2)
        };
        Some(unseen.swap_dims(2, 3))
    }

    /// What is hidden, with the memory's keys, which are not: `[.., n_keys]`.
    fn and_memory(&self, hidden: Tensor<B, 4, Bool>) -> Tensor<B, 4, Bool> {
        if self.n_memory == 0 {
            return hidden;
        }
        let [batch, n_heads, rows, _] = hidden.dims();
        let dims = [batch, n_heads, rows, self.n_memory];
        let seen = Tensor::<B, 4, Int>::zeros(dims, &hidden.device());
        Tensor::cat(vec![hidden, seen.bool()], 3)
    }

    /// A bias over the call's keys, with zeros for the memory's: `[.., n_keys or 1]`.
    pub(crate) fn over_all_keys(&self, bias: Tensor<B, 4>) -> Tensor<B, 4> {
        if self.n_memory == 0 {
            return bias;
        }
        let [batch, n_heads, rows, _] = bias.dims();
        let zeros =
            Tensor::zeros([batch, n_heads, rows, self.n_memory], (&bias.device(), bias.dtype()));
        if self.sizes.seq_k == 0 {
            return zeros;
        }
        let bias = bias.expand([batch, n_heads, rows, self.sizes.seq_k]);
        Tensor::cat(vec![bias, zeros], 3)
    }

    /// The same call for some heads and some queries only.
    ///
    /// # Errors
    ///
    /// When a head or a row is not there.
    pub(crate) fn pick(mut self, heads: &[usize], rows: &[usize]) -> Result<Self, Error> {
        let Sizes { n_heads, n_kv_heads, seq_q, .. } = self.sizes;
        check::indices("heads", heads, n_heads, "n_heads")?;
        check::indices("rows", rows, seq_q, "seq_q")?;
        let device = self.query.device();
        let index = |of: &[usize]| {
            let of: Vec<i32> = of.iter().map(|&x| x as i32).collect();
            Tensor::<B, 1, Int>::from_ints(of.as_slice(), &device)
        };
        let group = n_heads / n_kv_heads;
        let kv_heads: Vec<usize> = heads.iter().map(|head| head / group).collect();
        if !heads.is_empty() && !rows.is_empty() {
            self.query = self.query.select(1, index(rows)).select(2, index(heads));
            self.key = self.key.select(2, index(&kv_heads));
            self.value = self.value.select(2, index(&kv_heads));
            let axis = |bias: Tensor<B, 4>, axis: usize, of: &[usize]| {
                if bias.dims()[axis] == 1 { bias } else { bias.select(axis, index(of)) }
            };
            let options = &mut self.options;
            options.bias = options.bias.take().map(|bias| axis(axis(bias, 1, heads), 2, rows));
            options.mask = std::mem::take(&mut options.mask).pick_heads(heads);
            options.t5 =
                options.t5.take().map(|(buckets, table)| (buckets, table.select(1, index(heads))));
            if let Some(slopes) = &mut options.alibi {
                *slopes = heads.iter().map(|&head| slopes[head]).collect();
            }
            if let SinkInput::Learned(logits) = &mut options.sink {
                *logits = logits.clone().select(0, index(heads));
            }
        }
        (self.sizes.n_heads, self.sizes.n_kv_heads) = (heads.len(), heads.len());
        self.frame.rows = Some(rows.to_vec());
        Ok(self)
    }
}
