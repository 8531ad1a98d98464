//! The kernels on every instruction set against the plainest attention.

use crate::{
    Call, Dropout, Gradients, Isa, Mask, Output, Positions, Real, Relative, Runs, Saved, Segments,
    View, Wanted, backward_on, forward_on, naive,
};

/// Reproducible numbers in `[-1, 1)`.
fn numbers<T: Real>(seed: u64, count: usize) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        T::from_f64((state >> 40) as f64 / f64::from(1u32 << 23) - 1.0)
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// The tensors of a case.
struct Data<T> {
    query: Vec<T>,
    key: Vec<T>,
    value: Vec<T>,
    d_context: Vec<T>,
    bias: Vec<T>,
    table: Vec<T>,
    sink: Vec<T>,
    slopes: Vec<f64>,
    dense: Vec<bool>,
    ids: [Vec<Vec<u32>>; 2],
}

/// Sizes: batch, queries, keys, heads, key heads, head width, value width.
#[derive(Debug, Clone, Copy)]
struct Case {
    sizes: [usize; 7],
    options: u32,
}

const REACH: usize = 5;

impl Case {
    fn data<T: Real>(&self) -> Data<T> {
        let [b, q, k, h, g, d, v] = self.sizes;
        let ids =
            |n: usize| (0..b).map(move |b| (0..n).map(|i| ((i + b) / 7 % 3) as u32).collect());
        Data {
            query: numbers(1, b * q * h * d),
            key: numbers(2, b * k * g * d),
            value: numbers(3, b * k * g * v),
            d_context: numbers(4, b * q * h * v),
            bias: numbers(5, b * h * q * k),
            table: numbers(6, h * (2 * REACH + 1)),
            sink: numbers(7, h),
            slopes: numbers(8, h),
            dense: numbers::<f32>(9, b * h * q * k).iter().map(|&x| x > 0.4).collect(),
            ids: [ids(q).collect(), ids(self.ruled()).collect()],
        }
    }

    fn has(&self, bit: u32) -> bool {
        self.options >> bit & 1 == 1
    }

    /// Keys without the memory.
    fn ruled(&self) -> usize {
        let [_, _, k, ..] = self.sizes;
        if self.has(11) { k.saturating_sub(2) } else { k }
    }

    fn call<'a, T: Real>(&self, data: &'a Data<T>) -> Call<'a, T> {
        let [b, q, k, h, g, d, v] = self.sizes;
        let view = |data, dims| View::contiguous(data, dims).unwrap();
        let mut call = Call::new(
            view(&data.query, [b, q, h, d]),
            view(&data.key, [b, k, g, d]),
            view(&data.value, [b, k, g, v]),
        );
        let has = |bit| self.has(bit);
        let mut mask = Mask::default();
        let ruled = self.ruled();
        call.n_memory = k - ruled;
        let one = |repeated: bool, n: usize| if repeated { 1 } else { n };
        if has(0) {
            let causal =
                move |_: usize, i: usize| Some(0..(i + 1 + ruled).saturating_sub(q).min(ruled));
            mask.runs = Some(Runs::new(1, q, causal));
        }
        if has(1) {
            let sinks = move |b: usize, i: usize| {
                let start = (i * ruled / q.max(1)).saturating_sub(9 + b).max(2).min(ruled);
                [0..2.min(start), start..(start + 20).min(ruled)]
            };
            mask.runs = Some(Runs::new(b, q, sinks));
        }
        if has(2) {
            mask.segments = vec![Segments { query: &data.ids[0], key: &data.ids[1] }];
        }
        if has(3) {
            let dims = [one(has(5), b), one(has(6), h), one(has(7), q), ruled];
            mask.dense = vec![view_of(&data.dense, dims)];
        }
        call.mask = mask;
        if has(4) {
            let dims = [one(has(5), b), one(has(6), h), one(has(7), q), one(has(8), ruled)];
            call.bias = Some(View::contiguous(&data.bias, dims).unwrap());
        }
        if has(9) {
            call.alibi = Some(&data.slopes);
        }
        if has(10) {
            call.relative = Some(Relative { table: &data.table, reach: REACH });
        }
        if has(9) || has(10) {
            call.positions =
                Positions { offsets: vec![ruled as i64 - q as i64], gap_after: 3, gap: 2 };
        }
        if has(12) {
            call.sink = Some(&data.sink);
        }
        if has(13) {
            call.dropout = Some(Dropout { probability: 0.3, words: [17, 4] });
        }
        if has(14) {
            call.softcap = Some(0.7);
        }
        if has(15) {
            call.scale = -0.3;
        }
        call
    }

    fn check<T: Real>(&self, isa: Isa, tolerance: f64) {
        let [b, q, .., h, _, _, v] = self.sizes;
        let data = self.data::<T>();
        let call = self.call(&data);
        let Output { context, lse } = naive::forward(&call).unwrap();
        let ours = forward_on(isa, &call).unwrap();
        let what = format!("{self:?} {isa:?}");
        close(&format!("{what} context"), &ours.context, &context, tolerance);
        close(&format!("{what} lse"), &ours.lse, &lse, tolerance);

        let view = |data| View::contiguous(data, [b, q, h, v]).unwrap();
        let saved = Saved { context: view(&context), lse: &lse, d_context: view(&data.d_context) };
        let exact = naive::backward(&call, &saved, Wanted::ALL).unwrap();
        let ours = backward_on(isa, &call, &saved, Wanted::ALL).unwrap();
        let all = |gradients: Gradients<T>| {
            let Gradients { query, key, value, bias, relative, sink } = gradients;
            [query, key, value, bias, relative, sink]
        };
        let names = ["query", "key", "value", "bias", "relative", "sink"];
        for ((ours, exact), name) in all(ours).into_iter().zip(all(exact)).zip(names) {
            let what = format!("{what} gradient of {name}");
            assert_eq!(ours.is_some(), exact.is_some(), "{what}");
            close(&what, &ours.unwrap_or_default(), &exact.unwrap_or_default(), tolerance * 8.0);
        }
    }
}

