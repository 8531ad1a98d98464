//! All that the compiler cannot check: instructions that not every machine has, rows of one buffer
//! written by several threads, and the one foreign function that takes pointers. Every other file is
//! safe Rust.
#![expect(unsafe_code, reason = "this is the file for it; each block says why it is sound")]

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::buffers::Buffers;
use crate::simd::{Arithmetic, EXPM1_F32, EXPM1_F64, Isa, Kernel, Portable};
use crate::{Call, Error, Gradients, Output, Real, Saved, Wanted};

/// One buffer cut into rows of `width`, each of which one task may write.
pub(crate) struct Rows<'a, T> {
    start: *mut T,
    width: usize,
    taken: Vec<AtomicBool>,
    buffer: PhantomData<&'a mut [T]>,
}

// SAFETY: what threads share is the right to take a row, and no row can be taken twice, so at most
// one thread has a reference to any element; that is sound whenever the elements may be sent.
unsafe impl<T: Send> Sync for Rows<'_, T> {}

impl<'a, T> Rows<'a, T> {
    pub(crate) fn new(buffer: &'a mut [T], width: usize) -> Self {
        let count = buffer.len().checked_div(width).unwrap_or(0);
        let taken = (0..count).map(|_| AtomicBool::new(false)).collect();
        Self { start: buffer.as_mut_ptr(), width, taken, buffer: PhantomData }
    }

    /// Row `row`.
    ///
    /// # Panics
    ///
    /// When there is no such row, or it was taken before.
    pub(crate) fn take(&self, row: usize) -> &'a mut [T] {
        assert!(!self.taken[row].swap(true, Ordering::Relaxed), "row {row} is taken");
        // SAFETY: `taken` has a place for each whole row of the buffer, so the row lies inside; the
        // line above lets each row through once, and rows do not overlap; the buffer is borrowed
        // mutably for 'a.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.width), self.width) }
    }
}

/// `left` times `right`: `[m, k]` times `[k, n]`, each a slice with the strides of its rows and columns.
#[derive(Debug, Clone, Copy)]
pub struct Product<'a, T> {
    pub(crate) sizes: [usize; 3],
    pub(crate) left: (&'a [T], [isize; 2]),
    pub(crate) right: (&'a [T], [isize; 2]),
    /// Whether the product is added to what is there.
    pub(crate) add: bool,
}

/// Whether every element of a matrix that starts at the slice's first lies in it.
fn fits<T>(slice: &[T], [rows, columns]: [usize; 2], strides: [isize; 2]) -> bool {
    let [down, along] = strides.map(|stride| stride as i128);
    let last = (rows as i128 - 1) * down + (columns as i128 - 1) * along;
    down >= 0 && along >= 0 && last < slice.len() as i128
}

fn gemm<T: Copy + 'static>(product: Product<'_, T>, [zero, one]: [T; 2], out: &mut [T]) {
    let Product { sizes: [m, k, n], left, right, add } = product;
    assert_eq!(out.len(), m * n, "the size of the product");
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 {
        if !add {
            out.fill(zero);
        }
        return;
    }
    assert!(fits(left.0, [m, k], left.1), "left: {:?} of {}", left.1, left.0.len());
    assert!(fits(right.0, [k, n], right.1), "right: {:?} of {}", right.1, right.0.len());
    let threads = gemm::Parallelism::Rayon(0);
    // SAFETY: all three matrices lie in their slices, as asserted: `out` is [m, n], row-major, and
    // `left` and `right` end inside with strides that are not negative. `out` is borrowed mutably, so
    // it overlaps neither.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            add,
            left.0.as_ptr(),
            left.1[1],
            left.1[0],
            right.0.as_ptr(),
            right.1[1],
            right.1[0],
            one,
            one,
            false,
            false,
            false,
            threads,
        );
    }
}

