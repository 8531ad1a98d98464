//! The kernels on every instruction set against the plainest attention.

use crate::{
    Call, Dropout, Gradients, Isa, Mask, Output, Positions, Real, Relative, Runs, Saved, Segments,
    View, Wanted, backward_on, forward_on, linear, linear_backward, naive, recycle,
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
    runs: Option<Runs>,
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
            // One that takes all, and overflows as a power of two.
            sink: [numbers(7, h - 1), vec![T::from_f64(100.0)]].concat(),
            slopes: numbers(8, h),
            dense: numbers::<f32>(9, b * h * q * k).iter().map(|&x| x > 0.4).collect(),
            ids: [ids(q).collect(), ids(self.ruled()).collect()],
            runs: self.runs(),
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

    /// Causal, or windows of each entry with two sinks.
    fn runs(&self) -> Option<Runs> {
        let [b, q, ..] = self.sizes;
        let ruled = self.ruled();
        let windows = |b: usize, i: usize| {
            let start = (i * ruled / q.max(1)).saturating_sub(9 + b).max(2).min(ruled);
            [0..2.min(start), start..(start + 20).min(ruled)]
        };
        let causal = |_: usize, i: usize| Some(0..(i + 1 + ruled).saturating_sub(q).min(ruled));
        match (self.has(0), self.has(1)) {
            (_, true) => Some(Runs::new(b, q, windows)),
            (true, _) => Some(Runs::new(1, q, causal)),
            _ => None,
        }
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
        if has(16) {
            // The keys of a feature lie side by side.
            let view = |data, width: usize| {
                let strides = [k * g * width, 1, k, g * k].map(|stride| stride as isize);
                View::new(data, 0, [b, k, g, width], strides).unwrap()
            };
            (call.key, call.value) = (view(&data.key, d), view(&data.value, v));
        }
        let mut mask = Mask::default();
        let ruled = self.ruled();
        call.n_memory = k - ruled;
        let one = |repeated: bool, n: usize| if repeated { 1 } else { n };
        mask.runs = data.runs.as_ref();
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
        let Output { context, lse, rest } = naive::forward(&call).unwrap();
        let what = format!("{self:?} {isa:?}");
        let ours = forward_on(isa, &call).unwrap();
        close(&format!("{what} context"), &ours.context, &context, tolerance);
        close(&format!("{what} lse"), &ours.lse, &lse, tolerance);

        let view = |data| View::contiguous(data, [b, q, h, v]).unwrap();
        let saved = Saved {
            context: view(&context),
            lse: &lse,
            rest: &rest,
            d_context: view(&data.d_context),
        };
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
    let mut all: Vec<u32> = (0..17).map(|bit| 1 << bit).collect();
    all.extend([
        0, 0x18, 0x38, 0x58, 0x98, 0xf8, 0x110, 0x1f0, 0x78, 0x4012, 0x5613, 0xffff, 0x6e1d,
    ]);
    all.extend((0..24).map(|n: u32| n.wrapping_mul(0x9e37_79b1) >> 15));
    // Miri takes minutes for what takes milliseconds: a few of each there.
    let (step, sizes): (_, &[_]) = match cfg!(miri) {
        true => (7, &[[2, 7, 5, 2, 1, 3, 4], [1, 2, 9, 4, 2, 5, 3]]),
        false => (
            1,
            &[
                [2, 11, 13, 6, 3, 5, 7],
                [1, 37, 137, 2, 2, 8, 3],
                [2, 1, 530, 6, 2, 19, 3],
                [2, 3, 137, 4, 2, 17, 5],
            ],
        ),
    };
    for options in all.into_iter().step_by(step) {
        for &sizes in sizes {
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
    let edges: &[usize] = match cfg!(miri) {
        true => &[0, 1, 9],
        false => &[0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65],
    };
    for &isa in Isa::available() {
        for &size in edges {
            // Few queries take another way than many.
            for q in [2, 6] {
                for sizes in [
                    [1, size, 5, 2, 1, 3, 4],
                    [1, q, size, 2, 2, 3, 4],
                    [1, q, 5, 2, 2, size.max(1), 4],
                    [1, q, 5, 2, 2, 4, size.max(1)],
                    [size.min(9), q, 5, 3, 1, 4, 2],
                ] {
                    for options in [0, 1, 0x1610] {
                        Case { sizes, options }.check::<f32>(isa, 4e-6);
                    }
                }
            }
        }
        let keys: &[usize] = if cfg!(miri) { &[129] } else { &[127, 128, 129, 255, 256, 257] };
        for &keys in keys {
            for queries in if cfg!(miri) { [2, 6] } else { [2, 34] } {
                Case { sizes: [1, queries, keys, 1, 1, 3, 4], options: 1 }.check::<f32>(isa, 4e-6);
            }
        }
    }
}

/// Many queries, so that tasks split them: 513 of them, and groups of heads.
#[test]
#[cfg_attr(miri, ignore = "takes too long there")]
fn several_tasks_of_one_head() {
    for sizes in [[1, 513, 40, 2, 1, 4, 3], [1, 300, 40, 32, 1, 2, 3]] {
        for options in [1, 0x1610, 0x16f0] {
            Case { sizes, options }.check::<f64>(Isa::best(), 1e-12);
        }
    }
}

/// The bits of all results of one call.
fn bits(call: &Call<'_, f32>, d_context: &[f32]) -> Vec<u32> {
    let [b, q, h, _] = call.query.dims();
    let [.., v] = call.value.dims();
    let Output { context, lse, rest } = forward_on(Isa::best(), call).unwrap();
    let view = |data| View::contiguous(data, [b, q, h, v]).unwrap();
    let saved =
        Saved { context: view(&context), lse: &lse, rest: &rest, d_context: view(d_context) };
    let Gradients { query, key, value, bias, relative, sink } =
        backward_on(Isa::best(), call, &saved, Wanted::ALL).unwrap();
    let gradients = [query, key, value, bias, relative, sink].into_iter().flatten().flatten();
    context.iter().copied().chain(lse).chain(rest).chain(gradients).map(f32::to_bits).collect()
}

/// The same bits with 1, 2, 3, 4 and 8 threads, and from run to run.
#[test]
#[cfg_attr(miri, ignore = "takes too long there")]
fn threads_change_nothing() {
    // Shared biases and grouped heads: everything that is added up across tasks.
    for (sizes, options) in [
        ([2, 300, 150, 4, 2, 9, 5], 0x1610 | 0x70),
        ([1, 700, 90, 4, 1, 8, 8], 0x36d1),
        ([3, 1, 1500, 4, 2, 9, 5], 0x1001),
        ([2, 4, 1500, 4, 2, 9, 5], 0x36f1),
    ] {
        let case = Case { sizes, options };
        let data = case.data::<f32>();
        let call = case.call(&data);
        let once = bits(&call, &data.d_context);
        for threads in [1, 2, 3, 4, 8, 8] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let again = pool.install(|| bits(&call, &data.d_context));
            assert!(once == again, "{case:?} with {threads} threads");
        }
    }
}

/// What was in a buffer that is used again does not matter.
#[test]
#[cfg_attr(miri, ignore = "takes too long there")]
fn old_buffers_may_hold_anything() {
    let [b, q, k, h, g, d, v] = [2, 520, 600, 3, 1, 33, 37];
    for options in [0, 2, 0x1612] {
        let case = Case { sizes: [b, q, k, h, g, d, v], options };
        let data = case.data::<f32>();
        let call = case.call(&data);
        let clean = bits(&call, &data.d_context);
        // Outputs, gradients, and the sums of one key head's tasks.
        for len in [b * q * h * v, b * q * h * d, b * k * g * d, b * k * g * v, k * d, k * v] {
            for _ in 0..8 {
                recycle(vec![f32::NAN; len]);
            }
        }
        assert!(bits(&call, &data.d_context) == clean, "{case:?}");
    }
    let (rows, width) = (130, 140);
    let [x, w, y] = [1, 2, 3].map(|seed| numbers::<f32>(seed, rows * width));
    let (square, tall) = ([rows, rows], [rows, width]);
    let view = |data, dims| View::contiguous(data, dims).unwrap();
    for bias in [None, Some(&y[..width])] {
        let run = || {
            let (x, w) = (view(&x[..rows * rows], square), view(&w, tall));
            (linear(x, w, bias).unwrap(), linear_backward(x, w, view(&y, tall), [true; 3]).unwrap())
        };
        let clean = run();
        (0..8).for_each(|_| recycle(vec![f32::NAN; rows * width]));
        (0..8).for_each(|_| recycle(vec![f32::NAN; rows * rows]));
        assert_eq!(run(), clean);
    }
}

/// A key that no query sees may hold anything: the results are those of zeros in its place, and so are
/// the gradients.
#[test]
fn unseen_keys_may_hold_anything() {
    let (q, k, width) = (5, 140, 3);
    let [query, key, value, d_context]: [Vec<f32>; 4] =
        [1, 2, 3, 4].map(|seed| numbers(seed, if seed == 1 || seed == 4 { q } else { k } * width));
    let padding: Vec<bool> = (0..k).map(|j| j % 3 == 1).collect();
    let none = vec![false; k];
    for isa in Isa::available() {
        for (runs, dense, hidden) in [
            (Some(100), &none, (0..k).map(|j| j >= 100).collect::<Vec<_>>()),
            (None, &padding, padding.clone()),
            (Some(100), &padding, (0..k).map(|j| j >= 100 || j % 3 == 1).collect()),
        ] {
            let run = |junk: f32| {
                let with_junk = |data: &[f32]| -> Vec<f32> {
                    let junk = data.iter().enumerate().map(|(at, &x)| match hidden[at / width] {
                        true => junk,
                        false => x,
                    });
                    junk.collect()
                };
                let (key, value) = (with_junk(&key), with_junk(&value));
                let view = |data, seq| View::contiguous(data, [1, seq, 1, width]).unwrap();
                let mut call = Call::new(view(&query, q), view(&key, k), view(&value, k));
                let runs = runs.map(|end| Runs::new(1, q, |_, _| Some(0..end)));
                call.mask.runs = runs.as_ref();
                call.mask.dense = vec![view_of(dense, [1, 1, 1, k])];
                let Output { context, lse, rest } = forward_on(*isa, &call).unwrap();
                let saved = Saved {
                    context: view(&context, q),
                    lse: &lse,
                    rest: &rest,
                    d_context: view(&d_context, q),
                };
                let gradients = backward_on(*isa, &call, &saved, Wanted::ALL).unwrap();
                (context, lse, gradients)
            };
            let zeros = run(0.0);
            assert!(zeros.0.iter().all(|x| x.is_finite()));
            for junk in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                assert_eq!(run(junk), zeros, "{isa:?}, {junk}");
            }
        }
    }
}

/// A NaN that is seen is never turned into a number, and stays with those who see it.
#[test]
fn a_visible_nan_stays() {
    let key: Vec<f64> = vec![0.5, f64::NAN, 0.25];
    let other = [0.5, 1.0, 0.25];
    for isa in Isa::available() {
        for (key, value) in [(&key[..], &other[..]), (&other[..], &key[..])] {
            for q in [1, 3, 6] {
                let view = |data, seq| View::contiguous(data, [1, seq, 1, 1]).unwrap();
                let query = other.repeat(2);
                let mut call = Call::new(view(&query, q), view(key, 3), view(value, 3));
                let context = forward_on(*isa, &call).unwrap().context;
                assert!(context.iter().all(|x| x.is_nan()), "{isa:?} {context:?}");
                // Causal from the left: query 0 sees key 0 alone.
                let first = Runs::new(1, q, |_, _| Some(0..1));
                call.mask.runs = Some(&first);
                let context = forward_on(*isa, &call).unwrap().context;
                assert!(context.iter().all(|x| x.is_finite()), "{isa:?} {context:?}");
            }
        }
    }
}

/// Scores of ±1e4: no overflow, and where one key wins by far the result is its value.
#[test]
fn large_scores() {
    let query = [100.0_f32, -100.0, 100.0, -100.0, 100.0];
    let key = [100.0_f32, -100.0, 0.0];
    let value = [1.0_f32, 2.0, 3.0];
    for isa in Isa::available() {
        for q in [1, 2, 5] {
            let view = |data, seq| View::contiguous(data, [1, seq, 1, 1]).unwrap();
            let call = Call::new(view(&query, q), view(&key, 3), view(&value, 3));
            let Output { context, lse, .. } = forward_on(*isa, &call).unwrap();
            assert_eq!(context, [1.0, 2.0, 1.0, 2.0, 1.0][..q], "{isa:?}");
            assert_eq!(lse, vec![1e4; q], "{isa:?}");
        }
    }
}
