//! Which keys a query sees.

use std::ops::Range;

use crate::{Error, View};

/// The pairs of query and key that are visible: those that every part leaves visible. By default that
/// is all of them. None of it says anything of the memory keys behind the others, which all queries
/// see.
///
/// # Example
///
/// ```
/// use mha_cpu::{Mask, Runs};
///
/// // Causal: query i sees the keys up to i.
/// let causal = Runs::new(1, 4, |_, i| [0..i + 1]);
/// let mask = Mask { runs: Some(&causal), ..Mask::default() };
/// assert!(mask.segments.is_empty() && mask.dense.is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Mask<'a> {
    /// The keys that each query sees as runs.
    pub runs: Option<&'a Runs>,
    /// Queries see the keys of their own id.
    pub segments: Vec<Segments<'a>>,
    /// Pairs that are hidden where it is true: `[batch or 1, n_heads or 1, seq_q or 1, seq_k or 1]`.
    pub dense: Vec<View<'a, bool, 4>>,
}

impl Mask<'_> {
    /// Whether it hides nothing.
    pub fn is_none(&self) -> bool {
        self.runs.is_none() && self.segments.is_empty() && self.dense.is_empty()
    }
}

/// For each query of each entry the keys that it sees, as sorted runs.
///
/// # Example
///
/// ```
/// // Two queries, each of which sees the first key and its own.
/// let runs = mha_cpu::Runs::new(1, 2, |_, i| [0..1, i + 3..i + 4]);
/// assert_eq!(runs.of(0, 1), [0..1, 4..5]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runs {
    entries: usize,
    rows: usize,
    /// Where the runs of each row end.
    ends: Vec<usize>,
    runs: Vec<Range<usize>>,
}

impl Runs {
    /// `entries`: 1 if all entries of the batch are alike, else as many as they are. `row` is called
    /// with an entry and a query; its runs are sorted and do not overlap.
    pub fn new<R: IntoIterator<Item = Range<usize>>>(
        entries: usize,
        seq_q: usize,
        mut row: impl FnMut(usize, usize) -> R,
    ) -> Self {
        let mut ends = Vec::with_capacity(entries * seq_q);
        let mut runs = Vec::with_capacity(entries * seq_q);
        for b in 0..entries {
            for i in 0..seq_q {
                runs.extend(row(b, i).into_iter().filter(|run| !run.is_empty()));
                ends.push(runs.len());
            }
        }
        Self { entries, rows: seq_q, ends, runs }
    }

    /// What a query sees.
    ///
    /// # Panics
    ///
    /// When there is no such query.
    pub fn of(&self, entry: usize, query: usize) -> &[Range<usize>] {
        assert!(query < self.rows, "query {query} of {}", self.rows);
        let row = if self.entries == 1 { query } else { entry * self.rows + query };
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.runs[start..self.ends[row]]
    }

    pub(crate) fn check(&self, batch: usize, seq_q: usize, seq_k: usize) -> Result<(), Error> {
        let (name, axes) = ("mask.runs", "batch or 1, seq_q");
        if !(self.entries == 1 || self.entries == batch) || self.rows != seq_q {
            let (expected, actual) = (vec![batch, seq_q], vec![self.entries, self.rows]);
            return Err(Error::Shape { name, axes, expected, actual });
        }
        let mut start = 0;
        for &end in &self.ends {
            let mut behind = 0;
            for run in &self.runs[start..end] {
                if run.start < behind || run.end > seq_k {
                    let actual = format!("{run:?} for {seq_k} keys");
                    return Err(Error::Value { name, expected: "be sorted runs of keys", actual });
                }
                behind = run.end;
            }
            start = end;
        }
        Ok(())
    }
}

/// An id for each query and key; pairs of different ids are hidden.
///
/// # Example
///
/// ```
/// use mha_cpu::Segments;
///
/// // Two documents packed into one sequence of five tokens.
/// let ids = vec![vec![0, 0, 1, 1, 1]];
/// let segments = Segments { query: &ids, key: &ids };
/// assert_eq!(segments.query[0][4], segments.key[0][2]);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Segments<'a> {
    /// `[batch or 1][seq_q]`
    pub query: &'a [Vec<u32>],
    /// `[batch or 1][seq_k]`
    pub key: &'a [Vec<u32>],
}

impl<'a> Segments<'a> {
    /// The ids of an entry's queries and keys.
    pub(crate) fn of(&self, entry: usize) -> [&'a [u32]; 2] {
        [self.query, self.key].map(|ids| ids[if ids.len() == 1 { 0 } else { entry }].as_slice())
    }

    pub(crate) fn check(&self, batch: usize, seq_q: usize, seq_k: usize) -> Result<(), Error> {
        for (name, ids, n) in
            [("segments.query", self.query, seq_q), ("segments.key", self.key, seq_k)]
        {
            let entries = ids.len() == 1 || ids.len() == batch;
            if let Some(wrong) = ids.iter().find(|ids| !entries || ids.len() != n) {
                let (expected, actual) = (vec![batch, n], vec![ids.len(), wrong.len()]);
                return Err(Error::Shape { name, axes: "batch or 1, seq", expected, actual });
            }
            if ids.is_empty() && batch > 0 {
                let (expected, actual) = (vec![batch, n], vec![0, 0]);
                return Err(Error::Shape { name, axes: "batch or 1, seq", expected, actual });
            }
        }
        Ok(())
    }
}