macro_rules! arithmetic {
    ($T:ty, $expm1:expr) => {
        impl Arithmetic for $T {
            const EXPM1: &'static [Self] = &$expm1;

            fn dispatch<K: Kernel<Self>>(isa: Isa, kernel: K) -> K::Out
            where
                Self: Real,
            {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => {
                        let simd = x86::Avx512::new().expect("this machine has AVX-512");
                        // SAFETY: the line above made sure of the instructions.
                        unsafe { x86::with_avx512(simd, kernel) }
                    }
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => {
                        let simd = x86::Avx2::new().expect("this machine has AVX2 and FMA");
                        // SAFETY: the line above made sure of the instructions.
                        unsafe { x86::with_avx2(simd, kernel) }
                    }
                    _ => kernel.run::<Portable, 4, 1>(Portable),
                }
            }

            fn forward(isa: Isa, call: &Call<'_, Self>) -> Result<Output<Self>, Error> {
                crate::forward::forward(isa, call)
            }

            fn backward(
                isa: Isa,
                call: &Call<'_, Self>,
                saved: &Saved<'_, Self>,
                wanted: Wanted,
            ) -> Result<Gradients<Self>, Error> {
                crate::backward::backward(isa, call, saved, wanted)
            }

            fn buffers() -> &'static Buffers<Self> {
                static BUFFERS: Buffers<$T> = Buffers::new();
                &BUFFERS
            }

            fn gemm(product: Product<'_, Self>, out: &mut [Self]) {
                gemm(product, [0.0, 1.0], out);
            }
        }
    };
}
arithmetic!(f32, EXPM1_F32);
arithmetic!(f64, EXPM1_F64);

pub(crate) fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    return x86::Avx512::new().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

