//! ALiBi: scores fall with distance, at another slope in each head.

/// The slope of each head; a score loses slope · distance.
///
/// With c the largest power of two up to `n_heads`, the first c heads have 2^(-8(j + 1) / c) and the
/// others 2^(-4(2j + 1) / c), each with j from 0: every second slope of twice as many heads.
///
/// Press et al. 2021, section 3: <https://arxiv.org/abs/2108.12409>. The slopes where `n_heads` is
/// no power of two are those of the authors' code and of BLOOM.
///
/// # Example
///
/// ```
/// let slopes = mha::alibi_slopes(6);
/// assert_eq!(slopes, [1.0 / 4.0, 1.0 / 16.0, 1.0 / 64.0, 1.0 / 256.0, 1.0 / 2.0, 1.0 / 8.0]);
/// ```
pub fn alibi_slopes(n_heads: usize) -> Vec<f64> {
    let Some(log) = n_heads.checked_ilog2() else { return Vec::new() };
    let count = 1usize << log;
    let slope = |eighths: usize| (-4.0 * eighths as f64 / count as f64).exp2();
    let first = (0..count).map(|j| slope(2 * (j + 1)));
    let between = (0..n_heads - count).map(|j| slope(2 * j + 1));
    first.chain(between).collect()
}

#[cfg(test)]
mod tests {
    use std::f64::consts::FRAC_1_SQRT_2;

    use super::*;

    #[test]
    fn known_slopes() {
        assert!(alibi_slopes(0).is_empty());
        assert_eq!(alibi_slopes(1), [1.0 / 256.0]);
        assert_eq!(alibi_slopes(8), [1, 2, 3, 4, 5, 6, 7, 8].map(|k| 0.5f64.powi(k)));
        let twelve = alibi_slopes(12);
        assert_eq!(twelve[..8], alibi_slopes(8));
        let between = [1.0, 0.5, 0.25, 0.125].map(|x| x * FRAC_1_SQRT_2);
        for (slope, expected) in twelve[8..].iter().zip(between) {
            assert!((slope - expected).abs() < 1e-15, "{slope} for {expected}");
        }
    }

    /// The definition in the authors' code: the closest power of two, then every second slope of
    /// twice as many heads.
    fn recursive(n_heads: usize) -> Vec<f64> {
        if n_heads.is_power_of_two() {
            let ratio = 2f64.powf(-8.0 / n_heads as f64);
            return (1..=n_heads).map(|k| ratio.powi(k as i32)).collect();
        }
        let closest = n_heads.next_power_of_two() / 2;
        let mut slopes = recursive(closest);
        slopes.extend(recursive(2 * closest).iter().step_by(2).take(n_heads - closest));
        slopes
    }

    #[test]
    fn equal_to_the_recursive_definition() {
        for n_heads in 1..=128 {
            let (ours, theirs) = (alibi_slopes(n_heads), recursive(n_heads));
            assert_eq!(ours.len(), n_heads);
            assert_eq!(theirs.len(), n_heads);
            for (a, b) in ours.iter().zip(&theirs) {
                assert!((a / b - 1.0).abs() < 1e-12, "{n_heads} heads: {a} for {b}");
            }
        }
    }
}
