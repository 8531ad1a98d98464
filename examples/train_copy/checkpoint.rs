//! Which checkpoint to resume from.

use burn::{
    lr_scheduler::LrScheduler,
    module::AutodiffModule,
    optim::Optimizer,
    record::{FullPrecisionSettings, NamedMpkFileRecorder, Record, Recorder},
    tensor::backend::AutodiffBackend,
};

use crate::run_dir::RunDir;

/// Full precision, so that a resumed run ends with the weights of an unbroken one; MessagePack,
/// in which a file cut short cannot be read as a smaller one.
pub(crate) type FileFormat = NamedMpkFileRecorder<FullPrecisionSettings>;

/// The newest epoch whose checkpoint is complete: a kill in the middle of a write leaves some of
/// its three files missing or cut short, and `burn-train` panics when it meets one.
pub(crate) fn newest_complete<B, M, O, S>(
    dir: &RunDir,
    device: &B::Device,
) -> Result<Option<usize>, String>
where
    B: AutodiffBackend,
    M: AutodiffModule<B>,
    O: Optimizer<M, B>,
    S: LrScheduler,
{
    let complete = |epoch: &usize| {
        loads::<B, M::Record>(dir, "model", *epoch, device)
            && loads::<B, O::Record>(dir, "optim", *epoch, device)
            && loads::<B, S::Record<B>>(dir, "scheduler", *epoch, device)
    };
    Ok(dir.checkpoint_epochs()?.into_iter().find(complete))
}

fn loads<B, R>(dir: &RunDir, part: &str, epoch: usize, device: &B::Device) -> bool
where
    B: AutodiffBackend,
    R: Record<B>,
{
    let file = dir.checkpoints().join(format!("{part}-{epoch}"));
    Recorder::<B>::load::<R>(&FileFormat::default(), file, device).is_ok()
}
