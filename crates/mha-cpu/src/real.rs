//! The numbers that kernels compute with.

use std::fmt::Debug;
use std::ops::{Add, Mul};

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
pub trait Real:
    Copy
    + Debug
    + PartialOrd
    + Default
    + Send
    + Sync
    + Add<Output = Self>
    + Mul<Output = Self>
    + Arithmetic
    + 'static
{
    /// Rounds to this type.
    fn from_f64(x: f64) -> Self;
    /// Widens to a double.
    fn to_f64(self) -> f64;
    /// Whether it is neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// The smallest finite number.
    #[doc(hidden)]
    const LEAST: Self;
}

impl Real for f32 {
    fn from_f64(x: f64) -> Self {
        x as f32
    }
    fn to_f64(self) -> f64 {
        self.into()
    }
    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }
    const LEAST: Self = Self::MIN;
}

impl Real for f64 {
    fn from_f64(x: f64) -> Self {
        x
    }
    fn to_f64(self) -> f64 {
        self
    }
    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }
    const LEAST: Self = Self::MIN;
}
