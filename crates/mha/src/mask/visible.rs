//! The one definition of every rule: the keys that a query sees. All else follows from it.

use std::collections::HashMap;
use std::ops::Range;

use super::frame::Frame;
use super::offset::of_entry;
use super::rule::Rule;
use super::spans::Spans;

/// What the rows of one entry see: from a row to its visible columns.
type Rows<'a> = Box<dyn Fn(usize) -> Spans + 'a>;

impl Rule {
    /// The columns among `keys` that the rows of entry `b` see. The rule fits the frame.
    fn visible<'a>(&'a self, frame: &'a Frame, b: usize, keys: &Range<usize>) -> Rows<'a> {
        match self {
            Self::Causal { offset } => Box::new(move |i| {
                let query = frame.position_at(offset, b, i);
                frame.columns(0..query.saturating_add(1)).into()
            }),
            Self::Window { left, right, sinks, offset } => Box::new(move |i| {
                let query = frame.position_at(offset, b, i);
                let start = left.map_or(0, |left| query.saturating_sub(signed(left)));
                let end = right.map_or(i64::MAX, |right| {
                    query.saturating_add(signed(right)).saturating_add(1)
                });
                let sinks = 0..signed(*sinks).min(end);
                [sinks, start..end].map(|positions| frame.columns(positions)).into_iter().collect()
            }),
            Self::Lengths { lengths } => {
                let length = signed(*of_entry(lengths, b));
                Box::new(move |_| frame.columns(0..length).into())
            }
            Self::LeftPadding { padding } => {
                let padding = signed(*of_entry(padding, b));
                Box::new(move |_| frame.columns(padding..i64::MAX).into())
            }
            Self::Segments { query, key } => {
                let (query, key) = (of_entry(query, b), of_entry(key, b));
                let mut columns = HashMap::<u32, Spans>::new();
                for j in keys.clone() {
                    columns.entry(key[j]).or_default().push(j..j + 1);
                }
                Box::new(move |i| columns.get(&query[frame.query(i)]).cloned().unwrap_or_default())
            }
            Self::Prefix { lengths, offset } => {
                let prefix = signed(*of_entry(lengths, b));
                Box::new(move |i| {
                    let query = frame.position_at(offset, b, i);
                    frame.columns(0..query.saturating_add(1).max(prefix)).into()
                })
            }
            Self::Chunked { size, offset } => {
                let size = signed(*size);
                Box::new(move |i| {
                    let chunk = frame.position_at(offset, b, i).div_euclid(size);
                    let start = chunk.saturating_mul(size);
                    frame.columns(start..start.saturating_add(size)).into()
                })
            }
        }
    }

    /// Whether entries may differ.
    pub(super) fn per_entry(&self, frame: &Frame) -> bool {
        match self {
            Self::Causal { offset }
            | Self::Window { offset, .. }
            | Self::Chunked { offset, .. } => frame.per_entry(offset),
            Self::Lengths { lengths: numbers } | Self::LeftPadding { padding: numbers } => {
                numbers.len() != 1
            }
            Self::Segments { query, key } => query.len() != 1 || key.len() != 1,
            Self::Prefix { lengths, offset } => lengths.len() != 1 || frame.per_entry(offset),
        }
    }
}

/// The columns among `keys` that the rows of entry `b` see by all the rules, which fit the frame.
pub(crate) fn visible<'a>(
    rules: &'a [Rule],
    frame: &'a Frame,
    b: usize,
    keys: Range<usize>,
) -> impl Fn(usize) -> Spans + 'a {
    let rules: Vec<_> = rules.iter().map(|rule| rule.visible(frame, b, &keys)).collect();
    let keys = Spans::from(keys);
    move |i| rules.iter().fold(keys.clone(), |seen, rule| seen.intersection(&rule(i)))
}

/// How many entries must be looked at: one if all are alike.
pub(crate) fn entries(rules: &[Rule], frame: &Frame) -> usize {
    if rules.iter().any(|rule| rule.per_entry(frame)) { frame.batch } else { frame.batch.min(1) }
}

/// A number of keys among positions, which end long before the largest.
fn signed(keys: usize) -> i64 {
    i64::try_from(keys).unwrap_or(i64::MAX)
}
