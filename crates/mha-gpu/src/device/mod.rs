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
mod tile;

pub(crate) use numbers::{Numbers, Strides};

use std::f32::consts::LOG2_E;

use cubecl::ir::StorageType;
use cubecl::prelude::*;

/// Rows of features are read four at a time.
pub(crate) type Four<E> = Vector<E, Const<4>>;

/// The sum of the four.
#[cube]
pub(crate) fn total(four: Four<f32>) -> f32 {
    (four[0] + four[1]) + (four[2] + four[3])
}

/// eˣ to the last place or two, and of what is no number no number, where devices promise neither:
/// 2ᵏ eʳ, with r by Taylor's series (Cody and Waite 1980, chapter 6, for the reduction).
#[cube]
pub(crate) fn exp(x: f32) -> f32 {
    let above = f32::max(x, -88.0);
    let inside = f32::min(above, 88.0);
    let k = f32::floor(inside * LOG2_E + 0.5);
    // ln 2 in two parts, the first so short that its product with k is exact.
    let r = (inside - k * 0.693_359_4_f32) + k * 2.121_944_4e-4_f32;
    let series = r * (1.0f32 / 5040.0) + 1.0f32 / 720.0;
    let series = series * r + 1.0f32 / 120.0;
    let series = series * r + 1.0f32 / 24.0;
    let series = series * r + 1.0f32 / 6.0;
    let series = series * r + 0.5f32;
    let power = f32::reinterpret((i32::cast_from(k) + 127) << 23);
    let found = (1.0 + (r + series * r * r)) * power;
    let found = select(x < -87.0, 0.0f32, found);
    select(x.is_nan(), x, found)
}

/// A number that every unit is told, as a copy: what is told lies in memory, and is read there each time
/// that it is named.
#[cube]
pub(crate) fn once<T: CubePrimitive>(told: T) -> T {
    RuntimeCell::<T>::new(told).read()
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
    /// What tiles hold their numbers in: words of 32 or 64 bits.
    pub(crate) word: StorageType,
    /// Units in a cube.
    pub(crate) units: usize,
    /// Whether all units hold the same rows, each meeting other keys: for few queries.
    pub(crate) spread: bool,
    /// Whether the keys are split over cubes, whose results are merged later.
    pub(crate) split: bool,
    /// Whether several launches meet the tiles, each going on where the one before ended.
    pub(crate) several: bool,
    /// Whether weights are dropped.
    pub(crate) dropout: bool,
    /// Whether the gradients of the scores are written, in place of those of the queries.
    pub(crate) scores: bool,
    /// Of which tiles pairs are looked at one by one.
    pub(crate) looks: Looks,
}

/// Of which tiles pairs are looked at one by one. The loop that does not look is kept free of all that
/// looking takes, and a kernel has what it needs of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Looks {
    /// Of none.
    Never,
    /// Of those that say so.
    Sometimes,
    /// Of all.
    Always,
}

impl Looks {
    /// Whether a kernel has the loop that looks, or the one that does not.
    pub(crate) fn has(self, looking: bool) -> bool {
        match self {
            Self::Never => !looking,
            Self::Sometimes => true,
            Self::Always => looking,
        }
    }
}
