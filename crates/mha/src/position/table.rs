//! The cosines and sines of a call's positions, and the rotation by them.

use burn::tensor::{DType, Element, Tensor, TensorData, backend::Backend};

use super::rotary::{Rotary, RotaryLayout};
use super::turns::turns;

/// Cosines and sines, times the magnitude: each `[batch or 1, seq, 1, width / 2]`, f32 or f64.
#[derive(Debug, Clone)]
pub(crate) struct RotaryTable<B: Backend> {
    cos: Tensor<B, 4>,
    sin: Tensor<B, 4>,
}

impl Rotary {
    /// The table of these positions: one list for all of a batch, or one per entry, all of one
    /// length. `lengths` counts the tokens of the sequence so far, one number for all lists or one for
    /// each. The table is f64 for `dtype` f64 and f32 for every other; it is computed in f64 and rounded
    /// once.
    ///
    /// The configuration has been checked for `head_dim`.
    pub(crate) fn table<B: Backend>(
        &self,
        head_dim: usize,
        positions: &[Vec<i64>],
        lengths: &[usize],
        dtype: DType,
        device: &B::Device,
    ) -> RotaryTable<B> {
        let seq = positions.first().map_or(0, Vec::len);
        debug_assert!(positions.iter().all(|list| list.len() == seq), "lists of one length");
        let dims = [positions.len(), seq, 1, self.turning(head_dim) / 2];
        let dtype = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        if positions.is_empty() || seq == 0 {
            let nothing = Tensor::zeros(dims, (device, dtype));
            return RotaryTable { cos: nothing.clone(), sin: nothing };
        }
        let [cos, sin] = match dtype {
            DType::F64 => data(self.turns(head_dim, positions, lengths, |x| x), dims),
            _ => data(self.turns(head_dim, positions, lengths, |x| x as f32), dims),
        };
        let tensor = |data| Tensor::from_data(data, (device, dtype));
        RotaryTable { cos: tensor(cos), sin: tensor(sin) }
    }

    /// Cosines and sines of each list, at the frequencies of its length.
    fn turns<T>(
        &self,
        head_dim: usize,
        positions: &[Vec<i64>],
        lengths: &[usize],
        round: fn(f64) -> T,
    ) -> (Vec<T>, Vec<T>) {
        let of = |lists: &[Vec<i64>], length: usize| {
            turns(&self.frequencies(head_dim, length), self.magnitude(), lists, round)
        };
        if let [length] = lengths {
            return of(positions, *length);
        }
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for (list, length) in positions.chunks(1).zip(lengths) {
            let (more_cos, more_sin) = of(list, *length);
            cos.extend(more_cos);
            sin.extend(more_sin);
        }
        (cos, sin)
    }
}

fn data<T: Element>((cos, sin): (Vec<T>, Vec<T>), dims: [usize; 4]) -> [TensorData; 2] {
    [cos, sin].map(|numbers| TensorData::new(numbers, dims))
}