pub(crate) fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return x86::Avx2::new().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use crate::Real;
    use crate::simd::{Kernel, Lanes32, Lanes64, Simd};

    /// The proof that this machine has AVX-512 F, VL, DQ and BW.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Avx512(());

    impl Avx512 {
        pub(super) fn new() -> Option<Self> {
            let all = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw")
                && Avx2::new().is_some();
            all.then_some(Self(()))
        }
    }

    /// The proof that this machine has AVX2 and FMA.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Avx2(());

    impl Avx2 {
        pub(super) fn new() -> Option<Self> {
            let all = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            all.then_some(Self(()))
        }
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
    pub(super) fn with_avx512<T: Real, K: Kernel<T>>(simd: Avx512, kernel: K) -> K::Out
    where
        Avx512: Simd<T>,
    {
        kernel.run::<Avx512, 8, 2>(simd)
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn with_avx2<T: Real, K: Kernel<T>>(simd: Avx2, kernel: K) -> K::Out
    where
        Avx2: Simd<T>,
    {
        kernel.run::<Avx2, 4, 2>(simd)
    }

    macro_rules! simd {
        (
            $Isa:ty, $T:ty, $L:literal, $Lanes:ident, $Vector:ty, least $least:literal,
            $load:ident $store:ident $splat:ident $add:ident $sub:ident $mul:ident $div:ident
            $fma:ident $max:ident $min:ident,
            round: |$r:ident| $round:expr,
            scale: |$a:ident, $n:ident| $scale:expr,
            select: |$bits:ident, $yes:ident, $no:ident| $select:expr,
            interleave: |$x:ident, $y:ident| $interleave:expr $(,)?
        ) => {
            impl Simd<$T> for $Isa {
                const LANES: usize = $L;
                const LEAST_EXPONENT: f64 = $least;
                type Lanes = $Lanes<$T, $L>;
                type Vector = $Vector;

                // SAFETY, of all that follow: `self` is the proof that the instructions are there.
                // Memory is touched by `load` and `store` alone, and they are given a reference to
                // as many numbers as the vector holds.
                #[inline(always)]
                fn load(self, from: &Self::Lanes) -> $Vector {
                    // SAFETY: see above.
                    unsafe { $load(from.0.as_ptr()) }
                }
                #[inline(always)]
                fn store(self, vector: $Vector, to: &mut Self::Lanes) {
                    // SAFETY: see above.
                    unsafe { $store(to.0.as_mut_ptr(), vector) }
                }
                #[inline(always)]
                fn splat(self, value: $T) -> $Vector {
                    // SAFETY: see above.
                    unsafe { $splat(value) }
                }
                #[inline(always)]
                fn prefetch(self, row: &[$T]) {
                    for line in row.chunks_exact(64 / size_of::<$T>()) {
                        // SAFETY: see above; what is fetched is in the slice, and nothing is read.
                        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) }
                    }
                }
                simd!(@binary $Vector, add $add, sub $sub, mul $mul, div $div, max $max, min $min);
                #[inline(always)]
                fn fma(self, a: $Vector, b: $Vector, c: $Vector) -> $Vector {
                    // SAFETY: see above.
                    unsafe { $fma(a, b, c) }
                }
                #[inline(always)]
                fn round(self, $r: $Vector) -> $Vector {
                    // SAFETY: see above.
                    unsafe { $round }
                }
                #[inline(always)]
                fn scale(self, $a: $Vector, $n: $Vector) -> $Vector {
                    // SAFETY: see above.
                    unsafe { $scale }
                }
                #[inline(always)]
                fn select(self, $bits: u32, $yes: $Vector, $no: $Vector) -> $Vector {
                    // SAFETY: see above.
                    unsafe { $select }
                }
                #[inline(always)]
                fn interleave(self, $x: $Vector, $y: $Vector) -> [$Vector; 2] {
                    // SAFETY: see above.
                    unsafe { $interleave }
                }
            }
        };
        (@binary $Vector:ty, $($name:ident $instruction:ident),+) => {
            $(#[inline(always)]
            fn $name(self, a: $Vector, b: $Vector) -> $Vector {
                // SAFETY: see above.
                unsafe { $instruction(a, b) }
            })+
        };
    }

    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

    simd!(
        Avx512, f32, 16, Lanes64, __m512, least -160.0,
        _mm512_load_ps _mm512_store_ps _mm512_set1_ps _mm512_add_ps _mm512_sub_ps _mm512_mul_ps
        _mm512_div_ps _mm512_fmadd_ps _mm512_max_ps _mm512_min_ps,
        round: |a| _mm512_roundscale_ps::<NEAREST>(a),
        scale: |a, n| _mm512_scalef_ps(a, n),
        select: |bits, yes, no| _mm512_mask_blend_ps(bits as u16, no, yes),
        interleave: |a, b| {
            let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
            [_mm512_permutex2var_ps(a, low, b), _mm512_permutex2var_ps(a, high, b)]
        },
    );
    simd!(
        Avx512, f64, 8, Lanes64, __m512d, least -1100.0,
        _mm512_load_pd _mm512_store_pd _mm512_set1_pd _mm512_add_pd _mm512_sub_pd _mm512_mul_pd
        _mm512_div_pd _mm512_fmadd_pd _mm512_max_pd _mm512_min_pd,
        round: |a| _mm512_roundscale_pd::<NEAREST>(a),
        scale: |a, n| _mm512_scalef_pd(a, n),
        select: |bits, yes, no| _mm512_mask_blend_pd(bits as u8, no, yes),
        interleave: |a, b| {
            let low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
            let high = _mm512_add_epi64(low, _mm512_set1_epi64(4));
            [_mm512_permutex2var_pd(a, low, b), _mm512_permutex2var_pd(a, high, b)]
        },
    );
    // The bits of 2^n are n + bias in the exponent; those of 2^-bias are 0.
    simd!(
        Avx2, f32, 8, Lanes32, __m256, least -127.0,
        _mm256_load_ps _mm256_store_ps _mm256_set1_ps _mm256_add_ps _mm256_sub_ps _mm256_mul_ps
        _mm256_div_ps _mm256_fmadd_ps _mm256_max_ps _mm256_min_ps,
        round: |a| _mm256_round_ps::<NEAREST>(a),
        scale: |a, n| {
            let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
        },
        select: |bits, yes, no| {
            let lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let set = _mm256_and_si256(_mm256_set1_epi32(bits as i32), lane);
            let set = _mm256_cmpeq_epi32(set, lane);
            _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(set))
        },
        // Within halves first: the low halves of both then make the low result.
        interleave: |a, b| {
            let (low, high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            [
                _mm256_permute2f128_ps::<0x20>(low, high),
                _mm256_permute2f128_ps::<0x31>(low, high),
            ]
        },
    );
    simd!(
        Avx2, f64, 4, Lanes32, __m256d, least -1023.0,
        _mm256_load_pd _mm256_store_pd _mm256_set1_pd _mm256_add_pd _mm256_sub_pd _mm256_mul_pd
        _mm256_div_pd _mm256_fmadd_pd _mm256_max_pd _mm256_min_pd,
        round: |a| _mm256_round_pd::<NEAREST>(a),
        scale: |a, n| {
            let exponent = _mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(n));
            let exponent = _mm256_add_epi64(exponent, _mm256_set1_epi64x(1023));
            _mm256_mul_pd(a, _mm256_castsi256_pd(_mm256_slli_epi64::<52>(exponent)))
        },
        select: |bits, yes, no| {
            let lane = _mm256_setr_epi64x(1, 2, 4, 8);
            let set = _mm256_and_si256(_mm256_set1_epi64x(i64::from(bits)), lane);
            let set = _mm256_cmpeq_epi64(set, lane);
            _mm256_blendv_pd(no, yes, _mm256_castsi256_pd(set))
        },
        interleave: |a, b| {
            let (low, high) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
            [
                _mm256_permute2f128_pd::<0x20>(low, high),
                _mm256_permute2f128_pd::<0x31>(low, high),
            ]
        },
    );
}
