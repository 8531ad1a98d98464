//! Which weights dropout drops: a function of the seed and of the pair's place.
//!
//! Each weight gets a word, a pseudo-random number of 31 bits, by the mixing step of Wellons 2018,
//! "Prospecting for hash functions", <https://nullprogram.com/blog/2018/07/31/>, on 31 bits. Two keys
//! per row (batch, head, query) and one per column (key) are mixed into it, so that forward and
//! backward find the same pattern without storing it.

use crate::Real;

const MASK: u32 = 0x7fff_ffff;
const M1: u32 = 0x21f0_aaad;
const M2: u32 = 0x735a_2d97;
/// Starts the second row key elsewhere than the first: the fraction of the golden ratio.
const SECOND: u32 = 0x1e37_79b9;

/// The dropout of one call.
///
/// # Example
///
/// ```
/// use mha_cpu::Dropout;
///
/// let dropout = Dropout { probability: 0.25, words: [1, 2] };
/// let share = (0..4000).filter(|&j| dropout.drops([0, 0, 0, j])).count();
/// assert!((900..1100).contains(&share));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// In `[0, 1)`; the other weights are multiplied by 1 / (1 - probability).
    pub probability: f64,
    /// The seed: two numbers of 31 bits.
    pub words: [u32; 2],
}

impl Dropout {
    /// Whether the weight of batch entry, head, query and key is dropped.
    pub fn drops(&self, [b, h, i, j]: [usize; 4]) -> bool {
        self.drops_in(self.row([b, h, i]), j)
    }

    /// The same, given the keys of the row.
    fn drops_in(&self, row: [u32; 2], j: usize) -> bool {
        word(row, column(j)) < self.threshold()
    }

    /// Words below it are dropped.
    pub(crate) fn threshold(&self) -> u32 {
        // Below 2³¹ also for a probability that rounds to 1.
        (self.probability * f64::from(1u32 << 31)).round().min(f64::from(MASK)) as u32
    }

    /// What a weight is multiplied by, given the keys of its row.
    pub(crate) fn factor<T: Real>(&self, row: [u32; 2], j: usize) -> T {
        T::from_f64(if self.drops_in(row, j) { 0.0 } else { 1.0 / (1.0 - self.probability) })
    }

    /// The two keys of a row.
    pub(crate) fn row(&self, [b, h, i]: [usize; 3]) -> [u32; 2] {
        let [low, high] = self.words.map(|word| word & MASK);
        let [b, h, i] = [b, h, i].map(|x| x as u32 & MASK);
        [low, high ^ SECOND].map(|start| mix(mix(mix(mix(start) ^ b) ^ h) ^ i))
    }
}

/// The key of a column.
pub(crate) fn column(j: usize) -> u32 {
    mix((j as u32 & MASK) ^ SECOND)
}

/// The word of a pair.
#[inline(always)]
pub(crate) fn word([first, second]: [u32; 2], column: u32) -> u32 {
    let x = first ^ column;
    let x = multiply(x ^ (x >> 16), M1) ^ second;
    let x = multiply(x ^ (x >> 15), M2);
    x ^ (x >> 15)
}

#[inline(always)]
fn mix(x: u32) -> u32 {
    let x = multiply(x ^ (x >> 16), M1);
    let x = multiply(x ^ (x >> 15), M2);
    x ^ (x >> 15)
}

#[inline(always)]
fn multiply(x: u32, by: u32) -> u32 {
    x.wrapping_mul(by) & MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same words as on every other path.
    #[test]
    fn golden_words() {
        let dropout = Dropout { probability: 0.5, words: [0x2feb_6e95, 0x3dd7_3226] };
        let golden = [
            ([0, 0, 0, 0], 0x5646_1187),
            ([0, 0, 0, 1], 0x1b40_201b),
            ([0, 0, 1, 0], 0x7912_1d9f),
            ([0, 1, 0, 0], 0x5e9c_ec00),
            ([1, 0, 0, 0], 0x6c5b_64b3),
            ([3, 5, 7, 11], 0x6471_b8b9),
        ];
        for ([b, h, i, j], expected) in golden {
            assert_eq!(word(dropout.row([b, h, i]), column(j)), expected);
        }
    }
}
