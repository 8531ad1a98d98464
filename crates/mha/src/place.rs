//! Between split and attend: norms, positions, and the keys and values of a cache.

use std::cell::OnceCell;

use burn::tensor::{Tensor, backend::Backend};

use crate::call::Call;
use crate::norm::HeadNorm;
use crate::position::RotaryTable;
use crate::{Error, KvCache, MhaInput, MultiHeadAttention, Position, Rotary};

impl<B: Backend> MultiHeadAttention<B> {
    /// Query, key and value as they attend: normalized, rotated, and behind those of the cache.
    pub(crate) fn place(
        &self,
        query: Tensor<B, 4>,
        key: Tensor<B, 4>,
        value: Tensor<B, 4>,
        call: &Call<B>,
        cache: Option<&mut KvCache<B>>,
    ) -> [Tensor<B, 4>; 3] {
        let rotation = self.rotation(call);
        let query = normed(&self.query_norm, query);
        let query = match &rotation {
            Some(rotation) => rotation.turn(query, &rotation.query),
            None => query,
        };
        let key = self.key_to_keep(key, &rotation);
        let [key, value] = match (cache, &call.plan) {
            (Some(cache), Some(plan)) => cache.extend(plan, key, value),
            _ => [key, value],
        };
        let key = match &rotation {
            Some(rotation) if rotation.is_late() => rotation.turn(key, &rotation.all_keys),
            _ => key,
        };
        [query, key, value]
    }

    /// A key as a cache keeps it: rotated once, unless later tokens change its angle.
    fn key_to_keep(&self, key: Tensor<B, 4>, rotation: &Option<Rotation<'_, B>>) -> Tensor<B, 4> {
        let key = normed(&self.key_norm, key);
        match rotation {
            Some(rotation) if !rotation.is_late() => rotation.turn(key, &rotation.new_key),
            _ => key,
        }
    }

    /// What the call rotates by, if the module rotates.
    fn rotation(&self, call: &Call<B>) -> Option<Rotation<'_, B>> {
        match &self.settings.position {
            Position::Rotary(rotary) => Some(Rotation::new(rotary, call)),
            _ => None,
        }
    }

    /// A memory's keys and values, projected once, for cross-attention with
    /// [`MhaInput::query`](crate::MhaInput::query).
    ///
    /// # Shapes
    ///
    /// - key: `[batch, seq_k, d_key]`; value: `[batch, seq_k, d_value]`
    ///
    /// # Errors
    ///
    /// When a shape, an element type or a device does not fit.
    ///
    /// # Example
    ///
    /// ```
    /// use burn::backend::NdArray;
    /// use burn::tensor::{Distribution, Tensor};
    /// use mha::{MhaInput, MultiHeadAttentionConfig};
    ///
    /// let device = Default::default();
    /// let attention = MultiHeadAttentionConfig::new(8, 2).init::<NdArray>(&device);
    /// let memory = Tensor::random([2, 7, 8], Distribution::Default, &device);
    /// let mut cache = attention.cache_memory(memory.clone(), memory).unwrap();
    /// let query = Tensor::random([2, 1, 8], Distribution::Default, &device);
    /// let out = attention.forward_cached(MhaInput::query(query), &mut cache);
    /// assert_eq!(out.context.dims(), [2, 1, 8]);
    /// ```
    pub fn cache_memory(
        &self,
        key: Tensor<B, 3>,
        value: Tensor<B, 3>,
    ) -> Result<KvCache<B>, Error> {
        let [batch, ..] = key.dims();
        let like = (&key.device(), key.dtype());
        let query = Tensor::zeros([batch, 0, self.d_model()], like);
        let (call, [query, key, value]) = self.check(MhaInput::new(query, key, value), None)?;
        let [query, key, value] = self.project_on(call.options.path, query, key, value);
        let [_, key, value] = self.split_heads(query, key, value);
        let key = self.key_to_keep(key, &self.rotation(&call));
        Ok(KvCache::memory(key, value))
    }
}

fn normed<B: Backend>(norm: &Option<HeadNorm<B>>, heads: Tensor<B, 4>) -> Tensor<B, 4> {
    match norm {
        Some(norm) => norm.forward(heads),
        None => heads,
    }
}

/// The positions that a call rotates by: one list, or one per entry.
struct Rotation<'a, B: Backend> {
    rotary: &'a Rotary,
    query: Vec<Vec<i64>>,
    new_key: Vec<Vec<i64>>,
    /// Of all keys, those of a cache too; empty unless they are rotated late.
    all_keys: Vec<Vec<i64>>,
    /// Tokens of the sequence so far: one number, or one per entry.
    lengths: Vec<usize>,
    /// The table of the queries' positions, most often the keys' too.
    query_table: OnceCell<RotaryTable<B>>,
}

impl<'a, B: Backend> Rotation<'a, B> {
    fn new(rotary: &'a Rotary, call: &Call<B>) -> Self {
        let frame = call.options.frame(&call.sizes);
        let plan = call.plan.as_ref();
        let ragged = plan.filter(|plan| plan.ragged);
        let uneven = frame.offset.per_entry() || ragged.is_some();
        let entries = if uneven { frame.batch } else { 1 };
        let each = |list: &dyn Fn(usize) -> Vec<i64>| (0..entries).map(list).collect();

        let query = match &call.query_positions {
            Some(positions) => positions.lists(frame.seq_q),
            None => each(&|b| (0..frame.seq_q).map(|i| frame.query_position(b, i)).collect()),
        };
        let first = |b| plan.map_or(0, |plan| plan.first_new(b));
        let new_key = match &call.key_positions {
            Some(positions) => positions.lists(call.new_keys),
            None => each(&|b| (first(b)..first(b) + call.new_keys as i64).collect()),
        };
        let (all_keys, lengths, query_table) = (Vec::new(), vec![0], OnceCell::new());
        let mut rotation = Self { rotary, query, new_key, all_keys, lengths, query_table };
        if rotation.is_late() {
            rotation.all_keys = match plan {
                Some(_) => {
                    each(&|_| (0..frame.seq_k).map(|j| frame.key_position(j) as i64).collect())
                }
                None => rotation.new_key.clone(),
            };
            rotation.lengths = match ragged {
                // An entry does not depend on how long the others are.
                Some(plan) => (0..frame.batch).map(|b| plan.length(b)).collect(),
                None => vec![rotation.longest()],
            };
        }
        rotation
    }

    fn is_late(&self) -> bool {
        self.rotary.depends_on_length()
    }

    /// The number of positions up to the last, from 0 on.
    fn longest(&self) -> usize {
        let last = self.query.iter().chain(&self.all_keys).flatten().max();
        last.map_or(0, |&last| last.max(-1).saturating_add(1) as usize)
    }

    fn turn(&self, heads: Tensor<B, 4>, positions: &[Vec<i64>]) -> Tensor<B, 4> {
        let layout = self.rotary.layout;
        if positions == self.query {
            return self
                .query_table
                .get_or_init(|| self.table(&heads, positions))
                .rotate(layout, heads);
        }
        self.table(&heads, positions).rotate(layout, heads)
    }

    fn table(&self, heads: &Tensor<B, 4>, positions: &[Vec<i64>]) -> RotaryTable<B> {
        let [.., head_dim] = heads.dims();
        self.rotary.table(head_dim, positions, &self.lengths, heads.dtype(), &heads.device())
    }
}
