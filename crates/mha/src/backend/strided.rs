//! Tensors as numbers with strides, whoever holds the numbers.

use std::borrow::Cow;

use mha_cpu::View;

/// A tensor as numbers with strides.
pub(super) struct Strided<'a, T: Clone> {
    /// Longer than the tensor where it is part of another.
    pub(super) data: Cow<'a, [T]>,
    /// Where the first element lies.
    pub(super) start: usize,
    pub(super) dims: Vec<usize>,
    pub(super) strides: Vec<isize>,
}

impl<T: Copy> Strided<'_, T> {
    /// Numbers in row-major order.
    pub(super) fn dense(data: Vec<T>, dims: Vec<usize>) -> Self {
        let mut strides = vec![1isize; dims.len()];
        for axis in (1..dims.len()).rev() {
            strides[axis - 1] = strides[axis] * dims[axis] as isize;
        }
        Self { data: data.into(), start: 0, dims, strides }
    }

    /// The last axis as columns, all others as rows.
    pub(super) fn matrix(&self) -> Strided<'_, T> {
        let mut axes: Vec<_> =
            self.dims.iter().copied().zip(self.strides.iter().copied()).collect();
        let (columns, along) = axes.pop().expect("a tensor has axes");
        axes.retain(|&(dim, _)| dim != 1);
        let dims = vec![axes.iter().map(|&(dim, _)| dim).product(), columns];
        let follows = |pair: &[(usize, isize)]| pair[0].1 == pair[1].0 as isize * pair[1].1;
        if !axes.windows(2).all(follows) {
            return Strided::dense(self.in_order().into_owned(), dims);
        }
        let down = axes.last().map_or(0, |&(_, stride)| stride);
        let data = Cow::Borrowed(&*self.data);
        Strided { data, start: self.start, dims, strides: vec![down, along] }
    }

    pub(super) fn view<const N: usize>(&self) -> View<'_, T, N> {
        let array = "a tensor of as many axes";
        let dims = self.dims.as_slice().try_into().expect(array);
        let strides = self.strides.as_slice().try_into().expect(array);
        View::new(&self.data, self.start, dims, strides).expect("a tensor lies in its storage")
    }

    /// The numbers in row-major order, copied unless they lie so.
    pub(super) fn in_order(&self) -> Cow<'_, [T]> {
        let count: usize = self.dims.iter().product();
        let mut expected = 1;
        let in_order = self.dims.iter().zip(&self.strides).rev().all(|(&dim, &stride)| {
            let fits = dim == 1 || stride == expected;
            expected *= dim as isize;
            fits
        });
        if in_order || count == 0 {
            return Cow::Borrowed(&self.data[self.start..self.start + count]);
        }
        let place = |mut index: usize| {
            let mut at = self.start as isize;
            for (&dim, &stride) in self.dims.iter().zip(&self.strides).rev() {
                at += (index % dim) as isize * stride;
                index /= dim;
            }
            self.data[at as usize]
        };
        Cow::Owned((0..count).map(place).collect())
    }
}
