//! The frequencies of rotary positions under each way to stretch them to longer sequences.

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};

use super::bounds::{check_divisors, check_factor, check_length};
use super::yarn::Yarn;
use crate::Error;
use crate::error::short;

/// What stretches rotary positions to longer sequences than a model was trained on.
///
/// Factors are at least 1, lengths are in tokens. Below, ωᵢ is the frequency of pair i without
/// scaling, θ^(-2i / width).
///
/// # Example
///
/// ```
/// use mha::{Rotary, RotaryScaling};
///
/// let rotary = Rotary::half(10_000.0);
/// let stretched = rotary.clone().with_scaling(RotaryScaling::Linear { factor: 4.0 });
/// assert_eq!(stretched.frequencies(64, 0)[5], rotary.frequencies(64, 0)[5] / 4.0);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub enum RotaryScaling {
    /// ωᵢ as they are.
    #[default]
    None,
    /// ωᵢ / factor, "position interpolation". Chen et al. 2023, section 2.3:
    /// <https://arxiv.org/abs/2306.15595>.
    Linear {
        /// How many times longer sequences are.
        factor: f64,
    },
    /// θ grows until the slowest pair turns `factor` times slower: θ · factor^(width / (width - 2)).
    /// Peng et al. 2023, section 3.1: <https://arxiv.org/abs/2309.00071>.
    Ntk {
        /// How many times longer sequences are.
        factor: f64,
    },
    /// As [`Ntk`](Self::Ntk), with the factor 1 + factor · (length / original_length - 1) from
    /// `original_length` on and 1 before. Peng et al. 2023, section 3.3.
    DynamicNtk {
        /// How fast the factor grows with the length.
        factor: f64,
        /// The length trained on, at least 1.
        original_length: usize,
    },
    /// YaRN: fast pairs as they are, slow ones divided by the factor, and scores scaled up.
    Yarn(Yarn),
    /// Llama 3: pairs that turn at least `high` times within `original_length` are as they are,
    /// those that turn at most `low` times are divided by the factor, the others blend. Defined by
    /// Meta's code, `apply_scaling` in `models/llama3/reference_impl/model.py` of
    /// <https://github.com/meta-llama/llama-models>.
    Llama3 {
        /// How many times longer sequences are.
        factor: f64,
        /// Turns, above 0 and at most `high`. Llama 3.1 has 1.
        low: f64,
        /// Turns, finite. Llama 3.1 has 4, Llama 4 has 1.
        high: f64,
        /// The length trained on, at least 1.
        original_length: usize,
    },
    /// LongRoPE: each ωᵢ is divided by a number of its own, and turned channels are multiplied by
    /// √(1 + ln(max_length / original_length) / ln original_length), as Phi-3 does. Ding et al.
    /// 2024: <https://arxiv.org/abs/2402.13753>.
    LongRope {
        /// The divisors up to `original_length`: width / 2 numbers in `[1e-6, 1e6]`.
        short: Vec<f64>,
        /// The divisors of longer sequences: width / 2 numbers in `[1e-6, 1e6]`.
        long: Vec<f64>,
        /// The length trained on first, at least 2.
        original_length: usize,
        /// The length trained on in the end, at least `original_length`.
        max_length: usize,
    },
    /// The first ⌊share · head_dim / 2⌋ pairs turn by ωᵢ / factor, the others do not turn, as in
    /// Gemma 4. Unlike with [`width`](super::Rotary::width), exponent and pairing are those of the
    /// whole head.
    Proportional {
        /// The share of pairs that turn, above 0 and at most 1.
        share: f64,
        /// How many times longer sequences are; 1 in Gemma 4.
        factor: f64,
    },
}

impl RotaryScaling {
    /// Radians per position of each pair among `width` channels, once `check` has passed.
    pub(super) fn frequencies(&self, theta: f64, width: usize, length: usize) -> Vec<f64> {
        let plain = |i: usize| theta.powf(-2.0 * i as f64 / width as f64);
        let pairs = 0..width / 2;
        match self {
            Self::None => pairs.map(plain).collect(),
            Self::Linear { factor } => pairs.map(|i| plain(i) / factor).collect(),
            Self::Ntk { factor } => pairs.map(|i| plain(i) * slowdown(*factor, i, width)).collect(),
            Self::DynamicNtk { factor, original_length } => {
                let beyond = length.max(*original_length) as f64 / *original_length as f64 - 1.0;
                let factor = 1.0 + factor * beyond;
                pairs.map(|i| plain(i) * slowdown(factor, i, width)).collect()
            }
            Self::Yarn(yarn) => {
                let ramp = yarn.ramp(theta, width);
                let blend = |i| plain(i) * (ramp(i) / yarn.factor + (1.0 - ramp(i)));
                pairs.map(blend).collect()
            }
            Self::Llama3 { factor, low, high, original_length } => {
                let blend = |frequency: f64| {
                    let turns = *original_length as f64 * frequency / TAU;
                    let kept = if turns >= *high {
                        1.0
                    } else if turns <= *low {
                        0.0
                    } else {
                        (turns - low) / (high - low)
                    };
                    frequency * ((1.0 - kept) / factor + kept)
                };
                pairs.map(plain).map(blend).collect()
            }
            Self::LongRope { short, long, original_length, .. } => {
                let divisors = if length > *original_length { long } else { short };
                pairs.zip(divisors).map(|(i, divisor)| plain(i) / divisor).collect()
            }
            Self::Proportional { share, factor } => {
                let turning = (share * width as f64 / 2.0).floor() as usize;
                pairs.map(|i| if i < turning { plain(i) / factor } else { 0.0 }).collect()
            }
        }
    }

