//! What rules leave visible, and where queries stand, in numbers for kernels.

use std::ops::Range;

use crate::mask::{Frame, Rule, Spans, entries, visible};

/// For each entry that has to be looked at and each query the keys that it sees, as runs.
type Rows = Vec<Vec<Vec<Range<usize>>>>;

/// What a call's rules leave visible.
#[cfg(feature = "cube")]
#[derive(Debug)]
pub(crate) struct Seen {
    /// By runs, if those hide anything.
    pub(super) rows: Option<Rows>,
    /// Whether ids are left to compare, pair by pair: their runs would be too many.
    pub(super) by_id: bool,
}

#[cfg(feature = "cube")]
impl Seen {
    pub(super) fn of(numbers: &super::Numbers) -> Self {
        let (rules, frame) = (&numbers.rules, &numbers.frame);
        let rows = visible_rows(rules.iter(), frame);
        // Documents one after another are a run each.
        let runs: usize = rows.iter().flatten().flatten().map(Vec::len).sum();
        let few = runs <= 4 * frame.seq_q * rows.as_ref().map_or(0, Vec::len);
        if few || segments(rules).next().is_none() {
            return Self { rows, by_id: false };
        }
        Self { rows: visible_rows(without_segments(rules), frame), by_id: true }
    }
}

/// The rules that are not compared id by id.
pub(super) fn without_segments(rules: &[Rule]) -> impl Iterator<Item = &Rule> {
    rules.iter().filter(|rule| !matches!(rule, Rule::Segments { .. }))
}

/// The ids of queries and keys, of each rule that has some.
pub(super) fn segments(rules: &[Rule]) -> impl Iterator<Item = [&[Vec<u32>]; 2]> {
    rules.iter().filter_map(|rule| match rule {
        Rule::Segments { query, key } => Some([query.as_slice(), key.as_slice()]),
        _ => None,
    })
}

/// What all these rules leave visible, if that is not everything.
pub(super) fn visible_rows<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    frame: &Frame,
) -> Option<Rows> {
    let rules: Vec<Rule> = rules.cloned().collect();
    if rules.is_empty() {
        return None;
    }
    let rows: Vec<Vec<Spans>> = (0..entries(&rules, frame))
        .map(|b| {
            let seen = visible(&rules, frame, b, 0..frame.seq_k);
            (0..frame.seq_q).map(seen).collect()
        })
        .collect();
    if rows.iter().flatten().all(|seen| seen.count() == frame.seq_k) {
        return None;
    }
    let runs = |rows: &Vec<Spans>| rows.iter().map(|seen| seen.iter().collect()).collect();
    Some(rows.iter().map(runs).collect())
}

/// The position of query 0 of each entry, or one for all of them.
pub(super) fn offsets(frame: &Frame) -> Vec<i64> {
    let entries = if frame.offset.per_entry() { frame.batch } else { 1 };
    (0..entries).map(|b| frame.query_position(b, 0)).collect()
}
