//! Draws of self-attention that comes in pieces, through a cache.

use std::ops::Range;

use burn::tensor::backend::Backend;
use mha::oracle::Sizes;
use mha::{KvCache, Mask, MhaInput, Offset, Rule};
use proptest::prelude::*;

use super::{MAX_SEQ, case, maybe, sizes};
use crate::{Case, bools, tensor};

/// Causal self-attention, and how it is cut.
#[derive(Debug, Clone)]
pub struct Pieces {
    /// The whole; its tokens are those of the query.
    pub case: Case,
    /// The tokens of each piece, some of none; all together `seq_q`.
    pub lengths: Vec<usize>,
    /// What the pieces go through.
    pub cache: CacheKind,
}

/// Which cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKind {
    /// [`KvCache::growing`]
    Growing,
    /// [`KvCache::preallocated`], with room for so many tokens more than there are.
    Preallocated(usize),
    /// [`KvCache::rolling_with_sinks`]
    Rolling {
        /// The keys that it keeps.
        window: usize,
        /// The first keys that it keeps too.
        sinks: usize,
    },
}

/// Any case of causal self-attention, in any pieces, through any cache.
pub fn pieces() -> impl Strategy<Value = Pieces> {
    // A cache counts the tokens of its entries: without one it knows of none.
    let square =
        sizes().prop_map(|sizes| Sizes { batch: sizes.batch.max(1), seq_q: sizes.seq_k, ..sizes });
    let cache = prop_oneof![
        Just(CacheKind::Growing),
        (0..=3usize).prop_map(CacheKind::Preallocated),
        (1..=MAX_SEQ, 0..=3usize).prop_map(|(window, sinks)| CacheKind::Rolling { window, sinks }),
    ];
    let features = maybe(1..=12usize);
    (case(square), prop::collection::vec(0..=4usize, MAX_SEQ), cache, features).prop_map(
        |(mut case, lengths, cache, features)| {
            // One kind of token; a dropped weight depends on the call that a query comes in.
            case.widths = features.map(|d_model| [d_model, d_model, d_model, d_model + 1]);
            case.dropout = None;
            case.rules.push(Rule::Causal { offset: Offset::BottomRight });
            if let CacheKind::Rolling { window, sinks } = cache {
                let (left, offset) = (Some(window - 1), Offset::BottomRight);
                case.rules.push(Rule::Window { left, right: None, sinks, offset });
            }
            let mut rest = case.sizes.seq_q;
            let mut lengths: Vec<usize> = lengths
                .into_iter()
                .map(|length| {
                    let length = length.min(rest);
                    rest -= length;
                    length
                })
                .collect();
            lengths.push(rest);
            Pieces { case, lengths, cache }
        },
    )
}

impl Pieces {
    /// An empty cache.
    pub fn cache<B: Backend>(&self) -> KvCache<B> {
        match self.cache {
            CacheKind::Growing => KvCache::growing(),
            CacheKind::Preallocated(more) => KvCache::preallocated(self.case.sizes.seq_q + more),
            CacheKind::Rolling { window, sinks } => KvCache::rolling_with_sinks(window, sinks),
        }
    }

    /// The tokens of each piece.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let range = |&length: &usize| {
            end += length;
            end - length..end
        };
        self.lengths.iter().map(range).collect()
    }

    /// The tokens that a call attends over which brings these: what the cache kept, and they.
    pub fn keys(&self, new: &Range<usize>) -> Vec<usize> {
        match self.cache {
            CacheKind::Rolling { window, sinks } if new.start > window + sinks => {
                (0..sinks).chain(new.start - window..new.end).collect()
            }
            _ => (0..new.end).collect(),
        }
    }
}

