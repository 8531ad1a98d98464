//! Dropout whose pattern is a function of a seed and of the pair's place, on every backend alike.
//!
//! Each weight gets a word, a pseudo-random number of 31 bits: two keys per row (batch, head,
//! query) and one per column (key) are mixed into it. A word depends on nothing else, so any
//! path, tiled or not, forward or backward, finds the same pattern without storing it. Words have
//! 31 bits so that signed 32-bit and 64-bit integers hold them alike: no sign to shift in, and a
//! product of two of them neither needs more than 62 bits nor changes its low 31 when it wraps.
//!
//! The mixing step is the multiply-xorshift hash of Wellons 2018, "Prospecting for hash
//! functions", <https://nullprogram.com/blog/2018/07/31/>, on 31 bits.

use burn::tensor::{Bool, DType, Distribution, ElementConversion, Int, Tensor, backend::Backend};

use super::sizes::Sizes;

const MASK: u32 = 0x7fff_ffff;
const M1: u32 = 0x21f0_aaad;
const M2: u32 = 0x735a_2d97;
/// Starts the second row key elsewhere than the first: the fraction of the golden ratio.
const SECOND: u32 = 0x1e37_79b9;

/// The dropout of one call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Dropout {
    /// In `[0, 1)`.
    pub(crate) probability: f64,
    pub(crate) seed: Option<u64>,
}

impl Dropout {
    /// The dropped pairs, `[batch, n_heads, seq_q, seq_k]`, or nothing where nothing is dropped.
    pub(crate) fn pattern<B: Backend>(
        &self,
        sizes: &Sizes,
        device: &B::Device,
    ) -> Option<Tensor<B, 4, Bool>> {
        if !self.is_on::<B>(device) {
            return None;
        }
        let seed = self.seed(device);
        let seed = [0, 1].map(|index| seed.clone().narrow(0, index, 1).reshape([1, 1, 1, 1]));
        Some(words(seed, sizes, device).lower_elem(threshold(self.probability)))
    }

    /// Whether weights are dropped at all.
    pub(crate) fn is_on<B: Backend>(&self, device: &B::Device) -> bool {
        self.probability > 0.0 && B::ad_enabled(device)
    }

    /// The two words of the seed; drawn on the device when none was given.
    pub(crate) fn seed<B: Backend>(&self, device: &B::Device) -> Tensor<B, 1, Int> {
        let words: Tensor<B, 1, Int> = match self.seed {
            Some(seed) => Tensor::from_ints(split_seed(seed).map(|word| word as i32), device),
            // Backends draw integers through f32, which holds 24 bits.
            None => Tensor::random([2], Distribution::Uniform(0.0, f64::from(1 << 24)), device),
        };
        wide(words)
    }
}

/// Whether dropout with this seed and probability drops the weight of query `i` and key `j` in
/// one batch entry and head: the definition, in plain numbers.
pub(crate) fn drops(seed: u64, probability: f64, [b, h, i, j]: [usize; 4]) -> bool {
    word(split_seed(seed), [b, h, i, j].map(|x| x as u32 & MASK)) < threshold(probability)
}

fn threshold(probability: f64) -> u32 {
    // Below 2³¹ also for a probability that rounds to 1.
    (probability * f64::from(1u32 << 31)).round().min(f64::from(MASK)) as u32
}

/// Spreads a seed over two words (the finalizer of `SplitMix64`, Steele et al. 2014).
fn split_seed(seed: u64) -> [u32; 2] {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    [x as u32 & MASK, (x >> 32) as u32 & MASK]
}

/// The word of one pair. [`words`] computes the same for all pairs, line by line.
fn word([low, high]: [u32; 2], [b, h, i, j]: [u32; 4]) -> u32 {
    let multiply = |x: u32, m: u32| x.wrapping_mul(m) & MASK;
    let mix = |x: u32| {
        let x = multiply(x ^ (x >> 16), M1);
        let x = multiply(x ^ (x >> 15), M2);
        x ^ (x >> 15)
    };
    let row = |start: u32| mix(mix(mix(mix(start) ^ b) ^ h) ^ i);
    let (first, second) = (row(low), row(high ^ SECOND));
    let x = first ^ mix(j ^ SECOND);
    let x = multiply(x ^ (x >> 16), M1) ^ second;
    let x = multiply(x ^ (x >> 15), M2);
    x ^ (x >> 15)
}

