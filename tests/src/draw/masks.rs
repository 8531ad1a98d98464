//! Draws of masks: dense ones of each shape, rules of each kind.

use mha::oracle::Sizes;
use mha::{Offset, Rule};
use proptest::prelude::*;

use super::{MAX_BATCH, MAX_SEQ, maybe};

/// The masks of a case, before its sizes are known.
#[derive(Debug, Clone)]
pub(super) struct Masks {
    /// How many of a hundred keys are padding.
    pub(super) pad: Option<u64>,
    /// How many of a hundred pairs are hidden, and which axes are broadcast.
    pub(super) attn: Option<(u64, [bool; 3])>,
    /// As `attn`, with the heads.
    pub(super) heads: Option<(u64, [bool; 4])>,
    pub(super) rules: Vec<DrawnRule>,
}

pub(super) fn masks() -> impl Strategy<Value = Masks> {
    let percent = || prop_oneof![4 => 0..=90u64, 1 => Just(100)];
    let (attn, heads) = (any::<[bool; 3]>(), any::<[bool; 4]>());
    let rules = prop::collection::vec(rule(), 0..=2);
    (maybe(percent()), maybe((percent(), attn)), maybe((percent(), heads)), rules)
        .prop_map(|(pad, attn, heads, rules)| Masks { pad, attn, heads, rules })
}

/// A rule whose lists are as long as any batch and sequence.
#[derive(Debug, Clone)]
pub(super) struct DrawnRule {
    rule: Rule,
    /// Whether its lists keep one item for all entries.
    one_for_all: bool,
}

fn rule() -> impl Strategy<Value = DrawnRule> {
    let keys = || prop::collection::vec(0..=MAX_SEQ, MAX_BATCH);
    let ids = || {
        let entry = prop::collection::vec(0..3u32, MAX_SEQ);
        prop::collection::vec(entry, MAX_BATCH)
    };
    let side = || prop::option::of(0..MAX_SEQ);
    let rules = prop_oneof![
        offset().prop_map(|offset| Rule::Causal { offset }),
        (side(), side(), 0..=3usize, offset())
            .prop_map(|(left, right, sinks, offset)| Rule::Window { left, right, sinks, offset }),
        keys().prop_map(|lengths| Rule::Lengths { lengths }),
        keys().prop_map(|padding| Rule::LeftPadding { padding }),
        (ids(), ids()).prop_map(|(query, key)| Rule::Segments { query, key }),
        (keys(), offset()).prop_map(|(lengths, offset)| Rule::Prefix { lengths, offset }),
        (1..=5usize, offset()).prop_map(|(size, offset)| Rule::Chunked { size, offset }),
    ];
    (rules, any::<bool>()).prop_map(|(rule, one_for_all)| DrawnRule { rule, one_for_all })
}

fn offset() -> impl Strategy<Value = Offset> {
    let at = || -(MAX_SEQ as i64)..=MAX_SEQ as i64;
    prop_oneof![
        2 => Just(Offset::BottomRight),
        1 => at().prop_map(Offset::At),
        1 => prop::collection::vec(at(), MAX_BATCH).prop_map(Offset::PerEntry),
    ]
}

impl DrawnRule {
    /// The rule as it fits a call of these sizes.
    pub(super) fn fit(mut self, sizes: &Sizes) -> Rule {
        let &Sizes { seq_q, seq_k, .. } = sizes;
        let entries = if self.one_for_all { 1 } else { sizes.batch };
        let cut = |offset: &mut Offset| {
            if let Offset::PerEntry(offsets) = offset {
                offsets.truncate(entries);
            }
        };
        let cut_keys = |keys: &mut Vec<usize>| {
            keys.truncate(entries);
            keys.iter_mut().for_each(|count| *count = (*count).min(seq_k));
        };
        let cut_ids = |ids: &mut Vec<Vec<u32>>, seq: usize| {
            ids.truncate(entries);
            ids.iter_mut().for_each(|ids| ids.truncate(seq));
        };
        match &mut self.rule {
            Rule::Causal { offset }
            | Rule::Window { offset, .. }
            | Rule::Chunked { offset, .. } => cut(offset),
            Rule::Prefix { lengths, offset } => {
                cut(offset);
                lengths.truncate(entries);
            }
            Rule::Lengths { lengths: keys } | Rule::LeftPadding { padding: keys } => cut_keys(keys),
            Rule::Segments { query, key } => {
                cut_ids(query, seq_q);
                cut_ids(key, seq_k);
            }
            other => panic!("the tests do not know {other:?}"),
        }
        self.rule
    }
}