impl Case {
    /// The part of a call of self-attention that brings the tokens `new` and attends over those at
    /// `keys`: what its masks, bias and head scale say of these.
    pub fn piece<B: Backend>(
        &self,
        tokens: &[f32],
        new: &Range<usize>,
        keys: &[usize],
    ) -> MhaInput<B> {
        let Sizes { batch, seq_q, .. } = self.sizes;
        let [d_model, ..] = self.module_widths();
        let entry = |b: usize| {
            let at = |token| (b * seq_q + token) * d_model;
            &tokens[at(new.start)..at(new.end)]
        };
        let part: Vec<f32> = (0..batch).flat_map(entry).copied().collect();
        let mut input = MhaInput::self_attn(tensor::<B, 3, _>(&part, [batch, new.len(), d_model]));

        if let Some(pad) = self.pad {
            let [batch, seq_k] = pad.dims;
            let hidden = self.hidden(pad);
            let entry = |b: usize| keys.iter().map(move |key| b * seq_k + key);
            let hidden: Vec<bool> = (0..batch).flat_map(entry).map(|at| hidden[at]).collect();
            input = input.mask_pad(bools(&hidden, [batch, keys.len()]));
        }
        if let Some(attn) = self.attn {
            let [batch, seq_q, seq_k] = attn.dims;
            let (hidden, [batch, _, rows, columns]) =
                pick(&self.hidden(attn), [batch, 1, seq_q, seq_k], new, keys);
            input = input.mask_attn(bools(&hidden, [batch, rows, columns]));
        }
        if let Some(heads) = self.heads {
            let (hidden, dims) = pick(&self.hidden(heads), heads.dims, new, keys);
            input = input.mask(Mask::block(bools::<B, 4>(&hidden, dims)));
        }
        for rule in &self.rules {
            input = input.mask(rule_of(rule, new, keys).into());
        }
        if let Some(dims) = self.bias {
            let (bias, dims) = pick(&self.bias_values(dims), dims, new, keys);
            input = input.bias(tensor(&bias, dims));
        }
        match self.head_scale_tensor() {
            Some(scale) => input.head_scale(scale),
            None => input,
        }
    }
}

/// What pairs hold, `[batch, n_heads, seq_q, seq_k]`, of these rows and columns, and its shape; axes
/// of 1 stay.
fn pick<T: Copy>(
    pairs: &[T],
    [batch, n_heads, seq_q, seq_k]: [usize; 4],
    rows: &Range<usize>,
    columns: &[usize],
) -> (Vec<T>, [usize; 4]) {
    let rows: Vec<usize> = if seq_q == 1 { vec![0] } else { rows.clone().collect() };
    let columns = if seq_k == 1 { &[0] } else { columns };
    let place = |matrix: usize, i: usize, j: usize| pairs[(matrix * seq_q + i) * seq_k + j];
    let row = |(matrix, &i)| columns.iter().map(move |&j| place(matrix, i, j));
    let all_rows = (0..batch * n_heads).flat_map(|matrix| rows.iter().map(move |i| (matrix, i)));
    (all_rows.flat_map(row).collect(), [batch, n_heads, rows.len(), columns.len()])
}

/// A rule of the whole, as it reads in a part of it.
fn rule_of(rule: &Rule, new: &Range<usize>, keys: &[usize]) -> Rule {
    let mut rule = rule.clone();
    // The part's first query is query `new.start` of the whole.
    let shift = |offset: &mut Offset| match offset {
        Offset::BottomRight => {}
        Offset::At(offset) => *offset += new.start as i64,
        Offset::PerEntry(offsets) => offsets.iter_mut().for_each(|x| *x += new.start as i64),
    };
    // Positions, of which there are no more so far, forgotten keys among them.
    let count = |count: &mut usize| *count = new.end.min(*count);
    match &mut rule {
        Rule::Causal { offset }
        | Rule::Window { offset, .. }
        | Rule::Chunked { offset, .. }
        | Rule::Prefix { offset, .. } => shift(offset),
        Rule::Lengths { lengths: counts } | Rule::LeftPadding { padding: counts } => {
            counts.iter_mut().for_each(count);
        }
        Rule::Segments { query, key } => {
            query.iter_mut().for_each(|ids| *ids = ids[new.clone()].to_vec());
            key.iter_mut().for_each(|ids| *ids = keys.iter().map(|&key| ids[key]).collect());
        }
        other => panic!("the tests do not know {other:?}"),
    }
    rule
}
