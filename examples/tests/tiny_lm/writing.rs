//! Sampling, and that the cache changes nothing.

use burn::{
    backend::NdArray,
    tensor::{Tensor, TensorData, Tolerance, backend::Backend},
};

use mha::KvCache;

use crate::{
    generate::{Way, generate, window_start},
    model::TinyLm,
    sampler::Sampler,
    sizes::Sizes,
};

const SIZES: Sizes = Sizes { context: 8, d_model: 24, heads: 6, kv_heads: 2, layers: 3 };

fn model() -> TinyLm<NdArray> {
    let device = Default::default();
    NdArray::<f32>::seed(&device, 1);
    SIZES.try_init(11, 0.0, &device).unwrap()
}

fn write(
    model: &TinyLm<NdArray>,
    prompt: &[i32],
    way: Way,
    temperature: f64,
    seed: u64,
) -> Vec<i32> {
    generate(model, prompt, 40, SIZES.context, way, Sampler::new(temperature, seed))
}

#[test]
fn with_and_without_the_cache_the_same_tokens() {
    let model = model();
    // Shorter than a context, just one, longer.
    for length in [1, 5, 8, 9, 30] {
        let prompt: Vec<i32> = (0..length).map(|i| i * 7 % 11).collect();
        for temperature in [0.0, 1.0] {
            let [cached, recomputed] = [Way::Cached, Way::Recomputed]
                .map(|way| write(&model, &prompt, way, temperature, 3));
            assert_eq!(cached.len(), 40);
            assert_eq!(cached, recomputed, "prompt of {length}, temperature {temperature}");
        }
    }
}

#[test]
fn with_and_without_the_cache_the_same_scores() {
    let (model, device) = (model(), Default::default());
    let tokens = TensorData::from([[3, 1, 4, 1, 5, 9, 2, 6]]);
    let tokens = Tensor::<NdArray, 2, burn::tensor::Int>::from_data(tokens, &device);
    let expected = model.forward(tokens.clone(), None).into_data();

    let mut caches: Vec<_> = (0..SIZES.layers).map(|_| KvCache::preallocated(8)).collect();
    let parts = [(0, 3), (3, 1), (4, 4)].map(|(start, length)| {
        model.forward(tokens.clone().narrow(1, start, length), Some(&mut caches))
    });
    let actual = Tensor::cat(parts.to_vec(), 1).into_data();
    actual.assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-5));
}

#[test]
fn no_token_sees_a_later_one() {
    let (model, device) = (model(), Default::default());
    let scores = |tokens: [[i32; 4]; 1]| {
        let tokens = Tensor::from_data(TensorData::from(tokens), &device);
        model.forward(tokens, None).narrow(1, 0, 3).into_data()
    };
    assert_eq!(scores([[3, 1, 4, 1]]), scores([[3, 1, 4, 9]]));
    assert_ne!(scores([[3, 1, 4, 1]]), scores([[1, 3, 4, 1]]), "the order counts");
}

#[test]
fn seed_and_temperature_decide_what_is_written() {
    let model = model();
    let write = |temperature, seed| write(&model, &[1], Way::Cached, temperature, seed);
    assert_eq!(write(1.0, 3), write(1.0, 3));
    assert_ne!(write(1.0, 3), write(1.0, 4));
    assert_eq!(write(0.0, 3), write(0.0, 4));
}

#[test]
fn tokens_are_drawn_as_often_as_the_softmax_says() {
    let mut sampler = Sampler::new(0.5, 0);
    // At this temperature the weights are 1, 4 and 16 of 21.
    let scores = [0.0, 2f32.ln(), 4f32.ln()];
    let mut counts = [0; 3];
    (0..21_000).for_each(|_| counts[sampler.choose(&scores)] += 1);
    // Within 5 standard deviations, which are 31, 56 and 62.
    for (count, (expected, off)) in counts.iter().zip([(1000, 155), (4000, 280), (16_000, 310)]) {
        assert!((expected - off..expected + off).contains(count), "{counts:?}");
    }
    assert_eq!(Sampler::new(0.0, 0).choose(&[-3.0, -1.0, -1.0]), 1, "the first of the highest");
}

#[test]
fn the_window_drops_its_older_half_when_it_is_full() {
    let starts: Vec<_> = (0..15).map(|length| window_start(length, 4)).collect();
    assert_eq!(starts, [0, 0, 0, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10]);
    assert_eq!([1, 2, 3].map(|length| window_start(length, 1)), [0, 1, 2]);
}
