//! What a rotary position is configured by: which channels turn together, and how fast.

use serde::{Deserialize, Serialize};

use super::scaling::RotaryScaling;
use crate::Error;

/// Rotary positions: pairs of channels of each query and key turn by an angle that grows with the
/// position, so that a score depends on the distance of query and key only.
///
/// Pair i turns by θ^(-2i / width) radians per position, or as the scaling says. The layout has no
/// default, see [`RotaryLayout`].
///
/// Su et al. 2021, section 3.2.2 (their d is our `width`): <https://arxiv.org/abs/2104.09864>.
///
/// # Example
///
/// ```
/// use mha::{Rotary, RotaryScaling};
///
/// // Llama 3.1 as Hugging Face stores it.
/// let scaling = RotaryScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original_length: 8192 };
/// let rotary = Rotary::half(500_000.0).with_scaling(scaling);
/// let frequencies = rotary.frequencies(128, 0);
/// assert_eq!((frequencies.len(), frequencies[0]), (64, 1.0));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Rotary {
    /// Which channels turn together.
    pub layout: RotaryLayout,
    /// The base of the frequencies, above 1. Most models have 10,000 or more.
    pub theta: f64,
    /// How many channels turn, the first ones of each head: even, at least 2, at most `head_dim`.
    /// Default: all. Fewer are "partial rotary" (GPT-NeoX: Black et al. 2022, section 2.1:
    /// <https://arxiv.org/abs/2204.06745>).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// What stretches the frequencies to longer sequences than trained on. Default: nothing.
    #[serde(default)]
    pub scaling: RotaryScaling,
}

/// Which two channels of a head turn together. It is a matter of the checkpoint: with the wrong
/// one a model runs and talks nonsense.
///
/// The weights of query and key convert from interleaved to half, head by head: new row i is old
/// row 2i, new row i + width / 2 is old row 2i + 1. Biases and per-head norms move alike.
///
/// # Example
///
/// ```
/// use mha::{Rotary, RotaryLayout};
///
/// assert_eq!(Rotary::interleaved(10_000.0).layout, RotaryLayout::Interleaved);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub enum RotaryLayout {
    /// Channel i with channel i + width / 2: Llama, Mistral, Qwen and their kin as Hugging Face
    /// stores them, GPT-NeoX, Equinox, MLX.
    Half,
    /// Channel 2i with channel 2i + 1: `burn::nn::RotaryEncoding`, Llama as Meta stores it,
    /// DeepSeek, GPT-J, x-transformers.
    Interleaved,
}

impl Rotary {
    /// Channel i turns with channel i + width / 2, as in most checkpoints.
    pub fn half(theta: f64) -> Self {
        Self::new(RotaryLayout::Half, theta)
    }

    /// Channel 2i turns with channel 2i + 1, as in `burn::nn::RotaryEncoding`.
    pub fn interleaved(theta: f64) -> Self {
        Self::new(RotaryLayout::Interleaved, theta)
    }

    fn new(layout: RotaryLayout, theta: f64) -> Self {
        Self { layout, theta, width: None, scaling: RotaryScaling::None }
    }

    /// Turns the first `width` channels of each head only.
    pub fn with_width(mut self, width: usize) -> Self {
        self.width = Some(width);
        self
    }

    /// Sets what stretches the frequencies.
    pub fn with_scaling(mut self, scaling: RotaryScaling) -> Self {
        self.scaling = scaling;
        self
    }

    /// The radians per position of each pair of channels: width / 2 numbers, at least 0.
    ///
    /// `length` counts the tokens of the sequence so far; it matters to
    /// [`RotaryScaling::DynamicNtk`] and [`RotaryScaling::LongRope`] only.
    ///
    /// # Panics
    ///
    /// When a number makes no sense in heads of `head_dim` channels; the message names it.
    #[track_caller]
    pub fn frequencies(&self, head_dim: usize, length: usize) -> Vec<f64> {
        self.check(head_dim).unwrap_or_else(|error| panic!("{error}"));
        self.scaling.frequencies(self.theta, self.turning(head_dim), length)
    }

    /// What turned channels are multiplied by besides: 1 but for [`RotaryScaling::Yarn`] and
    /// [`RotaryScaling::LongRope`]. Scores of fully rotary heads grow by its square.
    pub fn magnitude(&self) -> f64 {
        self.scaling.magnitude()
    }

    /// What the scale of the scores is to be multiplied by: 1 but for YaRN with
    /// [`mscale_all_dim`](super::Yarn::mscale_all_dim).
    pub fn scale_factor(&self) -> f64 {
        match &self.scaling {
            RotaryScaling::Yarn(yarn) => yarn.scale_factor(),
            _ => 1.0,
        }
    }

    /// Whether more tokens change the angles of those before, so that a cache must hold its keys
    /// unrotated.
    pub(crate) fn depends_on_length(&self) -> bool {
        matches!(self.scaling, RotaryScaling::DynamicNtk { .. } | RotaryScaling::LongRope { .. })
    }

    /// The channels that turn in heads of `head_dim`.
    pub(super) fn turning(&self, head_dim: usize) -> usize {
        self.width.unwrap_or(head_dim)
    }

