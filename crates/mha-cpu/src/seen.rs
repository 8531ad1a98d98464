//! What the masks leave of one tile.

use std::ops::Range;

use crate::call::{PAIRS, Sizes};
use crate::{Error, Mask, View};

/// The masks of a call, for tiles of some queries by some keys.
#[derive(Debug)]
pub(crate) struct Masks<'a> {
    mask: &'a Mask<'a>,
    dense: Vec<View<'a, bool, 4>>,
    seq_k: usize,
}

/// What the queries of a tile see of its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    Nothing,
    Everything,
    /// For each key a bit per query.
    Some,
}

impl Seen {
    /// Whether some query sees a key, given the bits of that key.
    pub(crate) fn any(self, bits: u32) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Some => bits != 0,
        }
    }
}

impl<'a> Masks<'a> {
    pub(crate) fn new(mask: &'a Mask<'a>, sizes: &Sizes) -> Result<Self, Error> {
        let &Sizes { batch, n_heads, seq_q, seq_k, .. } = sizes;
        let pairs = [batch, n_heads, seq_q, seq_k];
        let dense = mask.dense.iter().map(|dense| dense.broadcast("mask.dense", PAIRS, pairs));
        Ok(Self { mask, dense: dense.collect::<Result<_, _>>()?, seq_k })
    }

    /// What `rows`, at most 32 of them, see of `keys`; `bits` are set where there is no simple answer:
    /// bit l of `bits[n]` says whether row l sees key n.
    pub(crate) fn see(
        &self,
        [b, h]: [usize; 2],
        rows: &Range<usize>,
        keys: &Range<usize>,
        bits: &mut [u32],
    ) -> Seen {
        if self.mask.is_none() || keys.start >= self.seq_k {
            return Seen::Everything;
        }
        let all = u32::MAX >> (32 - rows.len());
        let bits = &mut bits[..keys.len()];
        // Memory keys are seen whatever the masks say.
        let ruled = keys.start..keys.end.min(self.seq_k);
        bits[ruled.len()..].fill(all);
        let memory = ruled.len() < keys.len();

        match self.by_runs(b, rows, &ruled, bits) {
            Seen::Nothing if !memory => return Seen::Nothing,
            Seen::Nothing => bits[..ruled.len()].fill(0),
            Seen::Everything => bits[..ruled.len()].fill(all),
            Seen::Some => {}
        }
        let bits_of_ruled = &mut bits[..ruled.len()];
        for segments in &self.mask.segments {
            let [query, key] = segments.of(b);
            by_segments(&query[rows.clone()], &key[ruled.clone()], bits_of_ruled);
        }
        for dense in &self.dense {
            by_pairs(dense, [b, h], rows, &ruled, bits_of_ruled);
        }
        let (or, and) = bits.iter().fold((0, all), |(or, and), bits| (or | bits, and & bits));
        match (or, and == all) {
            (0, _) => Seen::Nothing,
            (_, true) => Seen::Everything,
            _ => Seen::Some,
        }
    }

    fn by_runs(
        &self,
        b: usize,
        rows: &Range<usize>,
        keys: &Range<usize>,
        bits: &mut [u32],
    ) -> Seen {
        let Some(runs) = self.mask.runs else { return Seen::Everything };
        let (mut none, mut all) = (true, true);
        for i in rows.clone() {
            let runs = runs.of(b, i);
            none &= !runs.iter().any(|run| run.start < keys.end && run.end > keys.start);
            all &= runs.iter().any(|run| run.start <= keys.start && run.end >= keys.end);
        }
        if none {
            return Seen::Nothing;
        }
        if all {
            return Seen::Everything;
        }
        // A bit flips where a run starts and where it ends; what is set stays set in between.
        let bits = &mut bits[..keys.len()];
        bits.fill(0);
        for (lane, i) in rows.clone().enumerate() {
            for run in runs.of(b, i) {
                let start = run.start.max(keys.start);
                if start >= run.end.min(keys.end) {
                    continue;
                }
                bits[start - keys.start] ^= 1 << lane;
                if run.end < keys.end {
                    bits[run.end - keys.start] ^= 1 << lane;
                }
            }
        }
        let mut set = 0;
        for bits in bits {
            set ^= *bits;
            *bits = set;
        }
        Seen::Some
    }
}

fn by_segments(query: &[u32], key: &[u32], bits: &mut [u32]) {
    let mut last = None;
    for (bits, &id) in bits.iter_mut().zip(key) {
        // Neighbours mostly have the same id.
        let same = match last {
            Some((other, same)) if other == id => same,
            _ => {
                let lanes = query.iter().enumerate();
                lanes.fold(0, |set, (lane, &other)| set | (u32::from(other == id) << lane))
            }
        };
        last = Some((id, same));
        *bits &= same;
    }
}

fn by_pairs(
    dense: &View<'_, bool, 4>,
    [b, h]: [usize; 2],
    rows: &Range<usize>,
    keys: &Range<usize>,
    bits: &mut [u32],
) {
    let mut hidden = [false; crate::tile::KEYS];
    let hidden = &mut hidden[..keys.len()];
    if dense.repeats(2) {
        dense.copy([b, h, rows.start, 0], keys.clone(), hidden);
        for (bits, &hidden) in bits.iter_mut().zip(&*hidden) {
            *bits = if hidden { 0 } else { *bits };
        }
        return;
    }
    for (lane, i) in rows.clone().enumerate() {
        dense.copy([b, h, i, 0], keys.clone(), hidden);
        for (bits, &hidden) in bits.iter_mut().zip(&*hidden) {
            *bits &= !(u32::from(hidden) << lane);
        }
    }
}
