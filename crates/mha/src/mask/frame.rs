//! The geometry of one call: which position a query and a key stand at.

use std::ops::Range;

use super::offset::Offset;

/// Keys that were dropped from the middle, as a rolling cache does that keeps the first ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gap {
    /// How many keys were kept at the start.
    pub(crate) after: usize,
    /// How many keys were dropped behind them.
    pub(crate) length: usize,
}

/// One call's geometry.
///
/// Column `j` is key `j` of the call; its position counts dropped keys too. Row `i` is query `i` of
/// the call, or of the chosen ones.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) batch: usize,
    /// All queries of the call, chosen or not.
    pub(crate) seq_q: usize,
    pub(crate) seq_k: usize,
    /// What a rule's [`Offset::BottomRight`] stands for. `BottomRight` here: the last query stands
    /// at the last key's position.
    pub(crate) offset: Offset,
    pub(crate) gap: Gap,
    /// If set, only these queries: row `i` is query `rows[i]`.
    pub(crate) rows: Option<Vec<usize>>,
}

impl Frame {
    pub(crate) fn new(batch: usize, seq_q: usize, seq_k: usize) -> Self {
        let (offset, gap, rows) = (Offset::BottomRight, Gap::default(), None);
        Self { batch, seq_q, seq_k, offset, gap, rows }
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.rows.as_ref().map_or(self.seq_q, Vec::len)
    }

    /// The query of row `i`.
    pub(crate) fn query(&self, i: usize) -> usize {
        self.rows.as_ref().map_or(i, |rows| rows[i])
    }

    /// The key position that row `i` of entry `b` stands at, unless a rule has its own offset.
    pub(crate) fn query_position(&self, b: usize, i: usize) -> i64 {
        self.position_at(&self.offset, b, i)
    }

    /// The key position that row `i` of entry `b` stands at for a rule with this offset.
    pub(crate) fn position_at(&self, offset: &Offset, b: usize, i: usize) -> i64 {
        let given = offset.of_entry(b).or_else(|| self.offset.of_entry(b));
        let offset = given.unwrap_or_else(|| self.end() as i64 - self.seq_q as i64);
        offset.saturating_add(self.query(i) as i64)
    }

    /// The position of column `j`.
    pub(crate) fn key_position(&self, j: usize) -> usize {
        if j < self.gap.after { j } else { j + self.gap.length }
    }

    /// The position behind the last key: `seq_k`, and the keys that were dropped.
    pub(crate) fn end(&self) -> usize {
        self.seq_k.checked_sub(1).map_or(0, |last| self.key_position(last) + 1)
    }

    /// The columns at these positions: one run, since columns are in the order of their positions.
    pub(crate) fn columns(&self, positions: Range<i64>) -> Range<usize> {
        self.columns_before(positions.start)..self.columns_before(positions.end)
    }

    /// How many columns stand before this position.
    fn columns_before(&self, position: i64) -> usize {
        let position = usize::try_from(position).unwrap_or(0); // before the first key
        let Gap { after, length } = self.gap;
        let columns =
            if position <= after { position } else { position.saturating_sub(length).max(after) };
        columns.min(self.seq_k)
    }

    /// Whether rules with this offset may differ between entries.
    pub(crate) fn per_entry(&self, offset: &Offset) -> bool {
        match offset {
            Offset::BottomRight => self.offset.per_entry(),
            offset => offset.per_entry(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bottom_right_counts_dropped_keys() {
        let mut frame = Frame::new(1, 2, 5);
        assert_eq!([0, 1].map(|i| frame.query_position(0, i)), [3, 4]);
        frame.gap = Gap { after: 2, length: 10 };
        assert_eq!([0, 1, 2, 4].map(|j| frame.key_position(j)), [0, 1, 12, 14]);
        assert_eq!([0, 1].map(|i| frame.query_position(0, i)), [13, 14]);
        frame.rows = Some(vec![1]);
        assert_eq!((frame.n_rows(), frame.query_position(0, 0)), (1, 14));
        frame.offset = Offset::At(20);
        assert_eq!(frame.query_position(0, 0), 21);
    }

    #[test]
    fn columns_are_those_at_the_positions() {
        for seq_k in 0..6 {
            for (after, length) in [(0, 0), (0, 3), (2, 3), (7, 3)] {
                let frame = Frame { gap: Gap { after, length }, ..Frame::new(1, 2, seq_k) };
                for (start, end) in (-2..12).flat_map(|a| (a..12).map(move |b| (a, b))) {
                    let at = |&j: &usize| (start..end).contains(&(frame.key_position(j) as i64));
                    let expected: Vec<usize> = (0..seq_k).filter(at).collect();
                    let columns: Vec<usize> = frame.columns(start..end).collect();
                    assert_eq!(columns, expected, "{frame:?} {start}..{end}");
                }
            }
        }
    }

    #[test]
    fn no_position_overflows() {
        let frame = Frame::new(1, 2, 5);
        assert_eq!(frame.position_at(&Offset::At(i64::MAX), 0, 1), i64::MAX);
        assert_eq!(frame.columns(i64::MIN..i64::MAX), 0..5);
        assert_eq!(Frame::new(1, 2, 0).query_position(0, 0), -2);
    }
}