fn view_of(data: &[bool], dims: [usize; 4]) -> View<'_, bool, 4> {
    View::contiguous(data, dims).unwrap()
}

fn close<T: Real>(what: &str, ours: &[T], exact: &[T], tolerance: f64) {
    assert_eq!(ours.len(), exact.len(), "{what}");
    for (at, (ours, exact)) in ours.iter().zip(exact).enumerate() {
        let (ours, exact) = (ours.to_f64(), exact.to_f64());
        let near = (ours - exact).abs() <= tolerance * exact.abs().max(1.0);
        assert!(near || ours == exact, "{what}, at {at}: {ours} for {exact}");
    }
}

/// Each option alone, and many together, in sizes that all differ.
#[test]
fn every_option_on_every_instruction_set() {
    let mut all: Vec<u32> = (0..16).map(|bit| 1 << bit).collect();
    all.extend([
        0, 0x18, 0x38, 0x58, 0x98, 0xf8, 0x110, 0x1f0, 0x78, 0x4012, 0x5613, 0xffff, 0x6e1d,
    ]);
    all.extend((0..24).map(|n: u32| n.wrapping_mul(0x9e37_79b1) >> 16));
    for options in all {
        for sizes in [[2, 11, 13, 6, 3, 5, 7], [1, 37, 137, 2, 2, 8, 3], [2, 1, 530, 6, 2, 19, 3]] {
            for &isa in Isa::available() {
                Case { sizes, options }.check::<f64>(isa, 1e-12);
                Case { sizes, options }.check::<f32>(isa, 2e-5);
            }
        }
    }
}

/// One less than a tile, a tile, one more, along every axis.
#[test]
fn sizes_around_the_edges_of_tiles() {
    let edges = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65];
    for &isa in Isa::available() {
        for size in edges {
            for sizes in [
                [1, size, 5, 2, 1, 3, 4],
                [1, 3, size, 2, 2, 3, 4],
                [1, 3, 5, 2, 2, size.max(1), 4],
                [1, 3, 5, 2, 2, 4, size.max(1)],
                [size.min(9), 3, 5, 3, 1, 4, 2],
            ] {
                for options in [0, 1, 0x1610] {
                    Case { sizes, options }.check::<f32>(isa, 4e-6);
                }
            }
        }
        for keys in [127, 128, 129, 255, 256, 257] {
            Case { sizes: [1, 34, keys, 1, 1, 3, 4], options: 1 }.check::<f32>(isa, 4e-6);
        }
    }
}

/// Many queries, so that tasks split them: 513 of them, and groups of heads.
#[test]
fn several_tasks_of_one_head() {
    for sizes in [[1, 513, 40, 2, 1, 4, 3], [1, 300, 40, 32, 1, 2, 3]] {
        for options in [1, 0x1610, 0x16f0] {
            Case { sizes, options }.check::<f64>(Isa::best(), 1e-12);
        }
    }
}
