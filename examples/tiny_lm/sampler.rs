//! Choosing the next token from the scores of all.

use mha_examples::random::SplitMix64;

/// Draws tokens; the same scores give the same tokens for a seed.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    temperature: f64,
    random: SplitMix64,
}

impl Sampler {
    /// `temperature` is what scores are divided by, 0 or more; at 0 the highest score wins.
    pub(crate) fn new(temperature: f64, seed: u64) -> Self {
        Self { temperature, random: SplitMix64::new(seed) }
    }

    /// A place in `scores`, drawn by softmax(scores / temperature).
    pub(crate) fn choose(&mut self, scores: &[f32]) -> usize {
        let best = (0..scores.len()).fold(0, |a, b| if scores[b] > scores[a] { b } else { a });
        if self.temperature == 0.0 {
            return best;
        }
        let highest = f64::from(scores[best]);
        let weight = |&score: &f32| ((f64::from(score) - highest) / self.temperature).exp();
        let weights: Vec<f64> = scores.iter().map(weight).collect();
        // 53 random bits are what the fraction of an f64 holds.
        let drawn = (self.random.next_bits() >> 11) as f64 / (1u64 << 53) as f64;
        let mut left = drawn * weights.iter().sum::<f64>();
        for (token, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return token;
            }
        }
        best // what rounding may leave
    }
}
