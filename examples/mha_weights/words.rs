//! Text of a file's own, and errors, as a terminal may see them.

use std::fmt::Display;

use mha::weights::Error;

/// The longest text that is repeated, in characters: more than real names and errors have.
const LONGEST: usize = 500;

/// The text on one line, control characters escaped, cut where it is very long.
pub(crate) fn plain(text: impl Display) -> String {
    let text = text.to_string();
    let mut plain = String::new();
    for (n, char) in text.chars().enumerate() {
        if n == LONGEST {
            plain.push('…');
            break;
        }
        if char.is_control() {
            plain.extend(char.escape_default());
        } else {
            plain.push(char);
        }
    }
    plain
}

/// An error in the words of this command line, where the library's names its own functions.
pub(crate) fn said(error: &Error) -> String {
    let text = plain(error);
    match error {
        Error::Unknown { .. } => text
            .replace("Model::with_heads", "--heads N")
            .replace("Model::with_position", "a --config with a model_type that is known"),
        _ => text,
    }
}

/// A number of bytes: `812 bytes`, `12.3 kB`, `14.5 GB`.
pub(crate) fn bytes(count: u64) -> String {
    let scaled = |unit: f64| count as f64 / unit;
    match count {
        0..1_000 => format!("{count} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", scaled(1e3)),
        1_000_000..1_000_000_000 => format!("{:.1} MB", scaled(1e6)),
        _ => format!("{:.1} GB", scaled(1e9)),
    }
}

/// `1 tensor`, `2 tensors`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
