//! What the tasks of one key head add up.

use super::{Shared, add};
use crate::Real;
use crate::buffers::{Recycled, zeros};
use crate::call::Sizes;

/// Sums over the queries of a task, or of several.
#[derive(Debug)]
pub(crate) struct Partial<T: Real> {
    /// `[n_keys, head_dim]`, not yet scaled
    pub(crate) key: Recycled<T>,
    /// `[n_keys, value_dim]`
    pub(crate) value: Recycled<T>,
    /// `[heads of the group, 2 reach + 1]`
    pub(crate) relative: Recycled<T>,
    /// `[heads of the group]`
    pub(crate) sink: Recycled<T>,
    /// See [`BiasPlan::partial_len`](super::BiasPlan::partial_len).
    pub(crate) bias: Recycled<T>,
}

impl<T: Real> Partial<T> {
    pub(crate) fn zeros(shared: &Shared<'_, T>) -> Self {
        let (tiles, wanted) = (&shared.tiles, &shared.wanted);
        let Sizes { n_keys, head_dim, value_dim, .. } = tiles.sizes;
        let group = tiles.sizes.group();
        let table = tiles.call.relative.map_or(0, |relative| relative.width());
        let zeros = |wanted: bool, len: usize| Recycled::new(zeros(if wanted { len } else { 0 }));
        Self {
            key: zeros(wanted.key, n_keys * head_dim),
            value: zeros(wanted.value, n_keys * value_dim),
            relative: zeros(wanted.relative, group * table),
            sink: zeros(wanted.sink, group),
            bias: zeros(wanted.bias, shared.plan.partial_len()),
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        add(&mut self.key, &other.key);
        add(&mut self.value, &other.value);
        add(&mut self.relative, &other.relative);
        add(&mut self.sink, &other.sink);
        add(&mut self.bias, &other.bias);
    }

    /// Without what has a row for each key.
    pub(crate) fn small(self) -> Self {
        Self { key: Recycled::default(), value: Recycled::default(), ..self }
    }
}
