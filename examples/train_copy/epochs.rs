//! How the training steps fall into epochs.

/// Steps in all and per epoch; the last epoch takes what is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epochs {
    pub(crate) steps: usize,
    pub(crate) steps_per_epoch: usize,
}

impl Epochs {
    pub(crate) fn count(&self) -> usize {
        self.steps.div_ceil(self.steps_per_epoch)
    }

    /// Steps that came before `epoch`; the first epoch is 1, as in `burn-train`.
    pub(crate) fn steps_before(&self, epoch: usize) -> usize {
        (self.steps_per_epoch * (epoch - 1)).min(self.steps)
    }

    pub(crate) fn steps_in(&self, epoch: usize) -> usize {
        self.steps_before(epoch + 1) - self.steps_before(epoch)
    }
}
