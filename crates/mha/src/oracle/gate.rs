//! A gate on the context: how much of each number passes.

use num_traits::Float;

/// `context` times sigmoid(`logits`), number by number; for one gate per head the caller repeats
/// its logit over the head's features.
///
/// # Panics
///
/// When the lengths differ.
///
/// Qiu et al. 2025, section 2.2: <https://arxiv.org/abs/2505.06708>.
///
/// # Example
///
/// ```
/// use mha::oracle::gate;
///
/// let half_open = gate(&[3.0, -8.0, 5.0], &[0.0, 3f64.ln(), -1e4]);
/// assert_eq!(half_open, [1.5, -6.0, 0.0]);
/// ```
pub fn gate<T: Float>(context: &[T], logits: &[T]) -> Vec<T> {
    assert_eq!(context.len(), logits.len(), "lengths of context and logits");
    context.iter().zip(logits).map(|(&x, &logit)| x * sigmoid(logit)).collect()
}

/// The gradients of [`gate`] with respect to context and logits, given the output's.
///
/// # Panics
///
/// When the lengths differ.
///
/// # Example
///
/// ```
/// use mha::oracle::gate_backward;
///
/// let [context, logits] = gate_backward(&[8.0], &[0.0], &[1.0]);
/// assert_eq!((context, logits), (vec![0.5], vec![2.0]));
/// ```
pub fn gate_backward<T: Float>(context: &[T], logits: &[T], d_output: &[T]) -> [Vec<T>; 2] {
    assert_eq!(context.len(), logits.len(), "lengths of context and logits");
    assert_eq!(context.len(), d_output.len(), "lengths of context and d_output");
    // sigmoid(−x) is 1 − sigmoid(x), without its rounding error where sigmoid(x) is near 1.
    let slope = |logit: T| sigmoid(logit) * sigmoid(-logit);
    let each = 0..context.len();
    [
        each.clone().map(|index| d_output[index] * sigmoid(logits[index])).collect(),
        each.map(|index| d_output[index] * context[index] * slope(logits[index])).collect(),
    ]
}

fn sigmoid<T: Float>(x: T) -> T {
    T::one() / (T::one() + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::super::check::{assert_gradient, dot, numbers};
    use super::*;

    #[test]
    fn gradients_are_central_differences() {
        let (context, d_output) = (numbers(1, 11), numbers(2, 11));
        let logits: Vec<f64> = numbers(3, 11).iter().map(|x| 4.0 * x).collect();
        let [d_context, d_logits] = gate_backward(&context, &logits, &d_output);
        assert_gradient("context", &context, &d_context, |x| dot(&gate(x, &logits), &d_output));
        assert_gradient("logits", &logits, &d_logits, |x| dot(&gate(&context, x), &d_output));
    }

    #[test]
    fn large_logits_are_open_or_shut() {
        assert_eq!(gate(&[2.0, 2.0], &[1e4, -1e4]), [2.0, 0.0]);
        let [context, logits] = gate_backward(&[2.0, 2.0], &[1e4, -1e4], &[1.0, 1.0]);
        assert_eq!((context, logits), (vec![1.0, 0.0], vec![0.0, 0.0]));
    }
}