impl<B: Backend> RotaryTable<B> {
    /// Turns the first channels of every head, as many as the table is wide; the others pass as
    /// they are, and so does a tensor without elements, which backends refuse to compute with.
    ///
    /// Computed in the table's precision, returned in that of `x`.
    ///
    /// # Shapes
    ///
    /// - `x`: `[batch, seq, heads, head_dim]`
    /// - returns the same
    pub(crate) fn rotate(&self, layout: RotaryLayout, x: Tensor<B, 4>) -> Tensor<B, 4> {
        let [batch, seq, heads, head_dim] = x.dims();
        if x.dims().contains(&0) {
            return x;
        }
        let [.., pairs] = self.cos.dims();
        let width = 2 * pairs;
        let (dtype, exact) = (x.dtype(), self.cos.dtype());
        let channels =
            |from: usize, to: usize| x.clone().slice([0..batch, 0..seq, 0..heads, from..to]);

        let turning = if width == head_dim { x.clone() } else { channels(0, width) };
        let turning = if dtype == exact { turning } else { turning.cast(exact) };
        // Pairs apart: halves [2, pairs] or neighbours [pairs, 2].
        let (axis, split) = match layout {
            RotaryLayout::Half => (3, [batch, seq, heads, 2, pairs]),
            RotaryLayout::Interleaved => (4, [batch, seq, heads, pairs, 2]),
        };
        let turning = turning.reshape(split);
        let part = |i| turning.clone().narrow(axis, i, 1).reshape([batch, seq, heads, pairs]);
        let (a, b) = (part(0), part(1));
        let (cos, sin) = (self.cos.clone(), self.sin.clone());
        let mut apart = split;
        apart[axis] = 1;
        let turned = vec![
            (a.clone() * cos.clone() - b.clone() * sin.clone()).reshape(apart),
            (b * cos + a * sin).reshape(apart),
        ];
        let turned = Tensor::cat(turned, axis).reshape([batch, seq, heads, width]);
        let turned = if dtype == exact { turned } else { turned.cast(dtype) };
        if width == head_dim {
            return turned;
        }
        Tensor::cat(vec![turned, channels(width, head_dim)], 3)
    }
}

#[cfg(test)]
mod tests {
    use burn::backend::{Autodiff, NdArray};
    use burn::tensor::backend::Backend;

    use super::super::{RotaryScaling, Yarn};
    use super::RotaryLayout::{Half, Interleaved};
    use super::*;

    type B = NdArray;

    fn numbers<const N: usize>(tensor: Tensor<impl Backend, N>) -> Vec<f64> {
        tensor.into_data().convert::<f64>().to_vec().unwrap()
    }

    /// Some numbers in [-1, 1], in f32 or f64.
    fn wave<B: Backend>(dims: [usize; 4], start: f64, dtype: DType) -> Tensor<B, 4> {
        let count: usize = dims.iter().product();
        let values: Vec<f64> = (0..count).map(|i| (start + 1.7 * i as f64).sin()).collect();
        Tensor::from_data(TensorData::new(values, dims), (&B::Device::default(), dtype))
    }

    fn table<B: Backend>(
        rotary: &Rotary,
        head_dim: usize,
        positions: &[Vec<i64>],
        dtype: DType,
    ) -> RotaryTable<B> {
        rotary.check(head_dim).unwrap();
        rotary.table(head_dim, positions, &[0], dtype, &B::Device::default())
    }

    /// The definition in plain loops.
    fn plainly(
        rotary: &Rotary,
        x: &[f64],
        [batch, seq, heads, head_dim]: [usize; 4],
        positions: &[Vec<i64>],
    ) -> Vec<f64> {
        let mut out = x.to_vec();
        let frequencies = rotary.frequencies(head_dim, 0);
        for (entry, i, h) in
            (0..batch * seq * heads).map(|row| (row / heads / seq, row / heads % seq, row % heads))
        {
            let list = if positions.len() == 1 { &positions[0] } else { &positions[entry] };
            let head = ((entry * seq + i) * heads + h) * head_dim;
            for (pair, frequency) in frequencies.iter().enumerate() {
                let (a, b) = match rotary.layout {
                    Half => (head + pair, head + pair + frequencies.len()),
                    Interleaved => (head + 2 * pair, head + 2 * pair + 1),
                };
                let (sin, cos) = (list[i] as f64 * frequency).sin_cos();
                out[a] = rotary.magnitude() * (x[a] * cos - x[b] * sin);
                out[b] = rotary.magnitude() * (x[b] * cos + x[a] * sin);
            }
        }
        out
    }

    fn assert_near(actual: &[f64], expected: &[f64], tolerance: f64) {
        assert_eq!(actual.len(), expected.len());
        for (i, (a, b)) in actual.iter().zip(expected).enumerate() {
            assert!((a - b).abs() <= tolerance, "number {i}: {a} for {b}");
        }
    }