    pub(super) fn magnitude(&self) -> f64 {
        match self {
            Self::Yarn(yarn) => yarn.magnitude(),
            Self::LongRope { original_length, max_length, .. } => {
                let (original, max) = (*original_length as f64, *max_length as f64);
                (1.0 + (max / original).ln() / original.ln()).sqrt()
            }
            _ => 1.0,
        }
    }

    pub(super) fn turns_a_share(&self) -> bool {
        matches!(self, Self::Proportional { .. })
    }

    pub(super) fn check(&self, pairs: usize) -> Result<(), Error> {
        match self {
            Self::None => Ok(()),
            Self::Linear { factor } | Self::Ntk { factor } => check_factor(*factor),
            Self::DynamicNtk { factor, original_length } => {
                check_factor(*factor)?;
                check_length("original_length", *original_length, 1)
            }
            Self::Yarn(yarn) => yarn.check(),
            Self::Llama3 { factor, low, high, original_length } => {
                check_factor(*factor)?;
                check_length("original_length", *original_length, 1)?;
                if 0.0 < *low && low <= high && high.is_finite() {
                    return Ok(());
                }
                let actual = format!("low {} and high {}", short(*low), short(*high));
                Err(Error::value("low", "be above 0 and at most high, which is finite", actual))
            }
            Self::LongRope { short, long, original_length, max_length } => {
                check_divisors("short", short, pairs)?;
                check_divisors("long", long, pairs)?;
                check_length("original_length", *original_length, 2)?;
                check_length("max_length", *max_length, *original_length)
            }
            Self::Proportional { share, factor } => {
                check_factor(*factor)?;
                if 0.0 < *share && *share <= 1.0 {
                    return Ok(());
                }
                Err(Error::number("share", "be above 0 and at most 1", *share))
            }
        }
    }
}

