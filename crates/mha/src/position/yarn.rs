//! YaRN: which pairs of channels are stretched, and how much louder they become.

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};

use super::bounds::{check_factor, check_length, check_range};
use crate::Error;
use crate::error::short;

/// The numbers of [`RotaryScaling::Yarn`](super::RotaryScaling::Yarn).
///
/// Pairs of channels that turn more than `beta_fast` times within `original_length` tokens keep
/// their frequency, those that turn less than `beta_slow` times are divided by `factor`, and the
/// ones between are blended along a straight ramp. Turned channels are multiplied by
/// m = 0.1 ln(factor) + 1.
///
/// Peng et al. 2023, sections 3.2 and 3.4 (their β is our `beta_fast`, their α our `beta_slow`):
/// <https://arxiv.org/abs/2309.00071>.
///
/// # Example
///
/// ```
/// use mha::{Rotary, RotaryScaling, Yarn};
///
/// // gpt-oss
/// let yarn = Yarn::new(32.0, 4096).with_truncate(false);
/// let rotary = Rotary::half(150_000.0).with_scaling(RotaryScaling::Yarn(yarn));
/// assert!((rotary.magnitude() - 1.3466).abs() < 1e-4);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Yarn {
    /// How many times longer sequences are, at least 1.
    pub factor: f64,
    /// The length trained on in tokens, at least 1.
    pub original_length: usize,
    /// Turns within `original_length` at which stretching starts, finite. Default: 32.
    #[serde(default = "default_beta_fast")]
    pub beta_fast: f64,
    /// Turns at which stretching is full, above 0 and at most `beta_fast`. Default: 1.
    #[serde(default = "default_beta_slow")]
    pub beta_slow: f64,
    /// Whether the ends of the ramp are rounded outwards to whole pairs. Default: true.
    #[serde(default = "default_truncate")]
    pub truncate: bool,
    /// The number m itself, in `[1e-6, 1e6]`. Default: from `factor`, as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_factor: Option<f64>,
    /// DeepSeek's a in m = g(a) / g(b), where g(x) = 0.1 x ln(factor) + 1 and b is
    /// `mscale_all_dim`; in `[0, 1e6]`, and unset beside `attention_factor`. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mscale: Option<f64>,
    /// DeepSeek's b, which also multiplies the scale of the scores by g(b)²; in `[0, 1e6]`.
    /// Default: 0. From `DeepseekV3Attention` in the `modeling_deepseek.py` of
    /// <https://huggingface.co/deepseek-ai/DeepSeek-V3>.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mscale_all_dim: Option<f64>,
}

fn default_beta_fast() -> f64 {
    32.0
}

fn default_beta_slow() -> f64 {
    1.0
}

fn default_truncate() -> bool {
    true
}

impl Yarn {
    /// Sequences `factor` times longer than `original_length` tokens, with the paper's numbers.
    pub fn new(factor: f64, original_length: usize) -> Self {
        Self {
            factor,
            original_length,
            beta_fast: default_beta_fast(),
            beta_slow: default_beta_slow(),
            truncate: default_truncate(),
            attention_factor: None,
            mscale: None,
            mscale_all_dim: None,
        }
    }

    /// Sets the turns at which stretching starts.
    pub fn with_beta_fast(mut self, beta_fast: f64) -> Self {
        self.beta_fast = beta_fast;
        self
    }

    /// Sets the turns at which stretching is full.
    pub fn with_beta_slow(mut self, beta_slow: f64) -> Self {
        self.beta_slow = beta_slow;
        self
    }

    /// Sets whether the ends of the ramp are rounded outwards to whole pairs.
    pub fn with_truncate(mut self, truncate: bool) -> Self {
        self.truncate = truncate;
        self
    }

    /// Sets what turned channels are multiplied by.
    pub fn with_attention_factor(mut self, attention_factor: f64) -> Self {
        self.attention_factor = Some(attention_factor);
        self
    }

    /// Sets DeepSeek's [`mscale`](Self::mscale).
    pub fn with_mscale(mut self, mscale: f64) -> Self {
        self.mscale = Some(mscale);
        self
    }

    /// Sets DeepSeek's [`mscale_all_dim`](Self::mscale_all_dim).
    pub fn with_mscale_all_dim(mut self, mscale_all_dim: f64) -> Self {
        self.mscale_all_dim = Some(mscale_all_dim);
        self
    }