/// The words of all pairs: `[batch, n_heads, seq_q, seq_k]`.
fn words<B: Backend>(
    [low, high]: [Tensor<B, 4, Int>; 2],
    sizes: &Sizes,
    device: &B::Device,
) -> Tensor<B, 4, Int> {
    let count = |n: usize, axis: usize| {
        let mut dims = [1; 4];
        dims[axis] = n;
        wide(Tensor::<B, 1, Int>::arange(0..n as i64, device)).reshape(dims)
    };
    let &Sizes { batch, n_heads, seq_q, seq_k, .. } = sizes;
    let (b, h) = (count(batch, 0), count(n_heads, 1));
    let (i, j) = (count(seq_q, 2), count(seq_k, 3));

    let row = |start| {
        let rows = mix(xor(mix(start), b.clone()));
        mix(xor(mix(xor(rows, h.clone())), i.clone()))
    };
    let (first, second) = (row(low), row(high.bitwise_xor_scalar(SECOND.elem())));
    let x = xor(first, mix(j.bitwise_xor_scalar(SECOND.elem())));
    let x = xor(multiply(xorshift(x, 16), M1), second);
    xorshift(multiply(xorshift(x, 15), M2), 15)
}

fn mix<B: Backend>(x: Tensor<B, 4, Int>) -> Tensor<B, 4, Int> {
    let x = multiply(xorshift(x, 16), M1);
    let x = multiply(xorshift(x, 15), M2);
    xorshift(x, 15)
}

fn xorshift<B: Backend>(x: Tensor<B, 4, Int>, by: u32) -> Tensor<B, 4, Int> {
    x.clone().bitwise_xor(x.bitwise_right_shift_scalar(by.elem()))
}

fn multiply<B: Backend>(x: Tensor<B, 4, Int>, by: u32) -> Tensor<B, 4, Int> {
    x.mul_scalar(by).bitwise_and_scalar(MASK.elem())
}

/// Exclusive or, broadcast.
fn xor<B: Backend>(a: Tensor<B, 4, Int>, b: Tensor<B, 4, Int>) -> Tensor<B, 4, Int> {
    let (from, to) = (a.dims(), b.dims());
    let dims: [usize; 4] = std::array::from_fn(|axis| from[axis].max(to[axis]));
    a.expand(dims).bitwise_xor(b.expand(dims))
}

/// 64-bit integers where the backend has them: on a CPU a 32-bit product that wraps is an error
/// in a debug build. GPUs without them wrap.
fn wide<B: Backend>(tensor: Tensor<B, 1, Int>) -> Tensor<B, 1, Int> {
    let can = B::supports_dtype(&tensor.device(), DType::I64);
    if can { tensor.cast(DType::I64) } else { tensor }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What every backend must reproduce, and what no later version may change: computed by a
    /// second, independent implementation.
    #[test]
    fn golden_words() {
        let seed = split_seed(42);
        assert_eq!(seed, [0x2feb_6e95, 0x3dd7_3226]);
        let golden = [
            ([0, 0, 0, 0], 0x5646_1187),
            ([0, 0, 0, 1], 0x1b40_201b),
            ([0, 0, 1, 0], 0x7912_1d9f),
            ([0, 1, 0, 0], 0x5e9c_ec00),
            ([1, 0, 0, 0], 0x6c5b_64b3),
            ([3, 5, 7, 11], 0x6471_b8b9),
        ];
        for (place, expected) in golden {
            assert_eq!(word(seed, place), expected, "{place:?}");
        }
    }

    /// The share of dropped weights, and of weights dropped together with a neighbour along each
    /// axis or with their namesake under another seed, is what chance gives: within 4 standard
    /// deviations.
    #[test]
    fn words_look_independent() {
        let (probability, n) = (0.1, 40usize);
        let places =
            || (0..n * n * n * n).map(|x| [x / n / n / n, x / n / n % n, x / n % n, x % n]);
        let count = (n * n * n * n) as f64;
        let expect = |what: &str, hits: usize, chance: f64| {
            let deviation = (count * chance * (1.0 - chance)).sqrt();
            let off = (hits as f64 - count * chance) / deviation;
            assert!(off.abs() < 4.0, "{what}: {off} standard deviations");
        };
        let dropped = |seed: u64, place: [usize; 4]| drops(seed, probability, place);
        expect("share", places().filter(|&p| dropped(1, p)).count(), probability);
        for axis in 0..4 {
            let both = places().filter(|&p| {
                let mut next = p;
                next[axis] += 1;
                dropped(1, p) && dropped(1, next)
            });
            expect("neighbours", both.count(), probability * probability);
        }
        let both = places().filter(|&p| dropped(1, p) && dropped(2, p)).count();
        expect("seeds", both, probability * probability);
    }
}
