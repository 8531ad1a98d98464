//! The numbers that kernels compute with.

use std::fmt::Debug;

use crate::simd::Arithmetic;

/// `f32` or `f64`: what tensors hold, and what scores, weights and sums are computed in.
///
/// # Example
///
/// ```
/// use mha_cpu::Real;
///
/// fn half<T: Real>(x: T) -> T {
///     T::from_f64(x.to_f64() / 2.0)
/// }
/// assert_eq!(half(3.0_f32), 1.5);
/// ```
pub trait Real: Copy + Debug + PartialEq + PartialOrd + Default + Send + Sync + Arithmetic {
    /// Rounds to this type.
    fn from_f64(x: f64) -> Self;
    /// Widens to a double.
    fn to_f64(self) -> f64;
}

impl Real for f32 {
    fn from_f64(x: f64) -> Self {
        x as f32
    }
    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Real for f64 {
    fn from_f64(x: f64) -> Self {
        x
    }
    fn to_f64(self) -> f64 {
        self
    }
}
