//! How much memory attention takes: linear in the length, on the CPU backends. A binary of its own with
//! a single test, since it counts what the whole process allocates.
#![cfg(any(feature = "ndarray", feature = "flex"))]

use burn::tensor::backend::AutodiffBackend;
use mha::{KvCache, Mask, MhaInput, MultiHeadAttentionConfig, attention, free_buffers};
use mha_tests::{bools, numbers, tensor};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const MIB: f64 = (1u64 << 20) as f64;

/// How many MiB more than before `run` there were at its peak, and after it.
fn growth<R>(run: impl FnOnce() -> R) -> (f64, f64) {
    free_buffers();
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    let result = run();
    let peak = ALLOCATED.peak_usage();
    drop(result);
    free_buffers();
    let mib = |bytes: usize| (bytes as f64 - before as f64) / MIB;
    (mib(peak), mib(ALLOCATED.current_usage()))
}

#[test]
fn grows_with_the_length_alone() {
    #[cfg(feature = "ndarray")]
    check::<burn::backend::Autodiff<burn::backend::NdArray>>("NdArray");
    #[cfg(feature = "flex")]
    check::<burn::backend::Autodiff<burn::backend::Flex>>("Flex");
}

fn check<B: AutodiffBackend>(backend: &str) {
    // BR-39: keras-multi-head #1, nanochat #825 (a window does not cut memory), pytorch #116472 (a
    // mask copied per head), burn #4339. The scores of one head would be 1 GiB.
    let (seq, width) = (16_384, 64);
    let padding = bools::<B, 2>(&(0..seq).map(|j| j % 5 == 4).collect::<Vec<_>>(), [1, seq]);
    let masks = [
        ("causal", Mask::causal()),
        ("window", Mask::window(255, 0)),
        ("padding", Mask::block_keys(padding)),
    ];
    let mut peaks = Vec::new();
    for (name, mask) in masks {
        let leaf = |seed| {
            tensor::<B, 4, _>(&numbers(seed, seq * width), [1, seq, 1, width]).require_grad()
        };
        let inputs = [1, 2, 3].map(leaf);
        let (peak, _) = growth(|| {
            let [query, key, value] = inputs.clone();
            let options = mha::AttentionOptions::default().mask(mask);
            let gradients = attention(query, key, value, &options).context.sum().backward();
            inputs.each_ref().map(|input| input.grad(&gradients).expect("it is a leaf"))
        });
        assert!(peak < 128.0, "{backend}, {name}: {peak} MiB");
        peaks.push(peak);
    }
    // How many tasks are under way at the peak is up to the threads.
    assert!(peaks[1] <= 1.25 * peaks[0], "{backend}: a window takes more than causal: {peaks:?}");

    // A mask of each key is not copied per head or query: 4 heads, 512 keys, against none.
    let (batch, heads, seq) = (2, 4, 512);
    let of = |mask: Mask<B>| {
        let leaf = |seed| {
            tensor::<B, 4, _>(&numbers(seed, batch * seq * heads * 8), [batch, seq, heads, 8])
        };
        let inputs = [1, 2, 3].map(leaf);
        growth(|| {
            let [query, key, value] = inputs.clone();
            attention(query, key, value, &mha::AttentionOptions::default().mask(mask)).context
        })
        .0
    };
    let hidden: Vec<bool> = (0..batch * seq).map(|j| j % 3 == 0).collect();
    let more = of(Mask::block_keys(bools(&hidden, [batch, seq]))) - of(Mask::none());
    let expanded = (batch * heads * seq * seq) as f64 / MIB;
    assert!(more < 0.25 * expanded, "{backend}: {more} MiB for a mask, expanded {expanded}");

    // A token more does not copy the keys and values of those before, 2 MiB each.
    let module = MultiHeadAttentionConfig::new(64, 4).init::<B::InnerBackend>(&Default::default());
    let tokens = tensor::<B::InnerBackend, 3, _>(&numbers(6, 8191 * 64), [1, 8191, 64]);
    let last = tokens.clone().narrow(1, 8190, 1);
    let mut cache = KvCache::preallocated(8200);
    module.forward_cached(MhaInput::self_attn(tokens).causal(), &mut cache);
    for _ in 0..8 {
        let step = || module.forward_cached(MhaInput::self_attn(last.clone()).causal(), &mut cache);
        let (peak, after) = growth(step);
        assert!(peak < 0.5, "{backend}: {peak} MiB for a token");
        assert!(after < 0.1, "{backend}: a token left {after} MiB");
    }

    // Training: flat over the steps.
    let module =
        MultiHeadAttentionConfig::new(64, 4).with_dropout(0.0).init::<B>(&Default::default());
    let step = || {
        let tokens = tensor::<B, 3, _>(&numbers(5, 300 * 64), [1, 300, 64]).require_grad();
        let out = module.forward(MhaInput::self_attn(tokens).mask(Mask::causal()));
        drop(out.context.sum().backward());
    };
    (0..5).for_each(|_| step());
    let (_, after) = growth(|| (0..50).for_each(|_| step()));
    assert!(after.abs() < 0.5, "{backend}: 50 steps left {after} MiB");
}
