//! A tensor's numbers, and what a file says about them.

use std::fmt;

use half::{bf16, f16};
use safetensors::Dtype;

use crate::Error;
use crate::error::Problem;

/// What a file says about a tensor, without reading it.
///
/// # Example
///
/// ```
/// use mha_files::{Dtype, Entry};
///
/// let entry = Entry { dtype: Dtype::BF16, shape: vec![2, 3] };
/// assert_eq!(entry.byte_len(), Some(12));
/// assert_eq!(entry.to_string(), "BF16 [2, 3]");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The type of the elements.
    pub dtype: Dtype,
    /// The sizes of the axes; none for a single number.
    pub shape: Vec<usize>,
}

impl Entry {
    /// How many bytes the tensor takes; `None` when that is not a whole number below 2⁶⁴ (or what
    /// `usize` holds).
    pub fn byte_len(&self) -> Option<usize> {
        let count = self.shape.iter().try_fold(1_usize, |count, &dim| count.checked_mul(dim))?;
        let bits = count.checked_mul(self.dtype.bitsize())?;
        bits.is_multiple_of(8).then_some(bits / 8)
    }

    /// That its elements can be told apart: nothing here reads types of less than a byte.
    pub(crate) fn expect_whole_bytes(&self) -> Result<(), Problem> {
        if self.dtype.bitsize().is_multiple_of(8) {
            return Ok(());
        }
        let actual = format_args!("{} of {} bits each", self.dtype, self.dtype.bitsize());
        Err(Problem::new("elements of whole bytes", actual))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}

/// A tensor's numbers: little-endian, row-major, without gaps. There are as many bytes as the type and
/// the shape ask for.
///
/// # Example
///
/// ```
/// use mha_files::{Array, Dtype};
///
/// let array = Array::new(Dtype::F16, vec![2], vec![0x00, 0x3c, 0x00, 0xc0])?;
/// assert_eq!(array.to_f64(), Some(vec![1.0, -2.0]));
///
/// let error = Array::new(Dtype::F32, vec![2, 3], vec![0; 20]).unwrap_err();
/// assert_eq!(error.to_string(), "array: expected 24 bytes for F32 [2, 3], got 20");
/// # Ok::<(), mha_files::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Array {
    entry: Entry,
    bytes: Vec<u8>,
}

impl Array {
    /// An array of these bytes.
    ///
    /// # Errors
    ///
    /// When their number is not what the type and the shape ask for, or the type's elements are not
    /// whole bytes.
    pub fn new(dtype: Dtype, shape: Vec<usize>, bytes: Vec<u8>) -> Result<Self, Error> {
        let entry = Entry { dtype, shape };
        let problem = |Problem { expected, actual }| Error::Array { expected, actual };
        entry.expect_whole_bytes().map_err(problem)?;
        if entry.byte_len() == Some(bytes.len()) {
            return Ok(Self { entry, bytes });
        }
        let expected = match entry.byte_len() {
            Some(len) => format!("{len} bytes for {entry}"),
            None => format!("a shape that fits memory, not {entry}"),
        };
        Err(problem(Problem::new(expected, bytes.len())))
    }

    /// The type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.entry.dtype
    }

    /// The sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.entry.shape
    }

    /// The elements, little-endian and row-major.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The elements, little-endian and row-major.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The elements as they are, none rounded: `F16`, `BF16`, `F32` and `F64` fit `f64`.
    /// `None` for any other type.
    pub fn to_f64(&self) -> Option<Vec<f64>> {
        let bytes = &self.bytes;
        Some(match self.entry.dtype {
            Dtype::F16 => each(bytes, |x| f16::from_le_bytes(x).to_f64()),
            Dtype::BF16 => each(bytes, |x| bf16::from_le_bytes(x).to_f64()),
            Dtype::F32 => each(bytes, |x| f64::from(f32::from_le_bytes(x))),
            Dtype::F64 => each(bytes, f64::from_le_bytes),
            _ => return None,
        })
    }

    pub(crate) fn entry(&self) -> &Entry {
        &self.entry
    }
}

/// What `number` makes of every `N` bytes.
fn each<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|&chunk| number(chunk)).collect()
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({}, {} bytes)", self.entry, self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_of_every_width_are_exact() {
        let one_and_a_half = [
            (Dtype::F16, vec![0x00, 0x3e]),
            (Dtype::BF16, vec![0xc0, 0x3f]),
            (Dtype::F32, 1.5_f32.to_le_bytes().to_vec()),
            (Dtype::F64, 1.5_f64.to_le_bytes().to_vec()),
        ];
        for (dtype, bytes) in one_and_a_half {
            let array = Array::new(dtype, vec![], bytes).unwrap();
            assert_eq!(array.to_f64(), Some(vec![1.5]), "{dtype}");
        }
        let array = Array::new(Dtype::I32, vec![1], vec![0; 4]).unwrap();
        assert_eq!(array.to_f64(), None);
        assert_eq!(array.into_bytes(), [0; 4]);
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let refused = [
            (Dtype::F32, vec![usize::MAX, 2], "a shape that fits memory"),
            (Dtype::F64, vec![usize::MAX / 4], "a shape that fits memory"),
            (Dtype::U8, vec![2], "2 bytes for U8 [2], got 1"),
            (Dtype::F4, vec![2], "whole bytes, got F4 of 4 bits"),
        ];
        for (dtype, shape, text) in refused {
            let error = Array::new(dtype, shape, vec![0]).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
