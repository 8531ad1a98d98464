//! Linear layers, by the `gemm` crate: what attention's projections are.

use std::borrow::Cow;

use rayon::prelude::*;

use crate::buffers::{Recycled, stale};
use crate::call::shape;
use crate::machine::Product;
use crate::transpose::transposed;
use crate::{Error, Real, View};

/// `input` times `weight`, plus `bias`: `[rows, d_out]`, row-major.
///
/// # Shapes
///
/// - `input`: `[rows, d_in]`; `weight`: `[d_in, d_out]`; `bias`: `[d_out]`
///
/// # Errors
///
/// When a size does not fit.
///
/// # Example
///
/// ```
/// use mha_cpu::{View, linear};
///
/// let input = View::contiguous(&[1.0_f32, 2.0], [1, 2])?;
/// let weight = View::contiguous(&[3.0_f32, 4.0], [2, 1])?;
/// assert_eq!(linear(input, weight, Some(&[0.5]))?, [11.5]);
/// # Ok::<(), mha_cpu::Error>(())
/// ```
pub fn linear<T: Real>(
    input: View<'_, T, 2>,
    weight: View<'_, T, 2>,
    bias: Option<&[T]>,
) -> Result<Vec<T>, Error> {
    let [rows, d_in] = input.dims();
    let [_, d_out] = weight.dims();
    shape("weight", WEIGHT, &[d_in, d_out], &weight.dims())?;
    let mut out = stale(rows * d_out);
    if let Some(bias) = bias {
        shape("bias", "d_out", &[d_out], &[bias.len()])?;
    }
    let (input, weight) = (Matrix::new(&input), Matrix::new(&weight));
    // Of a single row `gemm` adds one product after the other to what is there: were that the bias,
    // each sum would be rounded at its size.
    let first = bias.filter(|_| rows > 1);
    if let Some(bias) = first {
        let fill = |rows: &mut [T]| {
            rows.chunks_exact_mut(d_out).for_each(|row| row.copy_from_slice(bias));
        };
        out.par_chunks_mut((FILL * d_out).max(1)).for_each(fill);
    }
    multiply(&input, &weight, first.is_some(), &mut out);
    if let Some(bias) = bias.filter(|_| rows == 1) {
        out.iter_mut().zip(bias).for_each(|(out, &bias)| *out = *out + bias);
    }
    Ok(out)
}

/// The gradients of [`linear`], each if wanted: of `input` `[rows, d_in]`, of `weight`
/// `[d_in, d_out]` and of `bias` `[d_out]`, row-major.
///
/// # Errors
///
/// When a size does not fit.
///
/// # Example
///
/// ```
/// use mha_cpu::{View, linear_backward};
///
/// let input = View::contiguous(&[1.0_f32, 2.0], [1, 2])?;
/// let weight = View::contiguous(&[3.0_f32, 4.0], [2, 1])?;
/// let d_output = View::contiguous(&[10.0_f32], [1, 1])?;
/// let [d_input, d_weight, d_bias] = linear_backward(input, weight, d_output, [true; 3])?;
/// assert_eq!(d_input, Some(vec![30.0, 40.0]));
/// assert_eq!(d_weight, Some(vec![10.0, 20.0]));
/// assert_eq!(d_bias, Some(vec![10.0]));
/// # Ok::<(), mha_cpu::Error>(())
/// ```
pub fn linear_backward<T: Real>(
    input: View<'_, T, 2>,
    weight: View<'_, T, 2>,
    d_output: View<'_, T, 2>,
    wanted: [bool; 3],
) -> Result<[Option<Vec<T>>; 3], Error> {
    let [rows, d_in] = input.dims();
    let [_, d_out] = weight.dims();
    shape("weight", WEIGHT, &[d_in, d_out], &weight.dims())?;
    shape("d_output", "rows, d_out", &[rows, d_out], &d_output.dims())?;
    let d_output = Matrix::new(&d_output);
    let product = |left: &Matrix<'_, T>, right: &Matrix<'_, T>| {
        let mut out = stale(left.dims[0] * right.dims[1]);
        multiply(left, right, false, &mut out);
        out
    };
    let [of_input, of_weight, of_bias] = wanted;
    Ok([
        of_input.then(|| product(&d_output, &Matrix::new(&weight).transposed())),
        of_weight.then(|| product(&Matrix::new(&input).transposed(), &d_output)),
        of_bias.then(|| d_output.sum_of_rows()),
    ])
}

