//! What depends on where queries and keys stand.

/// The positions of queries and keys, from which distances are counted.
///
/// # Example
///
/// ```
/// use mha_cpu::Positions;
///
/// // The last of 2 queries stands at the last of 5 keys.
/// let positions = Positions { offsets: vec![3], ..Positions::default() };
/// assert_eq!(positions.query(0, 1), positions.key(4));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Positions {
    /// The position of query 0 of each entry, or one for all of them.
    pub offsets: Vec<i64>,
    /// Keys from this one on stand `gap` positions further than their number says.
    pub gap_after: usize,
    /// How many positions are left out there.
    pub gap: usize,
}

impl Default for Positions {
    fn default() -> Self {
        Self { offsets: vec![0], gap_after: 0, gap: 0 }
    }
}

impl Positions {
    /// Where query `i` of an entry stands.
    pub fn query(&self, entry: usize, i: usize) -> i64 {
        let entry = if self.offsets.len() == 1 { 0 } else { entry };
        self.offsets[entry].saturating_add(i as i64)
    }

    /// How far key `j` stands behind query `i`; negative before it.
    pub(crate) fn distance(&self, entry: usize, i: usize, j: usize) -> i64 {
        self.key(j).saturating_sub(self.query(entry, i))
    }

    /// Where key `j` stands.
    pub fn key(&self, j: usize) -> i64 {
        let gap = if j < self.gap_after { 0 } else { self.gap as i64 };
        gap.saturating_add(j as i64)
    }
}

/// A bias for each distance, as T5 has: the same for all distances of `reach` and more on one side.
///
/// # Example
///
/// ```
/// use mha_cpu::Relative;
///
/// // One head; only the key just before the query gets something.
/// let table = [0.0_f32, 1.5, 0.0, 0.0, 0.0];
/// let relative = Relative { table: &table, reach: 2 };
/// assert_eq!(relative.table[relative.index(-1)], 1.5);
/// assert_eq!(relative.index(-9), relative.index(-2));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Relative<'a, T> {
    /// `[n_heads, 2 reach + 1]`
    pub table: &'a [T],
    /// The distance from which on nothing changes.
    pub reach: usize,
}

impl<T> Relative<'_, T> {
    /// The column of a distance, which is the key's position less the query's.
    pub fn index(&self, distance: i64) -> usize {
        let reach = self.reach as i64;
        (distance.clamp(-reach, reach) + reach) as usize
    }

    /// Columns of the table.
    pub(crate) fn width(&self) -> usize {
        2 * self.reach + 1
    }
}
