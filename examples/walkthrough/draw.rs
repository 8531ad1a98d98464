//! Normally distributed numbers from a fixed seed, the same on every machine.

use std::f64::consts::TAU;

use crate::numbers::Matrix;

/// Draws from the normal distribution with mean 0 and variance 1.
#[derive(Debug)]
pub(crate) struct Normal {
    state: u64,
}

impl Normal {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// `n` numbers.
    pub(crate) fn row(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.next()).collect()
    }

    /// `rows` times `columns` numbers, each multiplied by `scale`.
    pub(crate) fn matrix(&mut self, rows: usize, columns: usize, scale: f64) -> Matrix {
        (0..rows).map(|_| self.row(columns).iter().map(|x| x * scale).collect()).collect()
    }

    /// Box and Muller 1958: two uniform numbers make a normal one.
    fn next(&mut self) -> f64 {
        let (radius, angle) = (self.uniform(), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (TAU * angle).cos()
    }

    /// A number above 0 and up to 1, by SplitMix64 (Steele, Lea and Flood 2014).
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}