const WEIGHT: &str = "d_in, d_out";

/// Rows that one task fills with the bias.
const FILL: usize = 128;

/// A matrix whose rows and columns both run forwards.
#[derive(Debug, Clone)]
struct Matrix<'a, T: Clone> {
    /// From the first element on.
    data: Cow<'a, [T]>,
    dims: [usize; 2],
    strides: [isize; 2],
}

impl<'a, T: Real> Matrix<'a, T> {
    fn new(view: &View<'a, T, 2>) -> Self {
        let dims = view.dims();
        if let Some((data, strides)) = view.forwards() {
            return Self { data: Cow::Borrowed(data), dims, strides };
        }
        let [rows, columns] = dims;
        let mut data = vec![T::default(); rows * columns];
        for (row, to) in data.chunks_exact_mut(columns.max(1)).enumerate() {
            view.copy([row, 0], 0..columns, to);
        }
        Self { data: Cow::Owned(data), dims, strides: [columns as isize, 1] }
    }

    fn transposed(self) -> Self {
        let ([rows, columns], [down, along]) = (self.dims, self.strides);
        Self { dims: [columns, rows], strides: [along, down], ..self }
    }

    /// The sum of each column. Rows are added up in groups, whose sums are then added: so the rounding
    /// error grows with the larger of the two, not with the rows.
    fn sum_of_rows(&self) -> Vec<T> {
        const GROUP: usize = 128;
        let ([rows, columns], [down, along]) = (self.dims, self.strides);
        let mut all = vec![T::default(); columns];
        let mut group = vec![T::default(); columns];
        for start in (0..rows).step_by(GROUP) {
            group.fill(T::default());
            for row in start..rows.min(start + GROUP) {
                let row = &self.data[row * down as usize..];
                if along == 1 {
                    group.iter_mut().zip(row).for_each(|(sum, &x)| *sum = *sum + x);
                } else {
                    let row = (0..columns).map(|column| row[column * along as usize]);
                    group.iter_mut().zip(row).for_each(|(sum, x)| *sum = *sum + x);
                }
            }
            all.iter_mut().zip(&group).for_each(|(sum, &x)| *sum = *sum + x);
        }
        all
    }
}

