//! Sets of keys as runs: what one query sees, without a Boolean per key.

use std::ops::Range;

/// Sorted half-open runs of columns that neither overlap nor touch; none is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spans(Vec<Range<usize>>);

impl Spans {
    /// Adds a run that starts no earlier than any other; an empty one adds nothing.
    pub(crate) fn push(&mut self, run: Range<usize>) {
        if run.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
            _ => self.0.push(run),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.0.iter().cloned()
    }

    /// The number of columns.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(Range::len).sum()
    }

    pub(crate) fn contains(&self, column: usize) -> bool {
        let after = self.0.partition_point(|run| run.end <= column);
        self.0.get(after).is_some_and(|run| run.start <= column)
    }

    /// The columns of both.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Self::default();
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            both.push(a.start.max(b.start)..a.end.min(b.end));
            // The run that ends first meets nothing more.
            if a.end <= b.end {
                left.next()
            } else {
                right.next()
            };
        }
        both
    }

    /// The columns of either.
    pub(crate) fn union(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.iter().peekable(), other.iter().peekable());
        let mut either = Self::default();
        loop {
            let next = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) if a.start <= b.start => left.next(),
                (_, Some(_)) => right.next(),
                (_, None) => left.next(),
            };
            match next {
                Some(run) => either.push(run),
                None => return either,
            }
        }
    }
}

impl From<Range<usize>> for Spans {
    fn from(run: Range<usize>) -> Self {
        Self::from_iter([run])
    }
}

/// The runs come in the order of their starts.
impl FromIterator<Range<usize>> for Spans {
    fn from_iter<I: IntoIterator<Item = Range<usize>>>(runs: I) -> Self {
        let mut spans = Self::default();
        runs.into_iter().for_each(|run| spans.push(run));
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: usize = 6;

    /// The columns whose bit is set.
    fn of_bits(bits: usize) -> Spans {
        (0..COLUMNS).filter(|j| bits >> j & 1 == 1).map(|j| j..j + 1).collect()
    }

    #[test]
    fn every_pair_of_small_sets() {
        for a in 0..1 << COLUMNS {
            let spans = of_bits(a);
            assert!(spans.0.windows(2).all(|pair| pair[0].end < pair[1].start), "{spans:?}");
            assert_eq!(spans.count(), a.count_ones() as usize);
            assert_eq!(spans.count() == 0, a == 0);
            for j in 0..COLUMNS + 1 {
                assert_eq!(spans.contains(j), a >> j & 1 == 1, "{spans:?} {j}");
            }
            for b in 0..1 << COLUMNS {
                assert_eq!(spans.intersection(&of_bits(b)), of_bits(a & b), "{a:b} {b:b}");
                assert_eq!(spans.union(&of_bits(b)), of_bits(a | b), "{a:b} {b:b}");
            }
        }
    }

    #[test]
    fn empty_runs_are_left_out_and_overlapping_ones_joined() {
        let spans = Spans::from_iter([0..0, 1..4, 2..3, 4..5, 7..7]);
        assert_eq!(spans, Spans::from(1..5));
        assert_eq!(Spans::from(3..3), Spans::default());
    }
}
