//! Normalization of the last axis, as queries and keys have it before their product.

use num_traits::Float;

use super::{number, sum};

/// Which normalization: all are γ (x − μ) / √(p + ε) + β, row by row.
///
/// # Example
///
/// ```
/// use mha::oracle::Norm;
///
/// let (row, gamma) = ([3.0, 4.0], [1.0, 10.0]);
/// assert_eq!(Norm::L2.forward(&row, &gamma, None, 0.0), [0.6, 8.0]);
/// assert_eq!(Norm::Layer.forward(&row, &gamma, None, 0.0), [-1.0, 10.0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// μ = 0, p the mean of x². Zhang and Sennrich 2019, section 4:
    /// <https://arxiv.org/abs/1910.07467>.
    Rms,
    /// μ the mean, p the mean of (x − μ)². Ba et al. 2016, section 3:
    /// <https://arxiv.org/abs/1607.06450>.
    Layer,
    /// μ = 0, p the sum of x². Henry et al. 2020: <https://arxiv.org/abs/2010.04245>.
    L2,
}

impl Norm {
    /// Normalizes each row of `x`.
    ///
    /// `epsilon` is 0 or more; with 0 a row of zeros (in [`Norm::Layer`], of equal numbers) gives
    /// NaN.
    ///
    /// # Shapes
    ///
    /// - `x`, and what is returned: `[rows, width]`
    /// - `gamma`, and `beta` if there is one: `[width]`
    ///
    /// # Panics
    ///
    /// When the lengths do not fit together.
    pub fn forward<T: Float>(self, x: &[T], gamma: &[T], beta: Option<&[T]>, epsilon: T) -> Vec<T> {
        let width = gamma.len();
        assert!(x.len().is_multiple_of(width), "{} numbers in rows of {width}", x.len());
        assert!(beta.is_none_or(|beta| beta.len() == width), "length of beta");
        let mut out = Vec::new();
        for row in x.chunks(width) {
            let (normal, _) = self.normalize(row, epsilon);
            for f in 0..width {
                out.push(normal[f] * gamma[f] + beta.map_or(T::zero(), |beta| beta[f]));
            }
        }
        out
    }

    /// The gradients of x, gamma and beta, given the output's; beta's value does not matter.
    ///
    /// With r = √(p + ε), n = (x − μ) / r and dn = γ dy: dx = (dn − n Σ dn n / N − mean(dn)) / r,
    /// where N is 1 in [`Norm::L2`] and the width elsewhere, and only [`Norm::Layer`] has the
    /// mean.
    ///
    /// # Panics
    ///
    /// When the lengths do not fit together.
    ///
    /// # Example
    ///
    /// ```
    /// use mha::oracle::Norm;
    ///
    /// let [x, gamma, beta] = Norm::L2.backward(&[0.0, 2.0], &[4.0, 1.0], &[1.0, 1.0], 0.0);
    /// assert_eq!(x, [2.0, 0.0]); // along the row itself nothing changes
    /// assert_eq!((gamma, beta), (vec![0.0, 1.0], vec![1.0, 1.0]));
    /// ```
    pub fn backward<T: Float>(
        self,
        x: &[T],
        gamma: &[T],
        d_output: &[T],
        epsilon: T,
    ) -> [Vec<T>; 3] {
        let width = gamma.len();
        assert!(x.len().is_multiple_of(width), "{} numbers in rows of {width}", x.len());
        assert_eq!(d_output.len(), x.len(), "length of d_output");
        let mut d_x = Vec::new();
        let [mut d_gamma, mut d_beta] = [vec![T::zero(); width], vec![T::zero(); width]];
        for (row, d_row) in x.chunks(width).zip(d_output.chunks(width)) {
            let (normal, root) = self.normalize(row, epsilon);
            let d_normal: Vec<T> = (0..width).map(|f| d_row[f] * gamma[f]).collect();
            let through_power =
                sum((0..width).map(|f| d_normal[f] * normal[f])) / self.terms(width);
            let through_mean = self.mean(&d_normal);
            for f in 0..width {
                d_x.push((d_normal[f] - normal[f] * through_power - through_mean) / root);
                d_gamma[f] = d_gamma[f] + d_row[f] * normal[f];
                d_beta[f] = d_beta[f] + d_row[f];
            }
        }
        [d_x, d_gamma, d_beta]
    }

