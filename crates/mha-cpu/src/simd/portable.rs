//! Vectors as arrays: for machines without kernels of their own. The compiler makes of them what the
//! target has.

use super::{Lanes32, Simd};

/// Arrays of 256 bits.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

macro_rules! portable {
    ($T:ty, $L:literal, $bias:literal, $mantissa:literal) => {
        impl Simd<$T> for Portable {
            const LANES: usize = $L;
            const LEAST_EXPONENT: f64 = -$bias as f64;
            type Lanes = Lanes32<$T, $L>;
            type Vector = [$T; $L];

            #[inline(always)]
            fn load(self, from: &Self::Lanes) -> Self::Vector {
                from.0
            }
            #[inline(always)]
            fn store(self, vector: Self::Vector, to: &mut Self::Lanes) {
                to.0 = vector;
            }
            #[inline(always)]
            fn splat(self, value: $T) -> Self::Vector {
                [value; $L]
            }
            #[inline(always)]
            fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                std::array::from_fn(|l| a[l] + b[l])
            }
            #[inline(always)]
            fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                std::array::from_fn(|l| a[l] - b[l])
            }
            #[inline(always)]
            fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                std::array::from_fn(|l| a[l] * b[l])
            }
            #[inline(always)]
            fn div(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                std::array::from_fn(|l| a[l] / b[l])
            }
            // Not `mul_add`: without the instruction it is a call of the library.
            #[inline(always)]
            fn fma(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
                std::array::from_fn(|l| a[l] * b[l] + c[l])
            }
            #[inline(always)]
            fn max(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                std::array::from_fn(|l| if a[l] > b[l] { a[l] } else { b[l] })
            }
            #[inline(always)]
            fn min(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
                std::array::from_fn(|l| if a[l] < b[l] { a[l] } else { b[l] })
            }
            // Adding 1.5 times the first power of two that has no fraction rounds to even.
            #[inline(always)]
            fn round(self, a: Self::Vector) -> Self::Vector {
                const ROUND: $T = 1.5 * ((1u64 << $mantissa) as $T);
                std::array::from_fn(|l| (a[l] + ROUND) - ROUND)
            }
            // The bits of 2^n are n + bias in the exponent; those of 2^-bias are 0.
            #[inline(always)]
            fn scale(self, a: Self::Vector, n: Self::Vector) -> Self::Vector {
                const SHIFT: $T = (1u64 << $mantissa) as $T + $bias as $T;
                std::array::from_fn(|l| {
                    let exponent = (n[l] + SHIFT).to_bits();
                    a[l] * <$T>::from_bits(exponent << $mantissa)
                })
            }
            #[inline(always)]
            fn select(self, bits: u32, yes: Self::Vector, no: Self::Vector) -> Self::Vector {
                std::array::from_fn(|l| if bits >> l & 1 == 1 { yes[l] } else { no[l] })
            }
            #[inline(always)]
            fn interleave(self, a: Self::Vector, b: Self::Vector) -> [Self::Vector; 2] {
                let at = |l: usize| if l % 2 == 0 { a[l / 2] } else { b[l / 2] };
                [std::array::from_fn(at), std::array::from_fn(|l| at(l + $L))]
            }
        }
    };
}
portable!(f32, 8, 127, 23);
portable!(f64, 4, 1023, 52);
