//! Which blocks of queries and keys a kernel can skip, or need not mask.

use std::ops::Range;

use burn::tensor::backend::Backend;

use super::Mask;
use super::frame::Frame;
use super::visible::visible;
use crate::Error;
use crate::attention::{Sizes, check::indices};

/// What a mask leaves of a block of queries and keys.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use mha::oracle::Sizes;
/// use mha::{Mask, Tile};
///
/// let sizes = Sizes { seq_q: 8, seq_k: 8, ..Sizes::ONE };
/// let causal = Mask::<NdArray>::causal();
/// assert_eq!(causal.tile(&sizes, 0, 0..4, 4..8), Tile::Empty); // the future
/// assert_eq!(causal.tile(&sizes, 0, 4..8, 0..4), Tile::Full); // the past
/// assert_eq!(causal.tile(&sizes, 0, 4..8, 4..8), Tile::Partial);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tile {
    /// No query of the block sees a key of it, as in a block without pairs.
    Empty,
    /// Every query of the block sees every key of it.
    Full,
    /// Some pairs may be visible, and some hidden.
    Partial,
}

impl<B: Backend> Mask<B> {
    /// What the mask leaves of a block, the same for every head: exact for rules; a dense mask,
    /// which is not read, makes it [`Tile::Partial`] where the rules leave anything.
    ///
    /// # Panics
    ///
    /// When [`try_tile`](Self::try_tile) gives an error, with its text.
    #[track_caller]
    pub fn tile(
        &self,
        sizes: &Sizes,
        entry: usize,
        queries: Range<usize>,
        keys: Range<usize>,
    ) -> Tile {
        let tile = self.try_tile(sizes, entry, queries, keys);
        tile.unwrap_or_else(|error| panic!("{error}"))
    }

    /// [`tile`](Self::tile), or an error that names the argument.
    ///
    /// # Errors
    ///
    /// When the mask does not fit the sizes, or the entry or the block lies outside of them.
    pub fn try_tile(
        &self,
        sizes: &Sizes,
        entry: usize,
        queries: Range<usize>,
        keys: Range<usize>,
    ) -> Result<Tile, Error> {
        let frame = self.fit(sizes)?;
        indices("entry", &[entry], sizes.batch, "batch")?;
        check_range("queries", &queries, (sizes.seq_q, "seq_q"))?;
        check_range("keys", &keys, (sizes.seq_k, "seq_k"))?;
        Ok(self.tile_in(&frame, entry, queries, keys))
    }

    /// [`tile`](Self::tile) of rows and columns of a frame, which mask and block fit.
    pub(crate) fn tile_in(
        &self,
        frame: &Frame,
        entry: usize,
        rows: Range<usize>,
        columns: Range<usize>,
    ) -> Tile {
        let width = columns.len();
        let visible = visible(&self.rules, frame, entry, columns);
        let (mut none, mut all) = (true, self.dense.is_empty());
        for i in rows {
            let count = visible(i).count();
            none &= count == 0;
            all &= count == width;
            if !none && !all {
                return Tile::Partial;
            }
        }
        if none { Tile::Empty } else { Tile::Full }
    }
}

fn check_range(
    name: &'static str,
    range: &Range<usize>,
    (size, axis): (usize, &str),
) -> Result<(), Error> {
    if range.start <= range.end && range.end <= size {
        return Ok(());
    }
    Err(Error::value(name, format!("lie in 0..{size} ({axis})"), format!("{range:?}")))
}