/// The product, row-major; `add`: added to what is in `out`.
fn multiply<T: Real>(left: &Matrix<'_, T>, right: &Matrix<'_, T>, add: bool, out: &mut [T]) {
    let ([m, k], [_, n]) = (left.dims, right.dims);
    let sizes = [m, k, n];
    let left = (&*left.data, left.strides);
    match right.strides {
        // Faster here than in `gemm`.
        [1, stride] if m > 1 => {
            let rows = Recycled::new(transposed(&right.data, [n, k], stride as usize));
            T::gemm(Product { sizes, left, right: (&rows, [n as isize, 1]), add }, out);
        }
        strides => T::gemm(Product { sizes, left, right: (&right.data, strides), add }, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against sums in f64, through every kind of stride.
    #[test]
    fn products_and_gradients() {
        let numbers = |n: usize, by: usize| -> Vec<f32> {
            (0..n).map(|x| (x * by % 23) as f32 - 11.0).collect()
        };
        // Larger products than these are not for Miri: what gemm does with threads is beyond it.
        let count = if cfg!(miri) { 2 } else { 4 };
        let sizes = [[0, 3, 5], [1, 1, 1], [7, 3, 5], [300, 17, 33]];
        for [rows, d_in, d_out] in sizes.into_iter().take(count) {
            let (x, w, g) =
                (numbers(rows * d_in, 7), numbers(d_in * d_out, 5), numbers(rows * d_out, 3));
            let bias = numbers(d_out, 11);
            let weights = [
                View::contiguous(&w, [d_in, d_out]).unwrap(),
                View::new(&w, 0, [d_in, d_out], [1, d_in as isize]).unwrap(),
                View::new(&w, d_in * d_out - 1, [d_in, d_out], [-(d_out as isize), -1]).unwrap(),
                View::new(&w, 0, [d_in, d_out], [0, 1]).unwrap(),
            ];
            let gradients = [
                View::contiguous(&g, [rows, d_out]).unwrap(),
                View::new(&g, 0, [rows, d_out], [1, rows as isize]).unwrap(),
                View::new(&g, 0, [rows, d_out], [0, 0]).unwrap(),
            ];
            let input = View::contiguous(&x, [rows, d_in]).unwrap();
            // All are small integers: sums are exact.
            let sum = |n: usize, term: &dyn Fn(usize) -> f32| (0..n).map(term).sum::<f32>();
            for weight in weights {
                let out = linear(input, weight, Some(&bias)).unwrap();
                for (at, &out) in out.iter().enumerate() {
                    let (r, c) = (at / d_out, at % d_out);
                    let product = sum(d_in, &|d| input.get([r, d]) * weight.get([d, c]));
                    assert_eq!(out, bias[c] + product);
                }
                for g in gradients {
                    let [d_x, d_w, d_b] = linear_backward(input, weight, g, [true; 3]).unwrap();
                    for (at, d_x) in d_x.unwrap().into_iter().enumerate() {
                        let (r, d) = (at / d_in, at % d_in);
                        assert_eq!(d_x, sum(d_out, &|c| g.get([r, c]) * weight.get([d, c])));
                    }
                    for (at, d_w) in d_w.unwrap().into_iter().enumerate() {
                        let (d, c) = (at / d_out, at % d_out);
                        assert_eq!(d_w, sum(rows, &|r| input.get([r, d]) * g.get([r, c])));
                    }
                    for (c, d_b) in d_b.unwrap().into_iter().enumerate() {
                        assert_eq!(d_b, sum(rows, &|r| g.get([r, c])));
                    }
                }
            }
        }
    }

    /// One row, as a decode step has it: no further off than the sum of its products and the bias.
    #[test]
    fn one_row_with_a_bias_is_as_exact_as_more() {
        let (d_in, d_out) = (200, 40);
        let numbers = |n: usize, by: usize| -> Vec<f32> {
            (0..n).map(|x| (x * by % 1009) as f32 / 504.5 - 1.0).collect()
        };
        let (x, w) = (numbers(d_in, 7), numbers(d_in * d_out, 5));
        let bias: Vec<f32> = numbers(d_out, 11).iter().map(|x| 30.0 * x).collect();
        let weight = View::contiguous(&w, [d_in, d_out]).unwrap();
        let error = |rows: usize| {
            let x = x.repeat(rows);
            let input = View::contiguous(&x, [rows, d_in]).unwrap();
            let out = linear(input, weight, Some(&bias)).unwrap();
            (0..d_out)
                .map(|c| {
                    let term = |d: usize| f64::from(x[d]) * f64::from(w[d * d_out + c]);
                    let exact = f64::from(bias[c]) + (0..d_in).map(term).sum::<f64>();
                    (f64::from(out[c]) - exact).abs()
                })
                .fold(0.0, f64::max)
        };
        let (one, more) = (error(1), error(4));
        assert!(one <= 2.0 * more, "{one:e}, of more rows {more:e}");
    }

    #[test]
    fn sizes_that_do_not_fit() {
        let numbers = [0.0_f32; 12];
        let matrix = |dims| View::contiguous(&numbers, dims).unwrap();
        let error =
            |result: Result<_, Error>| result.map(|_: Vec<f32>| ()).unwrap_err().to_string();
        assert_eq!(
            error(linear(matrix([2, 3]), matrix([4, 3]), None)),
            "weight: expected [3, 3] (d_in, d_out), got [4, 3]"
        );
        assert_eq!(
            error(linear(matrix([2, 3]), matrix([3, 4]), Some(&[0.0; 3]))),
            "bias: expected [4] (d_out), got [3]"
        );
        let error = linear_backward(matrix([2, 3]), matrix([3, 4]), matrix([3, 4]), [true; 3]);
        assert_eq!(
            error.unwrap_err().to_string(),
            "d_output: expected [2, 4] (rows, d_out), got [3, 4]"
        );
    }
}
