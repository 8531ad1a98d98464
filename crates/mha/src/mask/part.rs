//! A mask for a part of a call's heads or queries.

use burn::tensor::{Bool, Int, Tensor, backend::Backend};

use super::{Mask, Rule};

impl<B: Backend> Mask<B> {
    /// The mask of these heads alone.
    pub(crate) fn pick_heads(mut self, heads: &[usize]) -> Self {
        for mask in &mut self.dense {
            if mask.hidden.dims()[1] != 1 {
                mask.hidden = select(mask.hidden.clone(), 1, heads);
            }
        }
        self
    }

    /// The mask without the first `n` queries, of which there are more.
    pub(crate) fn skip(mut self, n: usize) -> Self {
        if n == 0 {
            return self;
        }
        for mask in &mut self.dense {
            let [_, _, rows, _] = mask.hidden.dims();
            if rows != 1 {
                mask.hidden = mask.hidden.clone().narrow(2, n, rows - n);
            }
        }
        self.rules = self.rules.into_iter().map(|rule| rule.skip(n)).collect();
        self
    }
}

impl Rule {
    /// The rule without the first `n` queries.
    fn skip(mut self, n: usize) -> Self {
        match &mut self {
            Self::Causal { offset }
            | Self::Window { offset, .. }
            | Self::Prefix { offset, .. }
            | Self::Chunked { offset, .. } => *offset = std::mem::take(offset).skip(n),
            Self::Segments { query, .. } => query.iter_mut().for_each(|ids| drop(ids.drain(..n))),
            Self::Lengths { .. } | Self::LeftPadding { .. } => {}
        }
        self
    }
}

/// Some places of an axis. Through integers: Flex 0.21 gives selected Booleans a type of its own,
/// which it then refuses to put beside others.
pub(super) fn select<B: Backend>(
    hidden: Tensor<B, 4, Bool>,
    axis: usize,
    places: &[usize],
) -> Tensor<B, 4, Bool> {
    let places: Vec<i32> = places.iter().map(|&place| place as i32).collect();
    let index = Tensor::<B, 1, Int>::from_ints(places.as_slice(), &hidden.device());
    hidden.int().select(axis, index).bool()
}
