//! How the unit tests hold a gradient against the change of the values themselves.

/// Some numbers between −1 and 1, the same for the same seed.
pub(super) fn numbers(seed: usize, count: usize) -> Vec<f64> {
    (0..count).map(|index| (index as f64 * 12.9898 + seed as f64 * 78.233).sin()).collect()
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "lengths");
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[track_caller]
pub(super) fn assert_close(name: &str, actual: &[f64], expected: &[f64], error: f64) {
    assert_eq!(actual.len(), expected.len(), "length of {name}");
    for (index, (x, y)) in actual.iter().zip(expected).enumerate() {
        assert!((x - y).abs() <= error, "{name}[{index}]: expected {y}, got {x}");
    }
}

/// Panics unless `gradient` is that of `loss` at `point`: each number is moved a little up and a
/// little down.
#[track_caller]
pub(super) fn assert_gradient(
    name: &str,
    point: &[f64],
    gradient: &[f64],
    loss: impl Fn(&[f64]) -> f64,
) {
    let step = 1e-5;
    let slope = |index: usize| {
        let [up, down] = [step, -step].map(|step| {
            let mut moved = point.to_vec();
            moved[index] += step;
            loss(&moved)
        });
        (up - down) / (2.0 * step)
    };
    let slopes: Vec<f64> = (0..point.len()).map(slope).collect();
    assert_close(name, gradient, &slopes, 1e-7);
}
