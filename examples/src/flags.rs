//! Values of the command line that more than one example takes.

use clap::builder::RangedU64ValueParser;

/// A whole number from 1 to `most`.
pub fn from_1_to(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

/// A learning rate, above 0 and at most 1.
///
/// # Errors
///
/// When `text` is not such a number.
pub fn learning_rate(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if value > 0.0 && value <= 1.0 {
        Ok(value)
    } else {
        Err("not greater than 0 and at most 1".to_string())
    }
}
