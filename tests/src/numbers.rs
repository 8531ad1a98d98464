//! Reproducible numbers.

/// `count` numbers in [-1.5, 1.5), exactly the same in f32 and f64, a function of the seed.
pub fn numbers(seed: u64, count: usize) -> Vec<f32> {
    words(seed)
        .take(count)
        .map(|word| ((word >> 40) as f32 / (1 << 24) as f32 - 0.5) * 3.0)
        .collect()
}

/// `count` booleans, true with a probability of `percent` in a hundred.
pub fn coins(seed: u64, count: usize, percent: u64) -> Vec<bool> {
    words(seed ^ 0xC0_1E).take(count).map(|word| (word >> 32) % 100 < percent).collect()
}

/// `SplitMix64` (Steele, Lea and Flood 2014).
fn words(seed: u64) -> impl Iterator<Item = u64> {
    (1u64..).map(move |count| {
        let mut x = seed.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    })
}
