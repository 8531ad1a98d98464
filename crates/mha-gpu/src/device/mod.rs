//! What runs on the device.

pub(crate) mod copy;
pub(crate) mod d_key_value;
pub(crate) mod d_query;
pub(crate) mod delta;
mod dropout;
pub(crate) mod forward;
pub(crate) mod merge;
mod numbers;
pub(crate) mod pack;
mod pair;
pub(crate) mod reduce;
pub(crate) mod seen;

pub(crate) use numbers::{Numbers, Strides};

use cubecl::prelude::*;

/// Rows of features are read four at a time.
pub(crate) type Four<E> = Vector<E, Const<4>>;

/// The sum of the four.
#[cube]
pub(crate) fn total(four: Four<f32>) -> f32 {
    (four[0] + four[1]) + (four[2] + four[3])
}

/// eˣ, and of what is no number no number: devices do not promise that of theirs.
#[cube]
pub(crate) fn exp(x: f32) -> f32 {
    select(x.is_nan(), x, x.exp())
}

/// Which units share a block of rows, and how they are unrolled.
///
/// A unit holds `rows` rows in registers and meets each row of the other side once for all of them:
/// what is read of memory, shared or not, costs more than the arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Spec {
    /// Fours of features in a row of queries and keys.
    pub(crate) qk: usize,
    /// Fours of features in a row of values.
    pub(crate) v: usize,
    /// Rows that each unit holds.
    pub(crate) rows: usize,
    /// Rows of the other side in a tile, for each unit if `spread`.
    pub(crate) tile: usize,
    /// Units in a cube.
    pub(crate) units: usize,
    /// Whether all units hold the same rows, each meeting other keys: for few queries.
    pub(crate) spread: bool,
    /// Whether the keys are split over cubes, whose results are merged later.
    pub(crate) split: bool,
    /// Whether weights are dropped.
    pub(crate) dropout: bool,
    /// Whether the gradients of the scores are written, in place of those of the queries.
    pub(crate) scores: bool,
}