    /// The row (x − μ) / √(p + ε), and the root √(p + ε).
    fn normalize<T: Float>(self, row: &[T], epsilon: T) -> (Vec<T>, T) {
        let mean = self.mean(row);
        let centred: Vec<T> = row.iter().map(|&x| x - mean).collect();
        let power = sum(centred.iter().map(|&x| x * x)) / self.terms(row.len());
        let root = (power + epsilon).sqrt();
        (centred.into_iter().map(|x| x / root).collect(), root)
    }

    /// What is taken off every number of a row.
    fn mean<T: Float>(self, row: &[T]) -> T {
        match self {
            Norm::Layer => sum(row.iter().copied()) / number(row.len() as f64),
            Norm::Rms | Norm::L2 => T::zero(),
        }
    }

    /// What the sum of squares is divided by.
    fn terms<T: Float>(self, width: usize) -> T {
        match self {
            Norm::Rms | Norm::Layer => number(width as f64),
            Norm::L2 => T::one(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_close, assert_gradient, dot, numbers};
    use super::*;

    const WIDTH: usize = 5;
    const EPSILON: f64 = 1e-2; // large, so that a wrong place for it shows

    #[test]
    fn gradients_are_central_differences() {
        let (x, d_output) = (numbers(1, 3 * WIDTH), numbers(2, 3 * WIDTH));
        let (gamma, beta) = (numbers(3, WIDTH), numbers(4, WIDTH));
        for norm in [Norm::Rms, Norm::Layer, Norm::L2] {
            let loss = |x: &[f64], gamma: &[f64], beta: &[f64]| {
                dot(&norm.forward(x, gamma, Some(beta), EPSILON), &d_output)
            };
            let [d_x, d_gamma, d_beta] = norm.backward(&x, &gamma, &d_output, EPSILON);
            assert_gradient("x", &x, &d_x, |x| loss(x, &gamma, &beta));
            assert_gradient("gamma", &gamma, &d_gamma, |gamma| loss(&x, gamma, &beta));
            assert_gradient("beta", &beta, &d_beta, |beta| loss(&x, &gamma, beta));
        }
    }

    #[test]
    fn values_are_the_formulas() {
        let (row, gamma, beta) =
            ([1.0, 2.0, 4.0, 5.0], [1.0, -1.0, 2.0, 3.0], [0.0, 1.0, 0.0, 0.5]);
        // Squares sum to 46, and to 10 around the mean of 3.
        let expected = |mean: f64, power: f64| -> Vec<f64> {
            let normal = row.map(|x| (x - mean) / (power + EPSILON).sqrt());
            (0..4).map(|f| gamma[f] * normal[f] + beta[f]).collect()
        };
        for (norm, mean, power) in
            [(Norm::Rms, 0.0, 11.5), (Norm::Layer, 3.0, 2.5), (Norm::L2, 0.0, 46.0)]
        {
            let out = norm.forward(&row, &gamma, Some(&beta), EPSILON);
            assert_close("row", &out, &expected(mean, power), 1e-14);
        }
    }

    #[test]
    fn a_row_of_zeros_is_finite_with_an_epsilon() {
        for norm in [Norm::Rms, Norm::Layer, Norm::L2] {
            assert_eq!(norm.forward(&[0.0; 2], &[1.0; 2], None, 1e-6), [0.0; 2]);
            let [d_x, d_gamma, _] = norm.backward(&[0.0; 2], &[1.0; 2], &[1.0, -1.0], 1e-6);
            assert_close("x", &d_x, &[1e3, -1e3], 1e-9);
            assert_eq!(d_gamma, [0.0; 2]);
        }
    }
}