    /// How far each pair among `width` channels is stretched, from 0 to 1.
    pub(super) fn ramp(&self, theta: f64, width: usize) -> impl Fn(usize) -> f64 {
        let (low, high) = self.ramp_ends(theta, width);
        move |i| ((i as f64 - low) / (high - low)).clamp(0.0, 1.0)
    }

    fn ramp_ends(&self, theta: f64, width: usize) -> (f64, f64) {
        let width = width as f64;
        // The pair that turns so many times, as a real number. One logarithm of it all could
        // overflow.
        let length = (self.original_length as f64).ln() - TAU.ln();
        let pair = |turns: f64| width * (length - turns.ln()) / (2.0 * theta.ln());
        let (low, high) = (pair(self.beta_fast), pair(self.beta_slow));
        let (low, high) = if self.truncate { (low.floor(), high.ceil()) } else { (low, high) };
        let (low, high) = (low.max(0.0), high.min(width - 1.0));
        // As everyone does where the ramp has no length.
        (low, if high == low { high + 0.001 } else { high })
    }

    pub(super) fn magnitude(&self) -> f64 {
        let (above, below) = (self.mscale.unwrap_or(1.0), self.mscale_all_dim.unwrap_or(0.0));
        self.attention_factor.unwrap_or_else(|| self.growth(above) / self.growth(below))
    }

    pub(super) fn scale_factor(&self) -> f64 {
        self.growth(self.mscale_all_dim.unwrap_or(0.0)).powi(2)
    }

