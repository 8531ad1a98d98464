//! Cosines and sines of many positions, in f64 on the host.

/// Positions per block; see [`turns`].
const BLOCK: i64 = 64;

/// magnitude · cos(pω) and magnitude · sin(pω) for each position p and, within it, frequency ω,
/// each passed through `round`.
///
/// With p = 64q + r, the angle is that of the block, 64qω, and one of 64 steps, rω; a complex
/// product adds them. So a run of positions costs few sines, no error grows along it, and a
/// position has the same bits in whatever run it comes: cached decoding turns keys exactly as one
/// pass over the whole sequence does.
pub(super) fn turns<T>(
    frequencies: &[f64],
    magnitude: f64,
    positions: &[Vec<i64>],
    round: impl Fn(f64) -> T,
) -> (Vec<T>, Vec<T>) {
    let turn = |position: i64, magnitude: f64| -> Vec<(f64, f64)> {
        let angles = frequencies.iter().map(|frequency| position as f64 * frequency);
        angles.map(|x| (magnitude * x.cos(), magnitude * x.sin())).collect()
    };
    let mut steps = [const { None }; BLOCK as usize];
    let mut start = 0;
    let mut block = turn(start, magnitude);

    let count = positions.iter().map(Vec::len).sum::<usize>() * frequencies.len();
    let (mut all_cos, mut all_sin) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for &position in positions.iter().flatten() {
        let beyond = position.rem_euclid(BLOCK);
        if position - beyond != start {
            start = position - beyond;
            block = turn(start, magnitude);
        }
        let step: &Vec<_> = steps[beyond as usize].get_or_insert_with(|| turn(beyond, 1.0));
        let pairs = || block.iter().zip(step);
        all_cos.extend(pairs().map(|(a, b)| round(a.0 * b.0 - a.1 * b.1)));
        all_sin.extend(pairs().map(|(a, b)| round(a.1 * b.0 + a.0 * b.1)));
    }
    (all_cos, all_sin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rotary;

    #[test]
    fn exact_everywhere() {
        let runs: Vec<i64> = (-130..200).chain([7, 7, 6, -1, 64, 63]).collect();
        let far = vec![100_000, 100_001, 131_071, 131_072, 1_000_000, -1_000_000, 0, 1, 64];
        let frequencies = Rotary::half(1e4).frequencies(16, 0);
        let positions = [runs, far];
        let (cos, sin) = turns(&frequencies, 1.5, &positions, |x| x);
        let all = positions.iter().flatten();
        let angles: Vec<f64> =
            all.flat_map(|&p| frequencies.iter().map(move |w| p as f64 * w)).collect();
        assert_eq!((cos.len(), sin.len()), (angles.len(), angles.len()));
        for (i, angle) in angles.iter().enumerate() {
            assert!((cos[i] - 1.5 * angle.cos()).abs() < 1e-10, "cos {angle}");
            assert!((sin[i] - 1.5 * angle.sin()).abs() < 1e-10, "sin {angle}");
        }
    }

    #[test]
    fn extremes_are_finite() {
        let ends = [vec![i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX]];
        let (cos, sin) = turns(&[1e6, 1.0, 1e-300, 0.0], 1.0, &ends, |x| x);
        assert!(cos.iter().chain(&sin).all(|x| x.abs() < 1.0 + 1e-15));
    }

    /// A pair that does not turn passes unchanged.
    #[test]
    fn no_frequency_no_turn() {
        let (cos, sin) = turns(&[0.0], 1.0, &[vec![-5, 0, 1000]], |x| x);
        assert_eq!((cos, sin), (vec![1.0; 3], vec![0.0; 3]));
    }

    /// Alone, in a run or amid others, a position has the same bits.
    #[test]
    fn a_position_is_the_same_in_any_list() {
        let frequencies = Rotary::half(1e4).frequencies(8, 0);
        let (all_cos, all_sin) = turns(&frequencies, 1.1, &[(0..300).collect()], |x| x);
        for p in [0, 1, 63, 64, 65, 299] {
            let (cos, sin) = turns(&frequencies, 1.1, &[vec![p]], |x| x);
            let at = 4 * p as usize..4 * p as usize + 4;
            assert_eq!((&cos[..], &sin[..]), (&all_cos[at.clone()], &all_sin[at]));
        }
    }
}
