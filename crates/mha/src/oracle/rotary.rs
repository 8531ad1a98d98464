//! Rotary position embedding: pairs of features turned by an angle that the position decides.

use num_traits::Float;

use super::places;

/// Turns the first `width` features of every head in pairs, each by its own angle: (a, b) becomes
/// `magnitude` (a cos − b sin, b cos + a sin). The other features stay as they are.
///
/// Pair `i` is features `2i` and `2i + 1` if `interleaved`, else `i` and `i + width / 2`.
/// `angle(batch, seq, pair)` is in radians; position p and base θ give p θ^(−2 pair / width).
///
/// # Shapes
///
/// - `x`, and what is returned: `[batch, seq, heads, head_dim]`
///
/// # Panics
///
/// When `x` has another length, or `width` is odd or more than `head_dim`.
///
/// Su et al. 2021, sections 3.2.2 and 3.4.2: <https://arxiv.org/abs/2104.09864>.
///
/// # Example
///
/// ```
/// use mha::oracle::rotate;
///
/// // One token; a quarter turn of the first pair, a half turn of the second.
/// let quarter = std::f64::consts::FRAC_PI_2;
/// let angle = |_batch, _seq, pair| quarter * [1.0, 2.0][pair];
/// let turned = |interleaved| {
///     let x = rotate(&[1.0, 2.0, 3.0, 4.0, 9.0], [1, 1, 1, 5], 4, interleaved, 1.0, angle);
///     x.into_iter().map(f64::round).collect::<Vec<_>>()
/// };
/// assert_eq!(turned(true), [-2.0, 1.0, -3.0, -4.0, 9.0]); // pairs (1, 2) and (3, 4)
/// assert_eq!(turned(false), [-3.0, -2.0, 1.0, -4.0, 9.0]); // pairs (1, 3) and (2, 4)
/// ```
pub fn rotate<T: Float>(
    x: &[T],
    [batch, seq, heads, head_dim]: [usize; 4],
    width: usize,
    interleaved: bool,
    magnitude: T,
    angle: impl Fn(usize, usize, usize) -> T,
) -> Vec<T> {
    assert_eq!(x.len(), batch * seq * heads * head_dim, "length of x");
    assert!(width.is_multiple_of(2) && width <= head_dim, "width {width} of {head_dim} features");
    let mut rotated = x.to_vec();
    for [entry, position, head, pair] in places([batch, seq, heads, width / 2]) {
        let start = ((entry * seq + position) * heads + head) * head_dim;
        let (first, second) =
            if interleaved { (2 * pair, 2 * pair + 1) } else { (pair, pair + width / 2) };
        let (a, b) = (x[start + first], x[start + second]);
        let (sin, cos) = angle(entry, position, pair).sin_cos();
        rotated[start + first] = (a * cos - b * sin) * magnitude;
        rotated[start + second] = (b * cos + a * sin) * magnitude;
    }
    rotated
}

/// The gradient of [`rotate`] with respect to `x`, given that of its output: the transpose of a
/// turn is the opposite turn.
///
/// # Shapes
///
/// - `d_rotated`, and what is returned: `[batch, seq, heads, head_dim]`
///
/// # Panics
///
/// As [`rotate`].
///
/// # Example
///
/// ```
/// use mha::oracle::rotate_backward;
///
/// let quarter = std::f64::consts::FRAC_PI_2;
/// let d_x = rotate_backward(&[1.0, 0.0], [1, 1, 1, 2], 2, true, 3.0, |_, _, _| quarter);
/// assert!((d_x[1] + 3.0).abs() < 1e-15); // the first output is −3 times the second input
/// ```
pub fn rotate_backward<T: Float>(
    d_rotated: &[T],
    dims: [usize; 4],
    width: usize,
    interleaved: bool,
    magnitude: T,
    angle: impl Fn(usize, usize, usize) -> T,
) -> Vec<T> {
    rotate(d_rotated, dims, width, interleaved, magnitude, |batch, seq, pair| {
        -angle(batch, seq, pair)
    })
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_close, assert_gradient, dot, numbers};
    use super::*;

    const DIMS: [usize; 4] = [2, 3, 5, 7];
    const COUNT: usize = 2 * 3 * 5 * 7;

    fn angle(batch: usize, seq: usize, pair: usize) -> f64 {
        (10 * batch + seq) as f64 * 100f64.powf(-2.0 * pair as f64 / 6.0)
    }

    #[test]
    fn gradient_is_central_differences() {
        for (width, interleaved) in [(6, true), (6, false), (4, true), (2, false), (0, true)] {
            let (x, d_rotated) = (numbers(1, COUNT), numbers(2, COUNT));
            let loss =
                |x: &[f64]| dot(&rotate(x, DIMS, width, interleaved, 1.3, angle), &d_rotated);
            let d_x = rotate_backward(&d_rotated, DIMS, width, interleaved, 1.3, angle);
            assert_gradient("x", &x, &d_x, loss);
        }
    }

    /// What the rotation is for: the product of a query and a key depends on their distance only.
    #[test]
    fn products_depend_on_the_distance() {
        let (query, key) = (numbers(3, 6), numbers(4, 6));
        let product = |at_query: usize, at_key: usize, interleaved| {
            let turn = |x: &[f64], at| {
                rotate(x, [1, 1, 1, 6], 6, interleaved, 1.0, |_, _, pair| angle(0, at, pair))
            };
            dot(&turn(&query, at_query), &turn(&key, at_key))
        };
        for interleaved in [true, false] {
            let [near, far] = [0, 40].map(|shift| product(5 + shift, 2 + shift, interleaved));
            assert_close("product", &[far], &[near], 1e-13);
            assert!((product(5, 2, interleaved) - product(5, 3, interleaved)).abs() > 1e-3);
        }
    }

    /// Reordered features turn the same in either layout.
    #[test]
    fn layouts_differ_by_the_order_of_features() {
        let x = numbers(5, COUNT);
        let halves = |x: &[f64]| -> Vec<f64> {
            let order = [0, 2, 4, 1, 3, 5, 6];
            x.chunks(7).flat_map(|row| order.map(|feature| row[feature])).collect()
        };
        let interleaved = rotate(&x, DIMS, 6, true, 1.0, angle);
        assert_eq!(rotate(&halves(&x), DIMS, 6, false, 1.0, angle), halves(&interleaved));
    }

    #[test]
    #[should_panic(expected = "width 3 of 7 features")]
    fn an_odd_width_is_refused() {
        rotate(&numbers(1, COUNT), DIMS, 3, true, 1.0, angle);
    }
}
