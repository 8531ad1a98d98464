//! Which tiles each block meets, and which of those have to be looked at pair by pair.

use std::ops::Range;

use crate::device::Looks;

/// What the rows of a tile see of a block of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Some,
    Everything,
}

/// What `rows`, by their runs of columns, see of each of `blocks` blocks of `width` columns.
fn seen<'a>(
    rows: impl ExactSizeIterator<Item = &'a [Range<usize>]>,
    blocks: usize,
    width: usize,
) -> Vec<Seen> {
    let n_rows = rows.len() as i64;
    // How the number of rows that touch a block, and of those that see all of it, changes there.
    let (mut touch, mut cover) = (vec![0i64; blocks + 1], vec![0i64; blocks + 1]);
    for run in rows.flatten().filter(|run| !run.is_empty()) {
        touch[run.start / width] += 1;
        touch[(run.end - 1) / width + 1] -= 1;
        let (from, to) = (run.start.div_ceil(width), run.end / width);
        if from < to {
            cover[from] += 1;
            cover[to] -= 1;
        }
    }
    let (mut touching, mut covering) = (0, 0);
    let counts = touch.iter().zip(&cover).take(blocks);
    counts
        .map(|(touch, cover)| {
            touching += touch;
            covering += cover;
            match (touching, covering) {
                (0, _) => Seen::Nothing,
                (_, all) if all == n_rows => Seen::Everything,
                _ => Seen::Some,
            }
        })
        .collect()
}

/// For each block, entry by entry, the spans of tiles that it meets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    blocks: Vec<Vec<(Range<u32>, bool)>>,
}

impl Spans {
    /// Blocks of `rows` rows that meet tiles of `columns` columns. `looks`: every pair has to be looked
    /// at.
    pub(crate) fn of_rows(
        entries: &[Vec<&[Range<usize>]>],
        n_columns: usize,
        [rows, columns]: [usize; 2],
        looks: bool,
    ) -> Self {
        let mut spans = Self::default();
        for all in entries {
            for block in all.chunks(rows) {
                spans.blocks.push(Vec::new());
                let last = spans.blocks.len() - 1;
                let block = block.iter().copied();
                let seen = seen(block, n_columns.div_ceil(columns), columns);
                for (tile, seen) in seen.into_iter().enumerate() {
                    spans.meet(last, tile as u32, seen, looks);
                }
            }
        }
        spans
    }

    /// Blocks of `columns` columns that meet tiles of `rows` rows.
    pub(crate) fn of_columns(
        entries: &[Vec<&[Range<usize>]>],
        n_columns: usize,
        [rows, columns]: [usize; 2],
        looks: bool,
    ) -> Self {
        let blocks = n_columns.div_ceil(columns);
        let mut spans = Self { blocks: vec![Vec::new(); entries.len() * blocks] };
        for (entry, all) in entries.iter().enumerate() {
            for (tile, rows) in all.chunks(rows).enumerate() {
                let seen = seen(rows.iter().copied(), blocks, columns);
                for (block, seen) in seen.into_iter().enumerate() {
                    spans.meet(entry * blocks + block, tile as u32, seen, looks);
                }
            }
        }
        spans
    }

    fn meet(&mut self, block: usize, tile: u32, seen: Seen, looks: bool) {
        let looks = match seen {
            Seen::Nothing => return,
            Seen::Some => true,
            Seen::Everything => looks,
        };
        match self.blocks[block].last_mut() {
            Some((tiles, same)) if tiles.end == tile && *same == looks => tiles.end += 1,
            _ => self.blocks[block].push((tile..tile + 1, looks)),
        }
    }

    /// Of which tiles pairs have to be looked at.
    pub(crate) fn looks(&self) -> Looks {
        let mut all = self.blocks.iter().flatten().map(|(_, looks)| *looks);
        match all.next() {
            None | Some(false) => {
                if all.any(|looks| looks) {
                    Looks::Sometimes
                } else {
                    Looks::Never
                }
            }
            Some(true) => {
                if all.all(|looks| looks) {
                    Looks::Always
                } else {
                    Looks::Sometimes
                }
            }
        }
    }

    /// Where each block's spans start, and the spans: first tile, the one behind the last, whether to
    /// look.
    pub(crate) fn words(&self) -> [Vec<u32>; 2] {
        let (mut starts, mut list) = (vec![0], Vec::new());
        for (tiles, looks) in self.blocks.iter().flat_map(|spans| spans.iter()) {
            list.extend([tiles.start, tiles.end, u32::from(*looks)]);
        }
        for spans in &self.blocks {
            starts.push(starts.last().unwrap_or(&0) + spans.len() as u32);
        }
        [starts, list]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(run: Range<usize>) -> Vec<Range<usize>> {
        std::iter::once(run).collect()
    }

    /// Every pair is in a tile that its block meets, and no tile is met in vain or looked at in vain.
    #[test]
    fn tiles_hold_what_the_rows_see() {
        let (n_rows, n_columns) = (7, 11);
        let rules: [&dyn Fn(usize) -> Vec<Range<usize>>; 4] = [
            &|_| one(0..n_columns),
            &|i| one(0..i + 1),
            &|i| vec![0..2, i + 2..(i + 5).min(n_columns)],
            &|i| if i == 3 { vec![] } else { one(5..6) },
        ];
        for row in rules {
            let runs: Vec<_> = (0..n_rows).map(row).collect();
            let entries = [runs.iter().map(Vec::as_slice).collect::<Vec<_>>()];
            let sees = |i: usize, j: usize| runs[i].iter().any(|run| run.contains(&j));
            for (rows, columns) in [(1, 1), (2, 3), (3, 2), (4, 16), (16, 4)] {
                let shape = [rows, columns];
                let by_rows = Spans::of_rows(&entries, n_columns, shape, false);
                let by_columns = Spans::of_columns(&entries, n_columns, shape, false);
                for (block, tile) in (0..n_rows.div_ceil(rows))
                    .flat_map(|a| (0..n_columns.div_ceil(columns)).map(move |b| (a, b)))
                {
                    let pairs = (block * rows..((block + 1) * rows).min(n_rows)).flat_map(|i| {
                        (tile * columns..(tile + 1) * columns).map(move |j| sees(i, j))
                    });
                    let (any, all) =
                        pairs.fold((false, true), |(any, all), sees| (any || sees, all && sees));
                    let expected = any.then_some(!all);
                    let found = |spans: &[(Range<u32>, bool)], tile: usize| {
                        let mut spans = spans.iter();
                        spans.find(|(tiles, _)| tiles.contains(&(tile as u32))).map(|span| span.1)
                    };
                    assert_eq!(found(&by_rows.blocks[block], tile), expected);
                    assert_eq!(found(&by_columns.blocks[tile], block), expected);
                }
            }
        }
    }

    #[test]
    fn words_are_the_spans() {
        let runs = [one(0..4), one(2..4)];
        let entries = [runs.iter().map(Vec::as_slice).collect::<Vec<_>>()];
        let spans = Spans::of_rows(&entries, 4, [1, 2], false);
        assert_eq!(spans.words(), [vec![0, 1, 2], vec![0, 2, 0, 1, 2, 0]]);
    }
}