    fn growth(&self, mscale: f64) -> f64 {
        0.1 * mscale * self.factor.ln() + 1.0
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        check_factor(self.factor)?;
        check_length("original_length", self.original_length, 1)?;
        let (fast, slow) = (self.beta_fast, self.beta_slow);
        if !(0.0 < slow && slow <= fast && fast.is_finite()) {
            let expected = "be above 0 and at most beta_fast, which is finite";
            let actual = format!("beta_slow {} and beta_fast {}", short(slow), short(fast));
            return Err(Error::value("beta_slow", expected, actual));
        }
        check_range("attention_factor", self.attention_factor, 1e-6)?;
        check_range("mscale", self.mscale, 0.0)?;
        check_range("mscale_all_dim", self.mscale_all_dim, 0.0)?;
        match self.mscale {
            Some(mscale) if self.attention_factor.is_some() => {
                Err(Error::number("mscale", "be unset where attention_factor is set", mscale))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rotary, RotaryScaling};

    fn rotary(theta: f64, yarn: Yarn) -> Rotary {
        Rotary::half(theta).with_scaling(RotaryScaling::Yarn(yarn))
    }

    fn assert_close(actual: f64, expected: f64, tolerance: f64) {
        assert!((actual / expected - 1.0).abs() < tolerance, "{actual} for {expected}");
    }

    #[test]
    fn known_numbers() {
        let yarn = Yarn::new(4.0, 2048);
        assert_eq!(yarn.ramp_ends(1e4, 64), (8.0, 21.0));
        let rotary = rotary(1e4, yarn);
        let frequencies = rotary.frequencies(64, 0);
        for (i, expected) in [(14, 0.0116272), (15, 0.00794984), (31, 3.3338e-5)] {
            // The last has five digits.
            assert_close(frequencies[i], expected, 1e-5);
        }
        let plain = Rotary::half(1e4).frequencies(64, 0);
        assert_eq!(frequencies[..9], plain[..9]);
        assert!((21..32).all(|i| frequencies[i] == plain[i] / 4.0));
        assert_close(rotary.magnitude(), 1.13862944, 5e-9);
        assert_eq!(rotary.scale_factor(), 1.0);
        assert!(!rotary.depends_on_length());
        assert_eq!(Yarn::new(4.0, 32768).ramp_ends(1e6, 128), (23.0, 40.0));
    }

    #[test]
    fn ramp_without_rounding_and_without_length() {
        let (low, high) = Yarn::new(4.0, 2048).with_truncate(false).ramp_ends(1e4, 64);
        assert_close(low, 32.0 * (2048.0 / (32.0 * TAU)).ln() / 1e4f64.ln(), 1e-12);
        assert_close(high, 32.0 * (2048.0 / TAU).ln() / 1e4f64.ln(), 1e-12);
        let point = Yarn::new(4.0, 2048).with_truncate(false).with_beta_fast(1.0);
        let (low, high) = point.ramp_ends(1e4, 64);
        assert!(high > low && high - low < 0.0011);
        assert!(rotary(1e4, point).frequencies(64, 0).iter().all(|x| x.is_finite()));
    }

    #[test]
    fn magnitudes() {
        let grown = |mscale: f64| 0.1 * mscale * 40f64.ln() + 1.0;
        let base = Yarn::new(40.0, 4096);
        let of = |yarn: &Yarn| {
            let rotary = rotary(1e4, yarn.clone());
            (rotary.magnitude(), rotary.scale_factor())
        };
        // DeepSeek-V2 and V3 have equal numbers, which cancel here and stay in the scale.
        let yarn = base.clone().with_mscale(0.707).with_mscale_all_dim(0.707);
        assert_eq!(of(&yarn), (1.0, grown(0.707).powi(2)));
        let yarn = base.clone().with_mscale(0.5).with_mscale_all_dim(2.0);
        assert_eq!(of(&yarn), (grown(0.5) / grown(2.0), grown(2.0).powi(2)));
        assert_eq!(of(&base.clone().with_mscale(0.5)), (grown(0.5), 1.0));
        assert_eq!(of(&base.clone().with_attention_factor(1.25)), (1.25, 1.0));
        assert_eq!(of(&Yarn::new(1.0, 4096)), (1.0, 1.0));
    }

    #[test]
    fn all_finite_at_the_edges() {
        let (tiny, huge) = (f64::MIN_POSITIVE, f64::MAX);
        for (slow, fast) in [(tiny, tiny), (tiny, huge), (huge, huge), (1.0, 1.0)] {
            for (theta, length) in [(1.0f64.next_up(), usize::MAX), (1.5, 1), (huge, 7)] {
                let yarn = Yarn::new(huge, length).with_beta_slow(slow).with_beta_fast(fast);
                let yarn = yarn.with_mscale(1e6).with_mscale_all_dim(1e6);
                for yarn in [yarn.clone(), yarn.with_truncate(false)] {
                    let rotary = rotary(theta, yarn);
                    for width in [2, 64] {
                        let frequencies = rotary.frequencies(width, 0);
                        assert!(frequencies.iter().all(|x| x.is_finite()), "{rotary:?}");
                    }
                    assert!(rotary.magnitude().is_finite() && rotary.scale_factor().is_finite());
                }
            }
        }
    }

    #[test]
    fn refused() {
        let message = |yarn: Yarn| yarn.check().unwrap_err().to_string();
        let good = || Yarn::new(4.0, 2048);
        assert!(good().check().is_ok());
        assert_eq!(message(Yarn::new(0.0, 9)), "factor must be at least 1 and finite, got 0");
        assert_eq!(message(Yarn::new(4.0, 0)), "original_length must be at least 1, got 0");
        let expected = "beta_slow must be above 0 and at most beta_fast, which is finite, got";
        for (slow, fast) in [(0.0, 32.0), (2.0, 1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
            let yarn = good().with_beta_slow(slow).with_beta_fast(fast);
            assert_eq!(message(yarn), format!("{expected} beta_slow {slow} and beta_fast {fast}"));
        }
        assert_eq!(
            message(good().with_attention_factor(0.0)),
            "attention_factor must be in [1e-6, 1e6], got 0"
        );
        assert_eq!(message(good().with_mscale(-1.0)), "mscale must be in [0.0, 1e6], got -1");
        assert_eq!(
            message(good().with_mscale_all_dim(f64::NAN)),
            "mscale_all_dim must be in [0.0, 1e6], got NaN"
        );
        assert_eq!(
            message(good().with_mscale(0.7).with_attention_factor(1.0)),
            "mscale must be unset where attention_factor is set, got 0.7"
        );
    }

    #[test]
    fn serde() {
        let yarn = Yarn::new(4.0, 2048).with_truncate(false).with_attention_factor(1.5);
        let json = serde_json::to_string(&yarn).unwrap();
        assert_eq!(serde_json::from_str::<Yarn>(&json).unwrap(), yarn);
        let short = r#"{"factor":4.0,"original_length":2048}"#;
        assert_eq!(serde_json::from_str::<Yarn>(short).unwrap(), Yarn::new(4.0, 2048));
        let wrong = r#"{"factor":4.0,"original_length":2048,"beta":1.0}"#;
        let error = serde_json::from_str::<Yarn>(wrong).unwrap_err().to_string();
        assert!(error.contains("unknown field `beta`"), "{error}");
    }
}