/// What ωᵢ is multiplied by when θ is by factor^(width / (width - 2)). Written so that it exists
/// at width 2, whose only pair keeps its frequency, and overflows nowhere.
fn slowdown(factor: f64, i: usize, width: usize) -> f64 {
    if i == 0 { 1.0 } else { factor.powf(-2.0 * i as f64 / (width - 2) as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rotary;

    /// Agreement to six digits, all that the expected numbers have.
    fn assert_close(actual: f64, expected: f64) {
        assert!((actual / expected - 1.0).abs() < 5e-6, "{actual} for {expected}");
    }

    /// Scaled as without scaling at another base.
    fn assert_base(scaling: RotaryScaling, length: usize, theta: f64) {
        let scaled = Rotary::half(1e4).with_scaling(scaling).frequencies(64, length);
        let plain = Rotary::half(theta).frequencies(64, length);
        assert!(scaled.iter().zip(&plain).all(|(a, b)| (a / b - 1.0).abs() < 2e-9), "{scaled:?}");
    }

    #[test]
    fn ntk() {
        assert_base(RotaryScaling::Ntk { factor: 4.0 }, 0, 41829.3659);
        let dynamic = || RotaryScaling::DynamicNtk { factor: 2.0, original_length: 2048 };
        assert_base(dynamic(), 4096, 31082.2367);
        for length in [0, 1, 2048] {
            assert_base(dynamic(), length, 1e4);
        }
        let slowest = RotaryScaling::Ntk { factor: 4.0 }.frequencies(1e4, 64, 0)[31];
        assert_close(slowest, 1e4f64.powf(-62.0 / 64.0) / 4.0);
    }

    #[test]
    fn llama3() {
        let scaling =
            |low, high| RotaryScaling::Llama3 { factor: 8.0, low, high, original_length: 8192 };
        let frequencies = scaling(1.0, 4.0).frequencies(5e5, 128, 0);
        let expected =
            [(1, 0.814617), (28, 0.00321145), (29, 0.00216657), (35, 9.55621e-5), (63, 3.06893e-7)];
        for (i, expected) in expected {
            assert_close(frequencies[i], expected);
        }
        // Without a range between: a pair that turns exactly once is no 0 / 0.
        let theta = (8192.0 / TAU) * (8192.0 / TAU);
        let frequencies = scaling(1.0, 1.0).frequencies(theta, 4, 0);
        assert!(frequencies.iter().all(|x| x.is_finite()), "{frequencies:?}");
    }

    #[test]
    fn long_rope() {
        let scaling = RotaryScaling::LongRope {
            short: vec![1.0, 2.0],
            long: vec![4.0, 8.0],
            original_length: 4096,
            max_length: 131072,
        };
        assert_eq!(scaling.frequencies(1e4, 4, 4096), [1.0, 0.01 / 2.0]);
        assert_eq!(scaling.frequencies(1e4, 4, 4097), [0.25, 0.01 / 8.0]);
        assert_close(scaling.magnitude(), (1.0f64 + 5.0 / 12.0).sqrt());
        assert!(Rotary::half(1e4).with_scaling(scaling).depends_on_length());
    }

    #[test]
    fn proportional() {
        let scaling = RotaryScaling::Proportional { share: 0.5, factor: 2.0 };
        let frequencies = scaling.frequencies(1e4, 8, 0);
        assert_eq!(frequencies[0], 0.5);
        assert_close(frequencies[1], 0.05); // θ^(-2 / 8): over the whole head
        assert_eq!(frequencies[2..], [0.0, 0.0]);
        let odd = RotaryScaling::Proportional { share: 0.7, factor: 1.0 };
        assert_eq!(odd.frequencies(1e4, 8, 0).iter().filter(|&&x| x > 0.0).count(), 2);
    }

    #[test]
    fn refused() {
        let message = |scaling: RotaryScaling| scaling.check(2).unwrap_err().to_string();
        for (factor, word) in [(0.5, "0.5"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
            let expected = format!("factor must be at least 1 and finite, got {word}");
            let (original_length, share) = (1, 1.0);
            assert_eq!(message(RotaryScaling::Linear { factor }), expected);
            assert_eq!(message(RotaryScaling::Ntk { factor }), expected);
            assert_eq!(message(RotaryScaling::DynamicNtk { factor, original_length }), expected);
            assert_eq!(message(RotaryScaling::Proportional { share, factor }), expected);
            let (low, high) = (1.0, 4.0);
            let llama = RotaryScaling::Llama3 { factor, low, high, original_length };
            assert_eq!(message(llama), expected);
        }
        assert_eq!(
            message(RotaryScaling::DynamicNtk { factor: 2.0, original_length: 0 }),
            "original_length must be at least 1, got 0"
        );
        for (low, high) in [(0.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
            let llama = RotaryScaling::Llama3 { factor: 8.0, low, high, original_length: 1 };
            let expected = "low must be above 0 and at most high, which is finite, got low";
            assert_eq!(message(llama), format!("{expected} {low} and high {high}"));
        }
        for (share, word) in [(0.0, "0"), (1.5, "1.5"), (f64::NAN, "NaN")] {
            let expected = format!("share must be above 0 and at most 1, got {word}");
            assert_eq!(message(RotaryScaling::Proportional { share, factor: 1.0 }), expected);
        }
        let long_rope = |short: &[f64], long: &[f64], original_length, max_length| {
            let (short, long) = (short.to_vec(), long.to_vec());
            message(RotaryScaling::LongRope { short, long, original_length, max_length })
        };
        let expected = "must be 2 numbers in [1e-6, 1e6], one for each pair of channels, got";
        let good = [1.0, 2.0];
        assert_eq!(long_rope(&[1.0], &good, 4, 8), format!("short {expected} 1 numbers"));
        assert_eq!(long_rope(&good, &[1.0, 0.0], 4, 8), format!("long {expected} 0"));
        assert_eq!(long_rope(&good, &good, 1, 8), "original_length must be at least 2, got 1");
        assert_eq!(long_rope(&good, &good, 4, 3), "max_length must be at least 4, got 3");
    }

    #[test]
    fn serde() {
        let scaling = RotaryScaling::DynamicNtk { factor: 2.0, original_length: 2048 };
        let json = serde_json::to_string(&scaling).unwrap();
        assert_eq!(json, r#"{"DynamicNtk":{"factor":2.0,"original_length":2048}}"#);
        assert_eq!(serde_json::from_str::<RotaryScaling>(&json).unwrap(), scaling);
        let wrong = r#"{"Linear":{"factor":2.0,"faktor":1.0}}"#;
        let error = serde_json::from_str::<RotaryScaling>(wrong).unwrap_err().to_string();
        assert!(error.contains("unknown field `faktor`"), "{error}");
    }
}
