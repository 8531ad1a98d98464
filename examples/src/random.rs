//! Reproducible random bits.

/// Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators". Ours rather than a
/// crate's, so that no update changes what an example drew from a seed.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream that differs in all its numbers when one of `words` does.
    pub fn from_words<const N: usize>(words: [u64; N]) -> Self {
        words.into_iter().fold(Self(0), |mut stream, word| Self(stream.next_bits() ^ word))
    }

    /// The next 64 bits.
    pub fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number from 0 to `bound - 1`; `bound` is below 2^32, so that the product fits.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((self.next_bits() >> 32) * bound) >> 32
    }
}
