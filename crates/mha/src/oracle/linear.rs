//! A linear layer in plain loops.

use num_traits::Float;

use super::{places, sum};

/// A linear layer in plain loops: `input` `[rows, d_input]` times `weight` `[d_input, d_output]`,
/// plus `bias` `[d_output]` if there is one.
///
/// # Panics
///
/// When the lengths do not fit together.
///
/// # Example
///
/// ```
/// use mha::oracle::linear;
///
/// // Two rows of two features, to one feature.
/// let output = linear(&[1.0, 2.0, 3.0, 4.0], &[10.0, 1.0], Some(&[0.5]), 2);
/// assert_eq!(output, [12.5, 34.5]);
/// ```
pub fn linear<T: Float>(input: &[T], weight: &[T], bias: Option<&[T]>, d_input: usize) -> Vec<T> {
    let (rows, d_output) = (input.len() / d_input, weight.len() / d_input);
    assert_eq!((rows * d_input, d_input * d_output), (input.len(), weight.len()), "lengths");
    let cell = |[row, o]: [usize; 2]| {
        let products = (0..d_input).map(|f| input[row * d_input + f] * weight[f * d_output + o]);
        sum(products) + bias.map_or(T::zero(), |bias| bias[o])
    };
    places([rows, d_output]).into_iter().map(cell).collect()
}

/// The gradients of [`linear`] with respect to input, weight and bias, given the output's,
/// `[rows, width]`.
///
/// # Panics
///
/// When the lengths do not fit together.
///
/// # Example
///
/// ```
/// use mha::oracle::linear_backward;
///
/// let [input, weight, bias] = linear_backward(&[1.0, 2.0], &[10.0, 1.0], &[3.0], 1);
/// assert_eq!((input, weight, bias), (vec![30.0, 3.0], vec![3.0, 6.0], vec![3.0]));
/// ```
pub fn linear_backward<T: Float>(
    input: &[T],
    weight: &[T],
    d_output: &[T],
    width: usize,
) -> [Vec<T>; 3] {
    let (rows, d_input) = (d_output.len() / width, weight.len() / width);
    assert_eq!((rows * d_input, rows * width), (input.len(), d_output.len()), "lengths");
    let to_input = |[row, f]: [usize; 2]| {
        sum((0..width).map(|o| d_output[row * width + o] * weight[f * width + o]))
    };
    let to_weight = |[f, o]: [usize; 2]| {
        sum((0..rows).map(|row| input[row * d_input + f] * d_output[row * width + o]))
    };
    let to_bias = |o: usize| sum((0..rows).map(|row| d_output[row * width + o]));
    [
        places([rows, d_input]).into_iter().map(to_input).collect(),
        places([d_input, width]).into_iter().map(to_weight).collect(),
        (0..width).map(to_bias).collect(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_gradient, dot, numbers};
    use super::*;

    #[test]
    fn gradients_are_central_differences() {
        let (rows, d_input, width) = (3, 5, 2);
        let (x, w, b) =
            (numbers(1, rows * d_input), numbers(2, d_input * width), numbers(3, width));
        let d_output = numbers(4, rows * width);
        let loss =
            |x: &[f64], w: &[f64], b: &[f64]| dot(&linear(x, w, Some(b), d_input), &d_output);
        let [d_x, d_w, d_b] = linear_backward(&x, &w, &d_output, width);
        assert_gradient("input", &x, &d_x, |x| loss(x, &w, &b));
        assert_gradient("weight", &w, &d_w, |w| loss(&x, w, &b));
        assert_gradient("bias", &b, &d_b, |b| loss(&x, &w, b));
    }
}
