//! A tensor of PyTorch: a view of a storage.

use safetensors::Dtype;

use super::archive::Archive;
use crate::Entry;
use crate::error::{Problem, shorten};
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

/// A view whose elements are all in the file.
#[derive(Debug)]
pub(super) enum Placed {
    Tensor(Tensor),
    /// One that repeats elements until they are more than its storage has, in words. It is right in
    /// PyTorch (`expand`), but would let a small file ask for any amount of memory.
    Repeats(String),
}

impl View<'_> {
    /// Where the elements lie in the file: all of them in a storage that is there as the pickle says.
    pub(super) fn place(self, archive: &Archive) -> Result<Placed, Problem> {
        let Self { key, storage, dtype, offset, shape, strides } = self;
        let record = archive.record(&format!("data/{key}"))?;
        if record.len != storage as u64 {
            let expected = format_args!("{storage} bytes of storage `data/{key}`");
            return Err(Problem::new(expected, record.len));
        }
        let size = dtype.bitsize() / 8;
        let held = storage / size;
        let entry = Entry { dtype, shape };
        let len = entry.byte_len();
        if len == Some(0) {
            let (start, layout) = (record.start, Layout::Rows);
            return Ok(Placed::Tensor(Tensor { entry, start, layout }));
        }
        let reach = reach(&entry.shape, &strides)
            .filter(|reach| reach.checked_add(offset).is_some_and(|last| last < held));
        let Some(reach) = reach else {
            let expected = format_args!("elements below {held}, where storage `data/{key}` ends");
            let actual = format_args!("{entry} from element {offset} on by steps of {strides:?}");
            return Err(Problem::new(expected, actual));
        };
        if len.is_none_or(|len| len / size > held) {
            let what = format_args!("{entry} that repeats the {held} elements of its storage");
            return Ok(Placed::Repeats(shorten(what)));
        }
        let layout = if is_row_major(&entry.shape, &strides) {
            Layout::Rows
        } else {
            Layout::Strided { strides, span: (reach + 1) * size }
        };
        let start = record.start + (offset * size) as u64;
        Ok(Placed::Tensor(Tensor { entry, start, layout }))
    }
}

/// From the first element to the last, if that is a number and no axis is empty.
fn reach(shape: &[usize], strides: &[usize]) -> Option<usize> {
    shape.iter().zip(strides).try_fold(0_usize, |reach, (&dim, &stride)| {
        reach.checked_add(dim.checked_sub(1)?.checked_mul(stride)?)
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
