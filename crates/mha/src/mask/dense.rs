//! Masks that are a tensor of Booleans.

use std::fmt;

use burn::tensor::{Bool, Tensor, backend::Backend};
use serde::{Deserialize, Serialize};

use super::frame::Frame;
use super::part::select;
use crate::Error;

/// A Boolean for each pair of query and key, as [`Mask::block`](super::Mask::block) and
/// [`Mask::keep`](super::Mask::keep) take it: a tensor of two, three or four axes, each of which
/// may be 1 and stand for all of its positions.
///
/// # Shapes
///
/// `[seq_q, seq_k]`, `[batch, seq_q, seq_k]` or `[batch, n_heads, seq_q, seq_k]`
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use burn::tensor::{Bool, Tensor};
/// use mha::{DensePairs, Mask};
///
/// let diagonal = Tensor::<NdArray, 2, Bool>::diag_mask([5, 5], 0, &Default::default());
/// let pairs: DensePairs<_> = diagonal.into();
/// assert!(!Mask::block(pairs).is_none());
/// ```
#[derive(Debug, Clone)]
pub struct DensePairs<B: Backend> {
    /// `[batch, n_heads, seq_q, seq_k]`
    tensor: Tensor<B, 4, Bool>,
    axes: Axes,
}

/// The axes that a tensor came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Axes {
    /// `[seq_q, seq_k]`
    Pairs,
    /// `[batch, seq_q, seq_k]`
    Entries,
    /// `[batch, n_heads, seq_q, seq_k]`
    Heads,
    /// `[batch, seq_k]`
    Keys,
    /// `[batch, seq_k]`, where no axis stands for all of its positions
    ExactKeys,
}

impl Axes {
    /// Their places in `[batch, n_heads, seq_q, seq_k]`.
    fn places(self) -> &'static [usize] {
        match self {
            Self::Pairs => &[2, 3],
            Self::Entries => &[0, 2, 3],
            Self::Heads => &[0, 1, 2, 3],
            Self::Keys | Self::ExactKeys => &[0, 3],
        }
    }

    /// What belongs to these axes among what belongs to all four.
    fn of<T: Copy>(self, all: [T; 4]) -> Vec<T> {
        self.places().iter().map(|&place| all[place]).collect()
    }

    fn names(self) -> Vec<&'static str> {
        self.of(["batch", "n_heads", "seq_q", "seq_k"])
    }
}

impl<B: Backend> DensePairs<B> {
    /// One Boolean per key, `[batch, seq_k]`; `exact` if no axis may stand for all its positions.
    pub(super) fn keys(keys: Tensor<B, 2, Bool>, exact: bool) -> Self {
        let axes = if exact { Axes::ExactKeys } else { Axes::Keys };
        let [batch, seq_k] = keys.dims();
        Self { tensor: reshaped(keys, [batch, 1, 1, seq_k]), axes }
    }

    /// `true` becomes `false`, and the other way round.
    pub(super) fn inverted(self) -> Self {
        Self { tensor: self.tensor.bool_not(), ..self }
    }
}

impl<B: Backend> From<Tensor<B, 2, Bool>> for DensePairs<B> {
    fn from(tensor: Tensor<B, 2, Bool>) -> Self {
        let [seq_q, seq_k] = tensor.dims();
        Self { tensor: reshaped(tensor, [1, 1, seq_q, seq_k]), axes: Axes::Pairs }
    }
}

impl<B: Backend> From<Tensor<B, 3, Bool>> for DensePairs<B> {
    fn from(tensor: Tensor<B, 3, Bool>) -> Self {
        let [batch, seq_q, seq_k] = tensor.dims();
        Self { tensor: reshaped(tensor, [batch, 1, seq_q, seq_k]), axes: Axes::Entries }
    }
}

impl<B: Backend> From<Tensor<B, 4, Bool>> for DensePairs<B> {
    fn from(tensor: Tensor<B, 4, Bool>) -> Self {
        Self { tensor, axes: Axes::Heads }
    }
}

/// The tensor with four axes. To Burn's own reshape an axis of 0 is one that stays.
fn reshaped<B: Backend, const D: usize>(
    tensor: Tensor<B, D, Bool>,
    dims: [usize; 4],
) -> Tensor<B, 4, Bool> {
    if dims.contains(&0) { Tensor::empty(dims, &tensor.device()) } else { tensor.reshape(dims) }
}

/// A tensor of what is hidden, with the name that errors call it by.
#[derive(Debug, Clone)]
pub(crate) struct DenseMask<B: Backend> {
    pub(super) name: &'static str,
    pub(super) axes: Axes,
    /// `true` hides: `[batch, n_heads, seq_q, seq_k]`, where any axis may be 1.
    pub(super) hidden: Tensor<B, 4, Bool>,
}

impl<B: Backend> DenseMask<B> {
    /// Hides where the pairs are true.
    pub(super) fn new(name: &'static str, pairs: DensePairs<B>) -> Self {
        Self { name, axes: pairs.axes, hidden: pairs.tensor }
    }

