//! Whether there is memory for a long sequence, before it is tried.

use super::{can_be_measured, proc};
use crate::{case::Case, contestants::Contestant, op::Op};

/// Longest sequence that is tried without asking.
const LONGEST_UNASKED: usize = 8192;

/// The share of the free memory that one implementation may take.
const SHARE_OF_AVAILABLE: f64 = 0.6;

/// Fails where a long sequence would need more memory than is free, going by how the peak grows from
/// 1024 to 2048 tokens.
pub(crate) fn too_much(contestant: &mut dyn Contestant, case: &Case) -> Result<(), String> {
    if case.length <= LONGEST_UNASKED || case.op == Op::Decode || can_be_measured().is_err() {
        return Ok(());
    }
    let mut peak = |length| contestant.peak_mb(&Case { length, ..*case });
    let needed = foreseen_mb(peak(1024)?, peak(2048)?, case.length);
    match proc::available_mb() {
        Some(available) if needed > SHARE_OF_AVAILABLE * available => Err(format!(
            "would need about {:.0} GB of memory, of which {:.0} GB are free",
            needed / 1e3,
            available / 1e3
        )),
        _ => Ok(()),
    }
}

/// The peak over `length` tokens, from those over 1024 and over 2048.
fn foreseen_mb(at_1024: f64, at_2048: f64, length: usize) -> f64 {
    // Between linear and quadratic, as small peaks tell little.
    let power = (at_2048 / at_1024).log2().clamp(1.0, 2.0);
    at_2048 * (length as f64 / 2048.0).powf(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_foreseen_between_linear_and_quadratic() {
        assert_eq!(foreseen_mb(10.0, 20.0, 16_384), 160.0);
        assert_eq!(foreseen_mb(10.0, 40.0, 16_384), 2560.0);
        assert_eq!(foreseen_mb(0.0, 1.0, 4096), 4.0);
    }
}
