//! The products of the tiles: `M` rows of numbers times vectors, held in registers.
//!
//! All have the same form: each of `M` sums is `N` vectors wide, and for every step of the inner axis
//! `M` numbers are spread over a vector and multiplied with the same `N` vectors. They differ in where
//! the numbers lie.

use crate::Real;
use crate::simd::{Lanes, Simd};

/// `M` × `N` vectors of sums.
pub(crate) type Sums<T, S, const M: usize, const N: usize> = [[<S as Simd<T>>::Vector; N]; M];

/// Vectors side by side: what a row of a tile is.
pub(crate) type Row<T, S, const N: usize> = [<S as Simd<T>>::Lanes; N];

/// The number in one lane of a row.
#[inline(always)]
pub(crate) fn lane<T: Real, S: Simd<T>, const N: usize>(row: &Row<T, S, N>, lane: usize) -> T {
    row[lane / S::LANES].numbers()[lane % S::LANES]
}

/// The place of one lane of a row.
#[inline(always)]
pub(crate) fn lane_mut<T: Real, S: Simd<T>, const N: usize>(
    row: &mut Row<T, S, N>,
    lane: usize,
) -> &mut T {
    &mut row[lane / S::LANES].numbers_mut()[lane % S::LANES]
}

/// The product of two rows of numbers.
#[inline(always)]
pub(crate) fn dot<T: Real, S: Simd<T>>(simd: S, a: &[T], b: &[T]) -> T {
    let mut sums = simd.splat(T::default());
    let (a, b) = (a.chunks_exact(S::LANES), b.chunks_exact(S::LANES));
    let rest = a.remainder().iter().zip(b.remainder());
    let rest = rest.fold(T::default(), |sum, (&a, &b)| sum + a * b);
    for (a, b) in a.zip(b) {
        sums = simd.fma(simd.load_from(a), simd.load_from(b), sums);
    }
    total(simd, sums) + rest
}

/// The sum of the lanes, added in pairs.
#[inline(always)]
pub(crate) fn total<T: Real, S: Simd<T>>(simd: S, vector: S::Vector) -> T {
    let mut lanes = S::Lanes::all(T::default());
    simd.store(vector, &mut lanes);
    let numbers = lanes.numbers_mut();
    let mut width = S::LANES / 2;
    while width > 0 {
        for n in 0..width {
            numbers[n] = numbers[n] + numbers[n + width];
        }
        width /= 2;
    }
    numbers[0]
}

#[inline(always)]
pub(crate) fn zeros<T: Real, S: Simd<T>, const M: usize, const N: usize>(
    simd: S,
) -> Sums<T, S, M, N> {
    [[simd.splat(T::default()); N]; M]
}

#[inline(always)]
pub(crate) fn load<T: Real, S: Simd<T>, const M: usize, const N: usize>(
    simd: S,
    from: &[Row<T, S, N>; M],
) -> Sums<T, S, M, N> {
    let mut sums = zeros(simd);
    for m in 0..M {
        for n in 0..N {
            sums[m][n] = simd.load(&from[m][n]);
        }
    }
    sums
}

#[inline(always)]
pub(crate) fn store<T: Real, S: Simd<T>, const M: usize, const N: usize>(
    simd: S,
    sums: Sums<T, S, M, N>,
    to: &mut [Row<T, S, N>; M],
) {
    for m in 0..M {
        for n in 0..N {
            simd.store(sums[m][n], &mut to[m][n]);
        }
    }
}

/// Adds `left[m][k]` times `right[k]` for every k: the numbers of a sum lie side by side.
#[inline(always)]
pub(crate) fn add_rows<T: Real, S: Simd<T>, const M: usize, const N: usize>(
    simd: S,
    sums: &mut Sums<T, S, M, N>,
    left: [&[T]; M],
    right: &[Row<T, S, N>],
) {
    let mut rows = left;
    for m in 0..M {
        rows[m] = &left[m][..right.len()];
    }
    for k in 0..right.len() {
        let mut vectors = [simd.splat(T::default()); N];
        for n in 0..N {
            vectors[n] = simd.load(&right[k][n]);
        }
        for m in 0..M {
            let number = simd.splat(rows[m][k]);
            for n in 0..N {
                sums[m][n] = simd.fma(number, vectors[n], sums[m][n]);
            }
        }
    }
}

/// Adds `left[k * width + m]` times `right[k]` for every k: the numbers of a step lie side by side, and
/// `width` is a multiple of `M`.
#[inline(always)]
pub(crate) fn add_columns<T: Real, S: Simd<T>, const M: usize, const N: usize>(
    simd: S,
    sums: &mut Sums<T, S, M, N>,
    left: &[T],
    width: usize,
    right: &[Row<T, S, N>],
) {
    let mut rest = left;
    for vectors in right {
        let Some((numbers, _)) = rest.split_first_chunk::<M>() else { break };
        rest = rest.get(width..).unwrap_or(&[]);
        let mut right = [simd.splat(T::default()); N];
        for n in 0..N {
            right[n] = simd.load(&vectors[n]);
        }
        for m in 0..M {
            let number = simd.splat(numbers[m]);
            for n in 0..N {
                sums[m][n] = simd.fma(number, right[n], sums[m][n]);
            }
        }
    }
}

/// Adds, for every lane l of `left[m]`, that number times `right[l]`: what lies in the lanes is summed
/// over.
#[inline(always)]
pub(crate) fn add_lanes<T: Real, S: Simd<T>, const M: usize, const N: usize>(
    simd: S,
    sums: &mut Sums<T, S, M, N>,
    left: &[Row<T, S, N>; M],
    right: &[Row<T, S, N>],
) {
    for (n, right) in right.chunks_exact(S::LANES).enumerate() {
        let mut rows = [left[0][n].numbers(); M];
        for m in 0..M {
            rows[m] = left[m][n].numbers();
        }
        add_rows(simd, sums, rows, right);
    }
}
