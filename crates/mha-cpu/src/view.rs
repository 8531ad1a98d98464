//! Tensors as slices with strides.

use crate::Error;

/// A tensor of `N` axes in a slice: any order of axes, any gaps, axes that repeat (stride 0) or run
/// backwards. Checked once, when it is made: every element lies in the slice.
///
/// # Example
///
/// ```
/// use mha_cpu::View;
///
/// let numbers: Vec<f32> = (0u8..6).map(f32::from).collect();
/// let rows = View::contiguous(&numbers, [2, 3])?;
/// let columns = View::new(&numbers, 0, [3, 2], [1, 3])?; // the same, transposed
/// assert_eq!(rows.get([1, 2]), columns.get([2, 1]));
/// # Ok::<(), mha_cpu::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct View<'a, T, const N: usize> {
    data: &'a [T],
    start: usize,
    dims: [usize; N],
    strides: [isize; N],
}

impl<'a, T: Copy, const N: usize> View<'a, T, N> {
    /// The tensor whose first element is `data[start]` and whose neighbours along an axis lie
    /// `strides[axis]` elements apart.
    ///
    /// # Errors
    ///
    /// When an element lies outside of `data`.
    pub fn new(
        data: &'a [T],
        start: usize,
        dims: [usize; N],
        strides: [isize; N],
    ) -> Result<Self, Error> {
        let (mut low, mut high) = (start as i128, start as i128);
        if dims.contains(&0) {
            return Ok(Self { data, start: 0, dims, strides });
        }
        for (&dim, &stride) in dims.iter().zip(&strides) {
            let far = (dim as i128 - 1) * stride as i128;
            *(if far < 0 { &mut low } else { &mut high }) += far;
        }
        let len = data.len();
        let reach = if low < 0 { low } else { high };
        if reach < 0 || reach >= len as i128 {
            return Err(Error::OutOfBounds { dims: dims.to_vec(), reach, len });
        }
        Ok(Self { data, start, dims, strides })
    }

    /// A row-major tensor without gaps, at the start of `data`.
    ///
    /// # Errors
    ///
    /// When `data` is shorter.
    pub fn contiguous(data: &'a [T], dims: [usize; N]) -> Result<Self, Error> {
        let mut strides = [1isize; N];
        for axis in (1..N).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(dims[axis] as isize);
        }
        Self::new(data, 0, dims, strides)
    }

    /// The sizes of the axes.
    pub fn dims(&self) -> [usize; N] {
        self.dims
    }

    /// One element.
    ///
    /// # Panics
    ///
    /// When `index` is outside of the sizes.
    pub fn get(&self, index: [usize; N]) -> T {
        self.data[self.at(index)]
    }

    /// The tensor with every axis of size 1 repeated up to `dims`.
    ///
    /// # Errors
    ///
    /// When another axis differs; the error carries `name` and `axes`.
    pub fn broadcast(
        mut self,
        name: &'static str,
        axes: &'static str,
        dims: [usize; N],
    ) -> Result<Self, Error> {
        for axis in 0..N {
            if self.dims[axis] == dims[axis] {
                continue;
            }
            if self.dims[axis] != 1 {
                let (expected, actual) = (dims.to_vec(), self.dims.to_vec());
                return Err(Error::Shape { name, axes, expected, actual });
            }
            self.strides[axis] = 0;
        }
        Ok(Self { dims, ..self })
    }

    /// Where in the slice an element lies.
    fn at(&self, index: [usize; N]) -> usize {
        let mut at = self.start as isize;
        for axis in 0..N {
            assert!(index[axis] < self.dims[axis], "{index:?} outside of {:?}", self.dims);
            at += index[axis] as isize * self.strides[axis];
        }
        at as usize
    }
}

impl<'a, T: Copy, const N: usize> View<'a, T, N> {
    /// The elements from the first on and their strides, if no axis runs backwards.
    pub(crate) fn forwards(&self) -> Option<(&'a [T], [isize; N])> {
        if self.dims.contains(&0) {
            return Some((&[], self.strides.map(|_| 0)));
        }
        let forwards = self.strides.iter().all(|&stride| stride >= 0);
        forwards.then(|| (&self.data[self.start..], self.strides))
    }

    /// The slice, where in it an element lies, and the strides.
    pub(crate) fn parts(&self, index: [usize; N]) -> (&'a [T], isize, [isize; N]) {
        (self.data, self.at(index) as isize, self.strides)
    }

    /// Whether all elements along an axis are one.
    pub(crate) fn repeats(&self, axis: usize) -> bool {
        self.strides[axis] == 0
    }

    /// All elements along the last axis, at `index` of the axes before it: where they lie if they lie
    /// side by side, else copied to `scratch`.
    #[inline(always)]
    pub(crate) fn row<'s>(&self, index: [usize; N], scratch: &'s mut [T]) -> &'s [T]
    where
        'a: 's,
    {
        let count = self.dims[N - 1];
        if self.strides[N - 1] == 1 && count > 0 {
            let start = self.at(index);
            return &self.data[start..start + count];
        }
        self.copy(index, 0..count, scratch);
        scratch
    }

    /// Copies the elements of `range` along the last axis, at `index` of the axes before it (the last
    /// number of `index` counts for nothing).
    pub(crate) fn copy(&self, mut index: [usize; N], range: std::ops::Range<usize>, to: &mut [T]) {
        assert_eq!(to.len(), range.len(), "a place for each element");
        if range.is_empty() {
            return;
        }
        assert!(range.end <= self.dims[N - 1], "{range:?} outside of {:?}", self.dims);
        index[N - 1] = range.start;
        let (start, stride) = (self.at(index), self.strides[N - 1]);
        if stride == 1 {
            to.copy_from_slice(&self.data[start..start + range.len()]);
        } else {
            for (to, n) in to.iter_mut().zip(0isize..) {
                *to = self.data[(start as isize + n * stride) as usize];
            }
        }
    }
}
