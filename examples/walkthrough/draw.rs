//! Normally distributed numbers from a fixed seed, the same on every machine.

use std::f64::consts::TAU;

use mha_examples::random::SplitMix64;

use crate::numbers::Matrix;

/// Draws from the normal distribution with mean 0 and variance 1.
#[derive(Debug)]
pub(crate) struct Normal {
    bits: SplitMix64,
}

impl Normal {
    pub(crate) fn new(seed: u64) -> Self {
        Self { bits: SplitMix64::new(seed) }
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

    /// A number above 0 and up to 1.
    fn uniform(&mut self) -> f64 {
        ((self.bits.next_bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}
