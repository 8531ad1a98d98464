//! The numbers of a call that every kernel is told.

use cubecl::prelude::*;

/// Sizes, options, and where in the side buffer what lies. Word 0 of that buffer is 1.
///
/// Rows are the queries of a key head's query heads: row r is query `first + r % queries` of the
/// group's head `r / queries`.
#[derive(Debug, Clone, Copy, Default, CubeType, CubeLaunch)]
pub(crate) struct Numbers {
    pub(crate) n_heads: usize,
    /// Query heads for each key head.
    pub(crate) group: usize,
    pub(crate) n_kv_heads: usize,
    pub(crate) seq_q: usize,
    /// The first query of this launch, and how many there are.
    pub(crate) first: usize,
    pub(crate) queries: usize,
    pub(crate) n_keys: usize,
    /// Keys without the memory.
    pub(crate) seq_k: usize,
    /// What the products are multiplied by.
    pub(crate) scale: f32,
    /// 1 if scores are capped.
    pub(crate) caps: usize,
    pub(crate) cap: f32,
    /// -∞, which is no literal in WGSL.
    pub(crate) hidden: f32,
    /// Words below it are dropped.
    pub(crate) threshold: u32,
    /// What the other weights are multiplied by.
    pub(crate) kept: f32,

    /// Where each block's spans of tiles start, entry by entry.
    pub(crate) spans: usize,
    /// Blocks of an entry, or 0 if all entries are alike.
    pub(crate) spans_per_entry: usize,
    /// 1, or 0 if all blocks are alike.
    pub(crate) spans_per_block: usize,
    /// Start and end of each span, and whether its pairs have to be looked at one by one.
    pub(crate) span_list: usize,

    /// 1 if rules hide something.
    pub(crate) ruled: usize,
    /// Where each query's runs of visible keys start, entry by entry.
    pub(crate) runs: usize,
    pub(crate) runs_per_entry: usize,
    pub(crate) run_list: usize,
    /// Pairs of lists of ids; for each where they lie and how many there are for an entry.
    pub(crate) n_segments: usize,
    pub(crate) segments: usize,
    /// Masks in bits; for each where it lies and its strides in bits.
    pub(crate) n_masks: usize,
    pub(crate) masks: usize,
    /// Which keys nobody sees: a word for each key of each key head, 0 if so.
    pub(crate) seen: usize,
    /// 1 if there are such words, else 0, and word 0 is read for each.
    pub(crate) checked: usize,

    /// 1 if there is a bias, and its strides.
    pub(crate) biased: usize,
    pub(crate) bias_batch: usize,
    pub(crate) bias_head: usize,
    pub(crate) bias_query: usize,
    pub(crate) bias_key: usize,
    /// 1 if heads have slopes.
    pub(crate) sloped: usize,
    pub(crate) slopes: usize,
    /// 1 if there is a bias for each distance.
    pub(crate) related: usize,
    pub(crate) relative: usize,
    pub(crate) reach: i32,
    /// The position of query 0 of each entry.
    pub(crate) offsets: usize,
    pub(crate) offsets_per_entry: usize,
    pub(crate) gap_after: usize,
    pub(crate) gap: usize,

    /// 1 if heads have sinks.
    pub(crate) sinks: usize,
    pub(crate) sink: usize,
    /// Two words, with dropout.
    pub(crate) seed: usize,
    /// In a backward pass, for each head and query, `[3, batch, n_heads, seq_q]`: its largest score, the
    /// inverse of its sum, and what the softmax takes from the gradient of each of its weights.
    pub(crate) stats: usize,
}

/// How far apart neighbours are in a tensor of rows, `[batch, seq, heads, features]`, in fours.
#[derive(Debug, Clone, Copy, CubeType, CubeLaunch)]
pub(crate) struct Strides {
    pub(crate) batch: usize,
    pub(crate) seq: usize,
    pub(crate) head: usize,
}

#[cube]
impl Strides {
    pub(crate) fn at(&self, batch: usize, seq: usize, head: usize) -> usize {
        batch * self.batch + seq * self.seq + head * self.head
    }
}

impl Numbers {
    /// For one launch.
    pub(crate) fn launch<R: Runtime>(&self) -> NumbersLaunch<R> {
        NumbersLaunch::new(
            self.n_heads,
            self.group,
            self.n_kv_heads,
            self.seq_q,
            self.first,
            self.queries,
            self.n_keys,
            self.seq_k,
            self.scale,
            self.caps,
            self.cap,
            self.hidden,
            self.threshold,
            self.kept,
            self.spans,
            self.spans_per_entry,
            self.spans_per_block,
            self.span_list,
            self.ruled,
            self.runs,
            self.runs_per_entry,
            self.run_list,
            self.n_segments,
            self.segments,
            self.n_masks,
            self.masks,
            self.seen,
            self.checked,
            self.biased,
            self.bias_batch,
            self.bias_head,
            self.bias_query,
            self.bias_key,
            self.sloped,
            self.slopes,
            self.related,
            self.relative,
            self.reach,
            self.offsets,
            self.offsets_per_entry,
            self.gap_after,
            self.gap,
            self.sinks,
            self.sink,
            self.seed,
            self.stats,
        )
    }
}

impl Strides {
    /// For one launch.
    pub(crate) fn launch<R: Runtime>(&self) -> StridesLaunch<R> {
        StridesLaunch::new(self.batch, self.seq, self.head)
    }
}
