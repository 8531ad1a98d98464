//! A tensor of PyTorch: a view of a storage.

use safetensors::Dtype;

use super::archive::Archive;
use crate::Entry;
use crate::error::Problem;
use crate::layout::{Layout, Tensor};

/// A tensor as the pickle describes it; nothing of it is checked yet.
#[derive(Debug, PartialEq)]
pub(super) struct View<'p> {
    /// The name of the storage.
    pub(super) key: &'p str,
    /// How many bytes the storage is said to have.
    pub(super) storage: usize,
    pub(super) dtype: Dtype,
    /// All in elements.
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

impl View<'_> {
    /// Where the elements lie in the file: all of them in a storage that is there as the pickle says,
    /// and no more of them than it has.
    pub(super) fn place(self, archive: &Archive) -> Result<Tensor, Problem> {
        let Self { key, storage, dtype, offset, shape, strides } = self;
        let record = archive.record(&format!("data/{key}"))?;
        if record.len != storage as u64 {
            let expected = format_args!("{storage} bytes of storage `data/{key}`");
            return Err(Problem::new(expected, record.len));
        }
        let size = dtype.bitsize() / 8;
        let held = storage / size;
        let entry = Entry { dtype, shape };
        let few = || {
            let expected = format_args!("at most the {held} elements of storage `data/{key}`");
            Problem::new(expected, &entry)
        };
        // A view that repeats elements may be larger in PyTorch (`expand`); here it would let a small
        // file ask for any amount of memory.
        let len = entry.byte_len().ok_or_else(few)?;
        if len / size > held {
            return Err(few());
        }
        if len == 0 {
            return Ok(Tensor { entry, start: record.start, layout: Layout::Rows });
        }
        let reach = reach(&entry.shape, &strides)
            .filter(|reach| reach.checked_add(offset).is_some_and(|last| last < held));
        let Some(reach) = reach else {
            let expected = format_args!("elements below {held}, where storage `data/{key}` ends");
            let actual = format_args!("{entry} from element {offset} on by steps of {strides:?}");
            return Err(Problem::new(expected, actual));
        };
        let layout = if is_row_major(&entry.shape, &strides) {
            Layout::Rows
        } else {
            Layout::Strided { strides, span: (reach + 1) * size }
        };
        Ok(Tensor { entry, start: record.start + (offset * size) as u64, layout })
    }
}

/// From the first element to the last, if that is a number. No axis is empty.
fn reach(shape: &[usize], strides: &[usize]) -> Option<usize> {
    shape.iter().zip(strides).try_fold(0_usize, |reach, (&dim, &stride)| {
        reach.checked_add((dim - 1).checked_mul(stride)?)
    })
}

/// Whether elements lie in row-major order without gaps. The step along an axis of size 1 is never
/// taken.
fn is_row_major(shape: &[usize], strides: &[usize]) -> bool {
    let mut step = 1;
    shape.iter().zip(strides).rev().all(|(&dim, &stride)| {
        let fits = dim == 1 || stride == step;
        step *= dim;
        fits
    })
}
