//! Vectors of numbers: one trait for every instruction set, so that each kernel is written once.

mod isa;
mod portable;

use std::fmt::Debug;

pub use isa::Isa;
pub(crate) use portable::Portable;

use crate::buffers::Buffers;
use crate::{Call, Error, Gradients, Output, Real, Saved, Wanted};

/// See [`Arithmetic::EXPM1`].
pub(crate) const EXPM1_F32: [f32; 6] = [
    std::f32::consts::LN_2,
    0.240_226_49,
    0.055_503_573,
    0.009_618_238,
    0.001_339_073_5,
    0.000_154_035_2,
];

/// See [`Arithmetic::EXPM1`].
pub(crate) const EXPM1_F64: [f64; 11] = [
    std::f64::consts::LN_2, // off by 3e-18
    0.240_226_506_959_100_98,
    0.055_504_108_664_821_236,
    0.009_618_129_107_607_07,
    0.001_333_355_814_653_189,
    0.000_154_035_304_414_740_37,
    0.000_015_252_733_700_882_155,
    1.321_544_272_769_501e-6,
    1.017_812_146_646_336_5e-7,
    7.072_561_103_237_951e-9,
    4.445_508_730_365_037e-10,
];

/// What [`Real`] numbers bring for the kernels; not to be implemented elsewhere.
pub trait Arithmetic: Sized + 'static {
    /// Coefficients of `(2^f - 1) / f` on `[-1/2, 1/2]` by powers of f, with the least greatest
    /// relative error (Remez' algorithm): 1.1e-8 for f32, 1.8e-17 for f64.
    #[doc(hidden)]
    const EXPM1: &'static [Self];

    /// Runs a kernel on an instruction set that this machine has.
    #[doc(hidden)]
    fn dispatch<K: Kernel<Self>>(isa: Isa, kernel: K) -> K::Out
    where
        Self: Real;

    /// The forward pass, compiled once for this type: a generic function would be compiled again in
    /// each crate that calls it, and with that crate's optimization.
    #[doc(hidden)]
    fn forward(isa: Isa, call: &Call<'_, Self>) -> Result<Output<Self>, Error>
    where
        Self: Real;

    /// The backward pass, likewise.
    #[doc(hidden)]
    fn backward(
        isa: Isa,
        call: &Call<'_, Self>,
        saved: &Saved<'_, Self>,
        wanted: Wanted,
    ) -> Result<Gradients<Self>, Error>
    where
        Self: Real;

    /// Buffers that wait to be used again.
    #[doc(hidden)]
    fn buffers() -> &'static Buffers<Self>;

    /// A product of matrices, on all cores; see `machine::gemm`.
    #[doc(hidden)]
    fn gemm(product: crate::machine::Product<'_, Self>, out: &mut [Self]);
}

/// Code that is compiled once for each instruction set. `run` is `#[inline(always)]`, and so is all
/// that it calls in its loops: only code that is inlined into the dispatching function may use its
/// instructions.
#[doc(hidden)]
pub trait Kernel<T: Real> {
    type Out;
    /// `M` and `N`: a block of `M` numbers by `N` vectors is what the registers hold of a product.
    fn run<S: Simd<T>, const M: usize, const N: usize>(self, simd: S) -> Self::Out;
}

/// `L` numbers in memory, aligned for the widest vectors.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Lanes64<T, const L: usize>(pub(crate) [T; L]);

/// The same, aligned for vectors of half that width.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Lanes32<T, const L: usize>(pub(crate) [T; L]);

/// As many numbers in memory as a vector holds.
#[doc(hidden)]
pub trait Lanes<T>: Copy + Debug + Send + Sync {
    fn all(value: T) -> Self;
    fn numbers(&self) -> &[T];
    fn numbers_mut(&mut self) -> &mut [T];
    /// Takes the first numbers of a slice; where it has fewer, the others keep what they had. Whole
    /// vectors are moved without a call.
    fn copy_from(&mut self, from: &[T]);
    /// Writes the first numbers, as many as the slice takes.
    fn copy_to(&self, to: &mut [T]);
}

macro_rules! lanes {
    ($($name:ident),+) => {
        $(impl<T: Copy + Debug + Send + Sync, const L: usize> Lanes<T> for $name<T, L> {
            #[inline(always)]
            fn all(value: T) -> Self {
                Self([value; L])
            }
            #[inline(always)]
            fn numbers(&self) -> &[T] {
                &self.0
            }
            #[inline(always)]
            fn numbers_mut(&mut self) -> &mut [T] {
                &mut self.0
            }
            #[inline(always)]
            fn copy_from(&mut self, from: &[T]) {
                match from.first_chunk() {
                    Some(all) => self.0 = *all,
                    None => self.0[..from.len()].copy_from_slice(from),
                }
            }
            #[inline(always)]
            fn copy_to(&self, to: &mut [T]) {
                match to.first_chunk_mut() {
                    Some(all) => *all = self.0,
                    None => to.copy_from_slice(&self.0[..to.len()]),
                }
            }
        })+
    };
}
lanes!(Lanes64, Lanes32);

/// One instruction set for one type of number. A value of the type is the proof that this machine has
/// the instructions.
#[doc(hidden)]
pub trait Simd<T: Real>: Copy + Send + Sync {
    /// Numbers in a vector.
    const LANES: usize;
    /// The smallest power of two that `exp2` tells from 0.
    const LEAST_EXPONENT: f64;
    type Lanes: Lanes<T>;
    type Vector: Copy;

    fn load(self, from: &Self::Lanes) -> Self::Vector;
    fn store(self, vector: Self::Vector, to: &mut Self::Lanes);
    fn splat(self, value: T) -> Self::Vector;

    /// Says that these numbers will be read soon.
    #[inline(always)]
    fn prefetch(self, _row: &[T]) {}

    /// The first numbers of a slice; 0 where it has fewer.
    #[inline(always)]
    fn load_from(self, numbers: &[T]) -> Self::Vector {
        let mut lanes = Self::Lanes::all(T::default());
        lanes.copy_from(numbers);
        self.load(&lanes)
    }

    /// The first numbers of a vector, as many as the slice takes.
    #[inline(always)]
    fn store_to(self, vector: Self::Vector, numbers: &mut [T]) {
        let mut lanes = Self::Lanes::all(T::default());
        self.store(vector, &mut lanes);
        lanes.copy_to(numbers);
    }

    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// a b + c
    fn fma(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// The larger; `b` where either is NaN.
    fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The smaller; `b` where either is NaN.
    fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// To the nearest integer.
    fn round(self, a: Self::Vector) -> Self::Vector;
    /// `a` times 2 to the `n`, an integer of at least `LEAST_EXPONENT` in each lane.
    fn scale(self, a: Self::Vector, n: Self::Vector) -> Self::Vector;
    /// Lane l of `yes` where bit l of `bits` is set, else of `no`.
    fn select(self, bits: u32, yes: Self::Vector, no: Self::Vector) -> Self::Vector;
    /// a0 b0 a1 b1 .., in two vectors.
    fn interleave(self, a: Self::Vector, b: Self::Vector) -> [Self::Vector; 2];
}

/// (2^f - 1) / f for f in `[-1/2, 1/2]`.
#[inline(always)]
fn expm1_over<T: Real, S: Simd<T>>(simd: S, f: S::Vector) -> S::Vector {
    let mut sum = simd.splat(T::EXPM1[T::EXPM1.len() - 1]);
    for &coefficient in T::EXPM1[..T::EXPM1.len() - 1].iter().rev() {
        sum = simd.fma(sum, f, simd.splat(coefficient));
    }
    sum
}

/// 2^x; exactly 0 for -∞, NaN for NaN. x is at most as large as the exponents of the type.
#[inline(always)]
pub(crate) fn exp2<T: Real, S: Simd<T>>(simd: S, x: S::Vector) -> S::Vector {
    let x = simd.max(simd.splat(T::from_f64(S::LEAST_EXPONENT)), x);
    let n = simd.round(x);
    let f = simd.sub(x, n);
    let power = simd.fma(expm1_over(simd, f), f, simd.splat(T::from_f64(1.0)));
    simd.scale(power, n)
}

/// The hyperbolic tangent, to a few roundings for small x too.
///
/// tanh x = -e / (2 + e) with e = 2^y - 1 and y = -2 x log₂ e; and with y = n + f, where n is an
/// integer, e = 2^n (2^f - 1) + (2^n - 1).
#[inline(always)]
pub(crate) fn tanh<T: Real, S: Simd<T>>(simd: S, x: S::Vector) -> S::Vector {
    let number = |x: f64| simd.splat(T::from_f64(x));
    let limit = 20.0; // from here on the result is 1, in f64 too
    let x = simd.min(number(limit), simd.max(number(-limit), x));
    let y = simd.mul(x, number(-2.0 * std::f64::consts::LOG2_E));
    let n = simd.round(y);
    let f = simd.sub(y, n);
    let power = simd.scale(number(1.0), n);
    let expm1 = simd.fma(simd.mul(expm1_over(simd, f), f), power, simd.sub(power, number(1.0)));
    simd.div(simd.sub(number(0.0), expm1), simd.add(number(2.0), expm1))
}

/// The derivative of [`tanh`], 4 p / (1 + p)² with p = e^(-2 |x|): 1 - tanh² x is the difference of two
/// numbers near 1 where x is large, and has few right digits.
#[inline(always)]
pub(crate) fn sech2<T: Real, S: Simd<T>>(simd: S, x: S::Vector) -> S::Vector {
    let number = |x: f64| simd.splat(T::from_f64(x));
    let size = simd.max(x, simd.sub(number(0.0), x));
    let p = exp2(simd, simd.mul(size, number(-2.0 * std::f64::consts::LOG2_E)));
    let sum = simd.add(number(1.0), p);
    simd.div(simd.mul(number(4.0), p), simd.mul(sum, sum))
}
