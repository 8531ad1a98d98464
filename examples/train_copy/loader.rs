//! Data loaders for `burn-train` whose batches are made where they are needed.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
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
        Self { task, batch_size, plan, device: device.clone() }
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
        Self { task, batch_size, plan, device: device.clone() }
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
        Box::new(Batches { loader: self, split, epoch, total, done: 0 })
    }

    fn num_items(&self) -> usize {
        match &self.plan {
            Plan::Train { epochs, .. } => epochs.steps_in(1) * self.batch_size,
            Plan::Fixed { sequences, .. } => *sequences,
        }
    }

    fn to_device(&self, device: &B::Device) -> Arc<dyn DataLoader<B, CopyBatch<B>>> {
        Arc::new(Self { device: device.clone(), ..self.clone() })
    }

    fn slice(&self, _start: usize, _end: usize) -> Arc<dyn DataLoader<B, CopyBatch<B>>> {
        unimplemented!("burn-train slices a loader for several devices, this example has one")
    }
}

/// The batches of one epoch; `total` and `done` count sequences.
struct Batches<'a, B: Backend> {
    loader: &'a CopyLoader<B>,
    split: Split,
    epoch: usize,
    total: usize,
    done: usize,
}

impl<B: Backend> Iterator for Batches<'_, B> {
    type Item = CopyBatch<B>;

    fn next(&mut self) -> Option<Self::Item> {
        let CopyLoader { task, batch_size, device, .. } = self.loader;
        let size = (self.total - self.done).min(*batch_size);
        if size == 0 {
            return None;
        }
        let batch = task.batch(self.split, self.epoch, self.done / batch_size, size, device);
        self.done += size;
        Some(batch)
    }
}

impl<B: Backend> DataLoaderIterator<CopyBatch<B>> for Batches<'_, B> {
    fn progress(&self) -> Progress {
        Progress { items_processed: self.done, items_total: self.total }
    }
}
