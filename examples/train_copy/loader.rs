//! Data loaders for `burn-train` whose batches are made where they are needed.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use burn::{
    data::dataloader::{DataLoader, DataLoaderIterator, Progress},
    tensor::backend::Backend,
};

use crate::{
    epochs::Epochs,
    task::{CopyBatch, CopyTask, Split},
};

/// Batches of the copy task.
#[derive(Clone, Debug)]
pub(crate) struct CopyLoader<B: Backend> {
    task: CopyTask,
    batch_size: usize,
    plan: Plan,
    /// The sequences of an epoch that it gives, by their place; all of them unless sliced.
    range: Range<usize>,
    device: B::Device,
}

#[derive(Clone, Debug)]
enum Plan {
    /// New sequences in every epoch. `burn-train` does not tell a loader the epoch, but asks for
    /// an iterator once in each, so counting the calls does.
    Train { epochs: Epochs, next_epoch: Arc<AtomicUsize> },
    /// The same sequences whenever asked.
    Fixed { split: Split, sequences: usize },
}

impl<B: Backend> CopyLoader<B> {
    /// Training batches from `first_epoch` on.
    pub(crate) fn train(
        task: CopyTask,
        batch_size: usize,
        epochs: Epochs,
        first_epoch: usize,
        device: &B::Device,
    ) -> Self {
        let plan = Plan::Train { epochs, next_epoch: Arc::new(AtomicUsize::new(first_epoch)) };
        Self { task, batch_size, plan, range: 0..usize::MAX, device: device.clone() }
    }

    /// `sequences` sequences to measure the model on.
    pub(crate) fn fixed(
        task: CopyTask,
        batch_size: usize,
        split: Split,
        sequences: usize,
        device: &B::Device,
    ) -> Self {
        let plan = Plan::Fixed { split, sequences };
        Self { task, batch_size, plan, range: 0..usize::MAX, device: device.clone() }
    }
}

impl<B: Backend> DataLoader<B, CopyBatch<B>> for CopyLoader<B> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<CopyBatch<B>> + 'a> {
        let (split, epoch, total) = match &self.plan {
            Plan::Train { epochs, next_epoch } => {
                let epoch = next_epoch.fetch_add(1, Ordering::Relaxed);
                (Split::Train, epoch, epochs.steps_in(epoch) * self.batch_size)
            }
            Plan::Fixed { split, sequences } => (*split, 0, *sequences),
        };
        let (start, end) = (self.range.start.min(total), self.range.end.min(total));
        Box::new(Batches { loader: self, split, epoch, start, end, at: start })
    }

    fn num_items(&self) -> usize {
        let total = match &self.plan {
            Plan::Train { epochs, .. } => epochs.steps_in(1) * self.batch_size,
            Plan::Fixed { sequences, .. } => *sequences,
        };
        self.range.end.min(total).saturating_sub(self.range.start)
    }

    fn to_device(&self, device: &B::Device) -> Arc<dyn DataLoader<B, CopyBatch<B>>> {
        Arc::new(Self { device: device.clone(), ..self.clone() })
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<B, CopyBatch<B>>> {
        let place = |x: usize| self.range.start.saturating_add(x).min(self.range.end);
        let range = place(start)..place(end);
        // A slice is asked for its own iterator once in each epoch, so it counts for itself.
        let mut plan = self.plan.clone();
        if let Plan::Train { next_epoch, .. } = &mut plan {
            *next_epoch = Arc::new(AtomicUsize::new(next_epoch.load(Ordering::Relaxed)));
        }
        Arc::new(Self { plan, range, ..self.clone() })
    }
}

/// The batches of one epoch; `start`, `end` and `at` are places of sequences.
struct Batches<'a, B: Backend> {
    loader: &'a CopyLoader<B>,
    split: Split,
    epoch: usize,
    start: usize,
    end: usize,
    at: usize,
}

impl<B: Backend> Iterator for Batches<'_, B> {
    type Item = CopyBatch<B>;

    fn next(&mut self) -> Option<Self::Item> {
        let CopyLoader { task, batch_size, device, .. } = self.loader;
        // A slice may begin in the middle of a batch; then it gives the rest of that one first.
        let (index, skip) = (self.at / batch_size, self.at % batch_size);
        let size = (self.end - self.at).min(batch_size - skip);
        if size == 0 {
            return None;
        }
        let CopyBatch { tokens, targets } =
            task.batch(self.split, self.epoch, index, skip + size, device);
        self.at += size;
        Some(CopyBatch {
            tokens: tokens.narrow(0, skip, size),
            targets: targets.narrow(0, skip, size),
        })
    }
}

impl<B: Backend> DataLoaderIterator<CopyBatch<B>> for Batches<'_, B> {
    fn progress(&self) -> Progress {
        Progress { items_processed: self.at - self.start, items_total: self.end - self.start }
    }
}