    #[test]
    fn rotates_as_plain_loops_do() {
        let dims = [2, 3, 5, 8];
        let shared = vec![vec![0, 5, -70]];
        let per_entry = vec![vec![0, 1, 2], vec![9, 70, 3]];
        let yarn = RotaryScaling::Yarn(Yarn::new(4.0, 16));
        for layout in [Rotary::half(100.0), Rotary::interleaved(100.0)] {
            for rotary in [layout.clone(), layout.clone().with_width(6), layout.with_width(2)] {
                for rotary in [rotary.clone(), rotary.with_scaling(yarn.clone())] {
                    for positions in [&shared, &per_entry] {
                        for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::F64, 1e-14)] {
                            let x = wave::<B>(dims, 0.3, dtype);
                            let expected = plainly(&rotary, &numbers(x.clone()), dims, positions);
                            let table = table::<B>(&rotary, 8, positions, dtype);
                            let out = table.rotate(rotary.layout, x.clone());
                            assert_eq!((out.dims(), out.dtype()), (dims, dtype));
                            assert_near(&numbers(out.clone()), &expected, tolerance);
                            let beyond = rotary.turning(8);
                            let rest = |x: Tensor<B, 4>| x.slice([0..2, 0..3, 0..5, beyond..8]);
                            if beyond < 8 {
                                assert_eq!(numbers(rest(out)), numbers(rest(x)));
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn holds_the_turns_rounded_once() {
        let rotary = Rotary::half(1e4).with_width(6);
        let positions = [vec![3, 70], vec![-1, 0]];
        let (cos, sin) = turns(&rotary.frequencies(8, 0), 1.0, &positions, |x| x);
        let exact = table::<B>(&rotary, 8, &positions, DType::F64);
        assert_eq!(exact.cos.dims(), [2, 2, 1, 3]);
        assert_eq!((numbers(exact.cos), numbers(exact.sin)), (cos.clone(), sin.clone()));
        // Half precision is turned in f32.
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let single = table::<B>(&rotary, 8, &positions, dtype);
            assert_eq!(single.cos.dtype(), DType::F32);
            let rounded = |x: &Vec<f64>| x.iter().map(|&x| f64::from(x as f32)).collect();
            let expected: (Vec<f64>, Vec<f64>) = (rounded(&cos), rounded(&sin));
            assert_eq!((numbers(single.cos), numbers(single.sin)), expected);
        }
    }

    /// Longer sequences, and so other angles for the same positions.
    #[test]
    fn the_length_counts() {
        let scaling = RotaryScaling::DynamicNtk { factor: 2.0, original_length: 16 };
        let rotary = Rotary::half(1e4).with_scaling(scaling);
        let sin = |positions: &[Vec<i64>], lengths: &[usize]| {
            let device = Default::default();
            numbers(rotary.table::<B>(8, positions, lengths, DType::F64, &device).sin)
        };
        let five = [vec![5]];
        assert_eq!(sin(&five, &[3]), sin(&five, &[16]));
        assert_ne!(sin(&five, &[16]), sin(&five, &[17]));
        // Each list by its own length.
        let both = [sin(&five, &[16]), sin(&five, &[99])].concat();
        assert_eq!(sin(&[vec![5], vec![5]], &[16, 99]), both);
        assert!(rotary.depends_on_length());
    }

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn keeps_norms_and_scores_depend_on_the_distance() {
        let dims = [1, 1, 1, 16];
        let [q, k] = [0.1, 0.8].map(|start| wave::<B>(dims, start, DType::F64));
        for rotary in [Rotary::half(1e4), Rotary::interleaved(1e4)] {
            let at = |x: &Tensor<B, 4>, p: i64| {
                let table = table::<B>(&rotary, 16, &[vec![p]], DType::F64);
                numbers(table.rotate(rotary.layout, x.clone()))
            };
            let norm = dot(&numbers(q.clone()), &numbers(q.clone()));
            assert!((dot(&at(&q, 77), &at(&q, 77)) - norm).abs() < 1e-13);
            assert_eq!(at(&q, 0), numbers(q.clone()));
            let near = dot(&at(&q, 10), &at(&k, 3));
            for shift in [-500, 1, 64, 4000] {
                let far = dot(&at(&q, 10 + shift), &at(&k, 3 + shift));
                assert!((near - far).abs() < 1e-11, "{near} for {far} at {shift}");
            }
            assert!((near - dot(&at(&q, 10), &at(&k, 4))).abs() > 1e-3, "the distance counts");
        }
    }

    /// Weights `[width, features]` trained in one layout, their rows moved, serve the other.
    #[test]
    fn layouts_convert_into_each_other() {
        let (width, features) = (8, 3);
        let rows = |start| numbers(wave::<B>([1, 1, width, features], start, DType::F64));
        let moved = |weights: &[f64]| -> Vec<f64> {
            let from = (0..width).map(|i| if i < 4 { 2 * i } else { 2 * (i - 4) + 1 });
            from.flat_map(|row| weights[row * features..(row + 1) * features].to_vec()).collect()
        };
        let turned = |rotary: &Rotary, weights: &[f64], token: [f64; 3], position: i64| {
            let x: Vec<f64> = weights.chunks(features).map(|row| dot(row, &token)).collect();
            let data = TensorData::new(x, [1, 1, 1, width]);
            let x = Tensor::<B, 4>::from_data(data, (&Default::default(), DType::F64));
            let table = table::<B>(rotary, width, &[vec![position]], DType::F64);
            numbers(table.rotate(rotary.layout, x))
        };
        let score = |rotary: &Rotary, query: &[f64], key: &[f64]| {
            let q = turned(rotary, query, [0.3, -1.0, 0.5], 9);
            dot(&q, &turned(rotary, key, [1.0, 0.2, -0.7], 4))
        };
        let (query, key) = (rows(0.2), rows(0.9));
        let interleaved = score(&Rotary::interleaved(1e2), &query, &key);
        let half = score(&Rotary::half(1e2), &moved(&query), &moved(&key));
        assert!((interleaved - half).abs() < 1e-14, "{interleaved} for {half}");
        assert!((interleaved - score(&Rotary::half(1e2), &query, &key)).abs() > 1e-3);
    }

    /// The gradient goes back by the negative angle.
    #[test]
    fn gradient() {
        type A = Autodiff<NdArray>;
        let dims = [2, 1, 3, 6];
        let positions = [vec![4], vec![-90]];
        let back: Vec<Vec<i64>> = positions.iter().map(|list| vec![-list[0]]).collect();
        for rotary in [Rotary::half(50.0), Rotary::interleaved(50.0).with_width(4)] {
            let x = wave::<A>(dims, 0.5, DType::F64).require_grad();
            let upstream = wave::<A>(dims, 0.9, DType::F64);
            let out =
                table::<A>(&rotary, 6, &positions, DType::F64).rotate(rotary.layout, x.clone());
            let gradients = (out * upstream.clone()).sum().backward();
            let gradient = numbers(x.grad(&gradients).unwrap());
            assert_near(&gradient, &plainly(&rotary, &numbers(upstream), dims, &back), 1e-14);
        }
    }

    #[test]
    fn nothing_stays_nothing() {
        let rotary = Rotary::half(1e4).with_width(4);
        let cases: [([usize; 4], Vec<Vec<i64>>); 3] = [
            ([2, 0, 3, 8], vec![vec![]]),
            ([0, 2, 3, 8], vec![vec![0, 1]]),
            ([0, 2, 3, 8], vec![]),
        ];
        for (dims, positions) in cases {
            let x = Tensor::<B, 4>::zeros(dims, &Default::default());
            let table = table::<B>(&rotary, 8, &positions, DType::F32);
            assert_eq!(table.rotate(Half, x).dims(), dims);
        }
    }
}