    /// Checks the shape against `[batch, n_heads, seq_q, seq_k]`.
    pub(super) fn check(&self, expected: [usize; 4]) -> Result<(), Error> {
        let (expected, actual) = (self.axes.of(expected), self.axes.of(self.hidden.dims()));
        let broadcast = self.axes != Axes::ExactKeys;
        let fits = |(&e, &a): (&usize, &usize)| e == a || (broadcast && a == 1);
        if expected.iter().zip(&actual).all(fits) {
            return Ok(());
        }
        let (name, axes) = (self.name.to_string(), self.axes.names());
        Err(Error::Shape { name, axes, expected, broadcast, actual })
    }

    /// Whether it hides a key from every query and head, or from none.
    pub(super) fn hides_keys_only(&self) -> bool {
        let [_, n_heads, seq_q, _] = self.hidden.dims();
        n_heads == 1 && seq_q == 1
    }

    /// The rows of the frame: `[batch, n_heads, rows, seq_k]`, where any axis may be 1.
    pub(super) fn rows(&self, frame: &Frame) -> Tensor<B, 4, Bool> {
        let hidden = self.hidden.clone();
        match &frame.rows {
            Some(rows) if hidden.dims()[2] != 1 => select(hidden, 2, rows),
            _ => hidden,
        }
    }

    /// Whether it hides one pair (batch, head, query, key); reads it from the device.
    pub(super) fn hides(&self, pair: [usize; 4]) -> bool {
        let dims = self.hidden.dims();
        let place: [usize; 4] =
            std::array::from_fn(|axis| if dims[axis] == 1 { 0 } else { pair[axis] });
        let one = self.hidden.clone().slice(place.map(|at| at..at + 1));
        one.into_data().iter::<bool>().any(|hidden| hidden)
    }

    /// All of it, read from the device.
    pub(super) fn read(&self) -> HostMask {
        let hidden = self.hidden.to_data().iter().collect();
        HostMask { dims: self.hidden.dims(), hidden }
    }
}

/// Its name and the shape that it came with.
impl<B: Backend> fmt::Display for DenseMask<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = self.axes.of(self.hidden.dims());
        write!(f, "{}: dense, of shape {shape:?} ({})", self.name, self.axes.names().join(", "))
    }
}

/// A dense mask on the host.
pub(super) struct HostMask {
    dims: [usize; 4],
    hidden: Vec<bool>,
}

impl HostMask {
    /// Whether it hides the pair (batch, head, query, key).
    pub(super) fn hides(&self, pair: [usize; 4]) -> bool {
        let at = pair.iter().zip(&self.dims).fold(0, |at, (&index, &dim)| {
            let index = if dim == 1 { 0 } else { index };
            at * dim + index
        });
        self.hidden[at]
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::NdArray;

    use burn::tensor::TensorData;

    use super::*;

    type B = NdArray;

    /// Every combination of axes of 1 reads the pair's own Boolean, here and on the device.
    #[test]
    fn axes_of_one_stand_for_all() {
        let full = [2, 3, 5, 7];
        for broadcast in 0..16 {
            let dims: [usize; 4] =
                std::array::from_fn(|axis| if broadcast >> axis & 1 == 1 { 1 } else { full[axis] });
            let count = dims.iter().product();
            let hidden: Vec<bool> = (0..count).map(|at| at * 7 % 11 < 4).collect();
            let data = TensorData::new(hidden, dims);
            let tensor = Tensor::<B, 4, Bool>::from_data(data, &Default::default());
            let mask = DenseMask::new("mask", tensor.clone().into());
            let all: Vec<bool> = tensor.expand(full).into_data().iter().collect();
            let host = mask.read();
            for (at, &expected) in all.iter().enumerate() {
                let pair = [at / 105, at / 35 % 3, at / 7 % 5, at % 7];
                assert_eq!(host.hides(pair), expected, "{dims:?} {pair:?}");
                if at % 10 == 0 {
                    assert_eq!(mask.hides(pair), expected, "{dims:?} {pair:?}");
                }
            }
        }
    }

    #[test]
    fn axes_of_zero() {
        let none = |dims: [usize; 3]| Tensor::<B, 3>::zeros(dims, &Default::default()).bool();
        for dims in [[0, 5, 7], [2, 0, 7], [2, 5, 0], [0, 0, 0]] {
            let [batch, seq_q, seq_k] = dims;
            assert_eq!(DensePairs::from(none(dims)).tensor.dims(), [batch, 1, seq_q, seq_k]);
        }
        let keys = Tensor::<B, 2>::zeros([2, 0], &Default::default()).bool();
        assert_eq!(DensePairs::keys(keys, true).tensor.dims(), [2, 1, 1, 0]);
    }

    #[test]
    fn prints_the_shape_that_came() {
        let zeros = Tensor::<B, 3>::zeros([2, 5, 7], &Default::default()).bool();
        let mask = DenseMask::new("mask.block", zeros.into());
        let words = "mask.block: dense, of shape [2, 5, 7] (batch, seq_q, seq_k)";
        assert_eq!(mask.to_string(), words);
    }
}
