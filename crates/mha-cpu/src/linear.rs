//! A linear layer: what attention's projections are.

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
pub fn linear<T: Real>(
    input: View<'_, T, 2>,
    weight: View<'_, T, 2>,
    bias: Option<&[T]>,
) -> Result<Vec<T>, Error> {
    let [rows, d_in] = input.dims();
    let [_, d_out] = weight.dims();
    let mut out = Vec::with_capacity(rows * d_out);
    for row in 0..rows {
        for column in 0..d_out {
            let start = bias.map_or(0.0, |bias| bias[column].to_f64());
            let sum = (0..d_in)
                .map(|d| input.get([row, d]).to_f64() * weight.get([d, column]).to_f64())
                .sum::<f64>();
            out.push(T::from_f64(start + sum));
        }
    }
    Ok(out)
}

/// The gradients of [`linear`], each if wanted: of `input` `[rows, d_in]`, of `weight`
/// `[d_in, d_out]` and of `bias` `[d_out]`, row-major.
///
/// # Errors
///
/// When a size does not fit.
pub fn linear_backward<T: Real>(
    input: View<'_, T, 2>,
    weight: View<'_, T, 2>,
    d_output: View<'_, T, 2>,
    wanted: [bool; 3],
) -> Result<[Option<Vec<T>>; 3], Error> {
    let [rows, d_in] = input.dims();
    let [_, d_out] = weight.dims();
    let sum = |n: usize, term: &dyn Fn(usize) -> f64| T::from_f64((0..n).map(term).sum());
    let mut d_input = Vec::new();
    let mut d_weight = Vec::new();
    for row in 0..rows {
        for d in 0..d_in {
            d_input.push(sum(d_out, &|c| {
                d_output.get([row, c]).to_f64() * weight.get([d, c]).to_f64()
            }));
        }
    }
    for d in 0..d_in {
        for c in 0..d_out {
            d_weight.push(sum(rows, &|row| {
                input.get([row, d]).to_f64() * d_output.get([row, c]).to_f64()
            }));
        }
    }
    let d_bias = (0..d_out).map(|c| sum(rows, &|row| d_output.get([row, c]).to_f64())).collect();
    let [i, w, b] = wanted;
    Ok([i.then_some(d_input), w.then_some(d_weight), b.then_some(d_bias)])
}
