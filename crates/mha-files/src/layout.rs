//! Where a tensor's elements lie in a file.

use crate::error::Problem;
use crate::source::Source;
use crate::{Array, Entry, Error};

/// A tensor that a file has.
#[derive(Debug)]
pub(crate) struct Tensor {
    pub(crate) entry: Entry,
    /// Where in the file the first element lies.
    pub(crate) start: u64,
    pub(crate) layout: Layout,
}

/// How the elements follow each other. Checked when the file is opened: all lie in it, and there are
/// no more of them than the file has.
#[derive(Debug)]
pub(crate) enum Layout {
    /// Row-major, without gaps.
    Rows,
    /// A step per axis, in elements; `span` bytes from the first element to the end of the last.
    Strided { strides: Vec<usize>, span: usize },
}

impl Tensor {
    /// Reads the tensor, in row-major order.
    pub(crate) fn read(&self, name: &str, source: &Source) -> Result<Array, Error> {
        let Entry { dtype, shape } = &self.entry;
        self.entry.expect_whole_bytes().map_err(|problem| source.refuse_tensor(name, problem))?;
        let too_large = || Problem::new("a size that fits memory", &self.entry);
        let len = self.entry.byte_len().ok_or_else(|| source.refuse_tensor(name, too_large()))?;
        let bytes = match &self.layout {
            Layout::Rows => source.read(self.start, len)?,
            Layout::Strided { strides, span } => {
                let stored = source.read(self.start, *span)?;
                let mut rows = Vec::new();
                rows.try_reserve_exact(len).map_err(|error| source.io(error.into()))?;
                gather(&stored, dtype.bitsize() / 8, 0, shape, strides, &mut rows);
                rows
            }
        };
        Array::new(*dtype, shape.clone(), bytes)
    }
}

/// Appends the elements from byte `at` of `stored` on, in row-major order.
fn gather(
    stored: &[u8],
    size: usize,
    at: usize,
    shape: &[usize],
    strides: &[usize],
    rows: &mut Vec<u8>,
) {
    let (Some((&dim, inner)), Some((&stride, steps))) =
        (shape.split_first(), strides.split_first())
    else {
        return rows.extend(&stored[at..at + size]);
    };
    if inner.is_empty() && stride == 1 {
        return rows.extend(&stored[at..at + dim * size]);
    }
    for index in 0..dim {
        gather(stored, size, at + index * stride * size, inner, steps, rows);
    }
}