    /// After this, nothing here panics or gives a number that is not finite.
    pub(crate) fn check(&self, head_dim: usize) -> Result<(), Error> {
        if !(self.theta > 1.0 && self.theta.is_finite()) {
            return Err(Error::number("theta", "be finite and above 1", self.theta));
        }
        let even = |n: usize| n >= 2 && n.is_multiple_of(2);
        match self.width {
            None if !even(head_dim) => {
                let expected = "be even and at least 2 where rotary positions have no width";
                return Err(Error::value("head_dim", expected, head_dim));
            }
            Some(width) if !even(width) || width > head_dim => {
                let expected = format!("be even, at least 2 and at most head_dim {head_dim}");
                return Err(Error::value("width", expected, width));
            }
            Some(width) if width < head_dim && self.scaling.turns_a_share() => {
                // Which of the two the share were of would be anyone's guess.
                let expected = format!("be head_dim {head_dim} or unset with Proportional");
                return Err(Error::value("width", expected, width));
            }
            _ => {}
        }
        self.scaling.check(self.turning(head_dim) / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused() {
        let message = |rotary: Rotary, head_dim| rotary.check(head_dim).unwrap_err().to_string();
        for (theta, word) in [(1.0, "1"), (-3.0, "-3"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
            let expected = format!("theta must be finite and above 1, got {word}");
            assert_eq!(message(Rotary::half(theta), 8), expected);
        }
        let rotary = Rotary::half(1e4);
        for head_dim in [0, 7] {
            let expected = "head_dim must be even and at least 2 where rotary positions have no \
                            width, got";
            assert_eq!(message(rotary.clone(), head_dim), format!("{expected} {head_dim}"));
        }
        for width in [0, 3, 10] {
            let expected = "width must be even, at least 2 and at most head_dim 9, got";
            let rotary = rotary.clone().with_width(width);
            assert_eq!(message(rotary, 9), format!("{expected} {width}"));
        }
        let share = RotaryScaling::Proportional { share: 0.5, factor: 1.0 };
        let rotary = rotary.with_scaling(share);
        assert_eq!(
            message(rotary.clone().with_width(4), 8),
            "width must be head_dim 8 or unset with Proportional, got 4"
        );
        assert!(rotary.with_width(8).check(8).is_ok());
        assert!(Rotary::half(1e4).with_width(4).check(9).is_ok());
        assert!(Rotary::half(f64::MAX).check(2).is_ok());
    }

    #[test]
    #[should_panic = "width must be even, at least 2 and at most head_dim 8, got 5"]
    fn frequencies_panic_with_the_error() {
        Rotary::half(1e4).with_width(5).frequencies(8, 0);
    }

    /// The width, not the head, is what the frequencies are spread over.
    #[test]
    fn partial_width() {
        let rotary = Rotary::half(1e4);
        let frequencies = rotary.frequencies(8, 0);
        let expected = [1.0, 0.1, 0.01, 0.001];
        assert!(frequencies.iter().zip(expected).all(|(a, b)| (a / b - 1.0).abs() < 1e-15));
        assert_eq!(rotary.with_width(8).frequencies(96, 0), frequencies);
    }

    #[test]
    fn all_finite_at_the_edges() {
        let long = |n| RotaryScaling::LongRope {
            short: vec![1e-6; n],
            long: vec![1e6; n],
            original_length: 2,
            max_length: usize::MAX,
        };
        for width in [2, 4, 6, 64] {
            for theta in [1.0f64.next_up(), 1.5, 1e4, f64::MAX] {
                let scalings = [
                    RotaryScaling::None,
                    RotaryScaling::Linear { factor: f64::MAX },
                    RotaryScaling::Ntk { factor: f64::MAX },
                    RotaryScaling::DynamicNtk { factor: f64::MAX, original_length: 1 },
                    RotaryScaling::Llama3 {
                        factor: f64::MAX,
                        low: f64::MIN_POSITIVE,
                        high: f64::MAX,
                        original_length: usize::MAX,
                    },
                    long(width / 2),
                    RotaryScaling::Proportional { share: 1e-300, factor: 1.0 },
                ];
                for scaling in scalings {
                    let rotary = Rotary::half(theta).with_scaling(scaling);
                    for length in [0, 7, usize::MAX] {
                        let frequencies = rotary.frequencies(width, length);
                        assert_eq!(frequencies.len(), width / 2);
                        assert!(frequencies.iter().all(|x| x.is_finite()), "{rotary:?}");
                        assert!(rotary.magnitude().is_finite(), "{rotary:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn serde() {
        let rotary = Rotary::interleaved(5e5)
            .with_width(64)
            .with_scaling(RotaryScaling::Linear { factor: 4.0 });
        let json = serde_json::to_string(&rotary).unwrap();
        assert_eq!(serde_json::from_str::<Rotary>(&json).unwrap(), rotary);
        let short = r#"{"layout":"Half","theta":10000.0}"#;
        assert_eq!(serde_json::from_str::<Rotary>(short).unwrap(), Rotary::half(1e4));

        let error = |json| serde_json::from_str::<Rotary>(json).unwrap_err().to_string();
        assert!(error(r#"{"theta":10000.0}"#).contains("missing field `layout`"));
        let wrong = error(r#"{"layout":"Half","theta":10000.0,"base":1.0}"#);
        assert!(wrong.contains("unknown field `base`"), "{wrong}");
        let wrong = error(r#"{"layout":"Halves","theta":10000.0}"#);
        assert!(wrong.contains("unknown variant `Halves`"), "{wrong}");
    }
}
