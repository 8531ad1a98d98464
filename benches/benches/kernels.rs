//! The kernels alone, on every instruction set of this machine: `cargo bench -p mha-bench --bench
//! kernels`. 8 heads of 64 features, in f32; an item is a floating-point operation, hidden pairs
//! included, or for a decoding step a byte of keys and values.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use mha_cpu::{
    Call, Isa, Output, Runs, Saved, View, Wanted, backward_on, forward, forward_on, linear,
    linear_backward,
};

const HEADS: usize = 8;
const WIDTH: usize = 64;
/// Features of a token.
const FEATURES: usize = HEADS * WIDTH;

fn main() {
    divan::main();
}

/// Reproducible numbers in `[-1, 1)`.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn heads(numbers: &[f32], [batch, seq]: [usize; 2]) -> View<'_, f32, 4> {
    View::contiguous(numbers, [batch, seq, HEADS, WIDTH]).expect("as many numbers")
}

fn matrix(numbers: &[f32], dims: [usize; 2]) -> View<'_, f32, 2> {
    View::contiguous(numbers, dims).expect("as many numbers")
}

/// Operations of so many products over all pairs.
fn operations(products: usize, [batch, seq]: [usize; 2]) -> ItemsCount {
    ItemsCount::new(products * 2 * batch * HEADS * seq * seq * WIDTH)
}

const SIZES: [[usize; 2]; 4] = [[4, 128], [1, 1024], [8, 512], [1, 4096]];

fn on_each() -> impl Iterator<Item = (Isa, [usize; 2])> {
    Isa::available().iter().flat_map(|&isa| SIZES.map(|size| (isa, size)))
}

struct Tensors {
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    d_context: Vec<f32>,
    size: [usize; 2],
}

impl Tensors {
    fn new(size: [usize; 2]) -> Self {
        let [batch, seq] = size;
        let [query, key, value, d_context] =
            [1, 2, 3, 4].map(|seed| numbers(seed, batch * seq * FEATURES));
        Self { query, key, value, d_context, size }
    }

    fn call(&self) -> Call<'_, f32> {
        let [query, key, value] =
            [&self.query, &self.key, &self.value].map(|numbers| heads(numbers, self.size));
        Call::new(query, key, value)
    }

    /// A call whose queries see runs of keys.
    fn call_of<'a>(&'a self, runs: &'a Runs) -> Call<'a, f32> {
        let mut call = self.call();
        call.mask.runs = Some(runs);
        call
    }
}

fn causal_runs([_, seq]: [usize; 2]) -> Runs {
    Runs::new(1, seq, |_, i| Some(0..i + 1))
}

mod attention {
    use super::*;

    #[divan::bench(args = on_each())]
    fn full(bencher: Bencher<'_, '_>, (isa, size): (Isa, [usize; 2])) {
        let tensors = Tensors::new(size);
        let call = tensors.call();
        bencher.counter(operations(2, size)).bench_local(|| forward_on(isa, &call));
    }

    #[divan::bench(args = on_each())]
    fn full_backward(bencher: Bencher<'_, '_>, (isa, size): (Isa, [usize; 2])) {
        let tensors = Tensors::new(size);
        backward_of(bencher, isa, &tensors, &tensors.call());
    }

    #[divan::bench(args = SIZES)]
    fn causal(bencher: Bencher<'_, '_>, size: [usize; 2]) {
        let tensors = Tensors::new(size);
        let runs = causal_runs(size);
        let call = tensors.call_of(&runs);
        bencher.counter(operations(2, size)).bench_local(|| forward(&call));
    }

    #[divan::bench(args = SIZES)]
    fn causal_backward(bencher: Bencher<'_, '_>, size: [usize; 2]) {
        let tensors = Tensors::new(size);
        let runs = causal_runs(size);
        backward_of(bencher, Isa::best(), &tensors, &tensors.call_of(&runs));
    }

    fn backward_of(bencher: Bencher<'_, '_>, isa: Isa, tensors: &Tensors, call: &Call<'_, f32>) {
        let Output { context, lse, rest } = forward_on(isa, call).expect("sizes fit");
        let (context, d_context) =
            (heads(&context, tensors.size), heads(&tensors.d_context, tensors.size));
        let saved = Saved { context, lse: &lse, rest: &rest, d_context };
        bencher
            .counter(operations(5, tensors.size))
            .bench_local(|| backward_on(isa, call, &saved, Wanted::ALL));
    }

    /// One query against so many keys.
    #[divan::bench(args = [128, 512, 2048, 4096, 32_768])]
    fn decode(bencher: Bencher<'_, '_>, cached: usize) {
        let tensors = Tensors::new([1, cached]);
        let mut call = tensors.call();
        call.query = heads(&tensors.query[..FEATURES], [1, 1]);
        let bytes = BytesCount::of_many::<f32>(2 * cached * FEATURES);
        bencher.counter(bytes).bench_local(|| forward(&call));
    }
}

mod projection {
    use super::*;

    const ROWS: [usize; 6] = [1, 16, 128, 512, 1024, 4096];

    fn operations(products: usize, rows: usize) -> ItemsCount {
        ItemsCount::new(products * 2 * rows * FEATURES * FEATURES)
    }

    #[divan::bench(args = ROWS)]
    fn output(bencher: Bencher<'_, '_>, rows: usize) {
        let (input, weight) = (numbers(1, rows * FEATURES), numbers(2, FEATURES * FEATURES));
        let (input, weight) =
            (matrix(&input, [rows, FEATURES]), matrix(&weight, [FEATURES, FEATURES]));
        let bias = numbers(3, FEATURES);
        bencher.counter(operations(1, rows)).bench_local(|| linear(input, weight, Some(&bias)));
    }

    #[divan::bench(args = ROWS)]
    fn gradients(bencher: Bencher<'_, '_>, rows: usize) {
        let (input, weight) = (numbers(1, rows * FEATURES), numbers(2, FEATURES * FEATURES));
        let d_output = numbers(3, rows * FEATURES);
        let [input, d_output] = [&input, &d_output].map(|all| matrix(all, [rows, FEATURES]));
        let weight = matrix(&weight, [FEATURES, FEATURES]);
        bencher
            .counter(operations(2, rows))
            .bench_local(|| linear_backward(input, weight, d_output, [true; 3]));
    }
}
