//! The fused path beside the plain one at small and odd sizes, where there is least to gain: `cargo
//! bench -p mha-bench --bench paths`. `mha::attention` in f32; forward, and with the gradients of
//! query, key and value.

use std::fmt;

use burn::backend::{Autodiff, Flex, NdArray};
use burn::tensor::{Distribution, Tensor, backend::AutodiffBackend, backend::Backend};
use divan::Bencher;
use mha::{AttentionOptions, Path, attention};

fn main() {
    divan::main();
}

/// Sizes of a call.
#[derive(Clone, Copy)]
struct Size {
    batch: usize,
    heads: usize,
    seq_q: usize,
    seq_k: usize,
    width: usize,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, heads, seq_q, seq_k, width } = self;
        write!(f, "{batch} x {heads} heads, {seq_q} x {seq_k}, {width}")
    }
}

fn sizes() -> impl Iterator<Item = Size> {
    let sizes = [
        [1, 1, 1, 1, 8],
        [1, 1, 7, 7, 8],
        [1, 4, 16, 16, 16],
        [32, 4, 16, 16, 16],
        [256, 2, 8, 8, 32],
        [1, 64, 16, 16, 8],
        [1, 8, 32, 32, 64],
        [8, 8, 64, 64, 64],
        [1, 8, 128, 128, 64],
        [1, 8, 1, 16, 64],
        [1, 8, 1, 256, 64],
        [16, 8, 1, 64, 64],
        [1, 8, 3, 1000, 64],
        [1, 2, 257, 31, 24],
    ];
    sizes.into_iter().map(|[batch, heads, seq_q, seq_k, width]| Size {
        batch,
        heads,
        seq_q,
        seq_k,
        width,
    })
}

fn tensors<B: Backend>(size: Size) -> [Tensor<B, 4>; 3] {
    let Size { batch, heads, seq_q, seq_k, width } = size;
    [seq_q, seq_k, seq_k].map(|seq| {
        Tensor::random([batch, seq, heads, width], Distribution::Default, &Default::default())
    })
}

#[divan::bench(types = [NdArray, Flex], args = sizes())]
fn fused<B: Backend>(bencher: Bencher<'_, '_>, size: Size) {
    forward::<B>(bencher, size, Path::Fused);
}

#[divan::bench(types = [NdArray, Flex], args = sizes())]
fn plain<B: Backend>(bencher: Bencher<'_, '_>, size: Size) {
    forward::<B>(bencher, size, Path::Plain);
}

#[divan::bench(types = [Autodiff<NdArray>, Autodiff<Flex>], args = sizes())]
fn fused_gradients<B: AutodiffBackend>(bencher: Bencher<'_, '_>, size: Size) {
    gradients::<B>(bencher, size, Path::Fused);
}

#[divan::bench(types = [Autodiff<NdArray>, Autodiff<Flex>], args = sizes())]
fn plain_gradients<B: AutodiffBackend>(bencher: Bencher<'_, '_>, size: Size) {
    gradients::<B>(bencher, size, Path::Plain);
}

fn forward<B: Backend>(bencher: Bencher<'_, '_>, size: Size, path: Path) {
    let inputs = tensors::<B>(size);
    let options = AttentionOptions::default().path(path);
    bencher.bench_local(|| {
        let [query, key, value] = inputs.clone();
        attention(query, key, value, &options).context
    });
}

fn gradients<B: AutodiffBackend>(bencher: Bencher<'_, '_>, size: Size, path: Path) {
    let inputs = tensors::<B>(size).map(Tensor::require_grad);
    let options = AttentionOptions::default().path(path);
    bencher.bench_local(|| {
        let [query, key, value] = inputs.clone();
        attention(query, key, value, &options).context.sum().backward()
    });
}
