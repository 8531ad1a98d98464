//! What a file is refused for.

use std::fmt::{self, Write as _};
use std::io;

/// The longest piece of a file's own text that a message repeats, in characters.
const LONGEST: usize = 160;

/// Why a file, or a tensor of it, cannot be read or written.
///
/// Messages are short whatever the file holds: long names are cut, control characters escaped.
///
/// # Example
///
/// ```
/// use mha_files::{Error, Store};
///
/// let error = Store::from_bytes(b"\x10\0\0\0\0\0\0\0{}".to_vec()).unwrap_err();
/// assert!(matches!(error, Error::File { .. }));
/// assert_eq!(
///     error.to_string(),
///     "bytes in memory: expected a header of at most 2 bytes (what follows its length), got 16"
/// );
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{file}: {source}")]
    Io {
        /// The file's path.
        file: String,
        /// What it said.
        source: io::Error,
    },
    /// The file as a whole is not what it should be.
    #[error("{file}: expected {expected}, got {actual}")]
    File {
        /// The file's path.
        file: String,
        /// What should be there.
        expected: String,
        /// What is there.
        actual: String,
    },
    /// A tensor of the file is not what it should be.
    #[error("{file}: tensor `{tensor}`: expected {expected}, got {actual}")]
    Tensor {
        /// The file's path.
        file: String,
        /// The tensor's name.
        tensor: String,
        /// What should be there.
        expected: String,
        /// What is there.
        actual: String,
    },
    /// The file has no tensor of this name.
    #[error("{file}: no tensor `{tensor}` among {count}")]
    NotFound {
        /// The file's path.
        file: String,
        /// The name that was asked for.
        tensor: String,
        /// How many tensors there are.
        count: usize,
    },
    /// Bytes that do not fill the shape.
    #[error("array: expected {expected}, got {actual}")]
    Array {
        /// What the type and the shape ask for.
        expected: String,
        /// What came.
        actual: String,
    },
}

/// What was expected and what came, where the file and the tensor are not known yet.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) expected: String,
    pub(crate) actual: String,
}

impl Problem {
    pub(crate) fn new(expected: impl fmt::Display, actual: impl fmt::Display) -> Self {
        Self { expected: shorten(expected), actual: shorten(actual) }
    }

    /// The same of a tensor that now has a name.
    pub(crate) fn of_tensor(self, file: &str, tensor: &str) -> Error {
        let Self { expected, actual } = self;
        Error::Tensor { file: shorten(file), tensor: shorten(tensor), expected, actual }
    }

    /// The same of a whole file.
    pub(crate) fn of_file(self, file: &str) -> Error {
        let Self { expected, actual } = self;
        Error::File { file: shorten(file), expected, actual }
    }
}

/// The text without control characters, and without its end when it is long.
pub(crate) fn shorten(text: impl fmt::Display) -> String {
    let mut cut = Cut { text: String::new(), chars: 0 };
    // `Cut` answers with an error once it is full: the rest need not be formatted.
    let full = write!(cut, "{text}").is_err();
    if full { cut.text + "…" } else { cut.text }
}

/// Keeps the first `LONGEST` characters of what is written.
struct Cut {
    text: String,
    chars: usize,
}

impl fmt::Write for Cut {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        for char in piece.chars() {
            if self.chars == LONGEST {
                return Err(fmt::Error);
            }
            self.chars += 1;
            if char.is_control() {
                self.text.extend(char.escape_default());
            } else {
                self.text.push(char);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_file_is_cut_and_escaped() {
        assert_eq!(shorten("a.b"), "a.b");
        assert_eq!(shorten("\u{1b}[31m\n"), "\\u{1b}[31m\\n");
        assert_eq!(shorten("é".repeat(LONGEST)), "é".repeat(LONGEST));
        assert_eq!(shorten("é".repeat(LONGEST + 1)), "é".repeat(LONGEST) + "…");
    }
}
