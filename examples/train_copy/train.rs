//! Training with `burn-train`, from the beginning or from a checkpoint.

use std::{io::IsTerminal, sync::Arc};

use burn::{
    lr_scheduler::cosine::{CosineAnnealingLrScheduler, CosineAnnealingLrSchedulerConfig},
    module::AutodiffModule,
    optim::{AdamW, AdamWConfig, adaptor::OptimizerAdaptor},
    tensor::backend::{AutodiffBackend, Backend},
    train::{
        Interrupter, Learner, SupervisedTraining,
        checkpoint::KeepLastNCheckpoints,
        metric::{AccuracyMetric, IterationSpeedMetric, LearningRateMetric, LossMetric},
    },
};
use mha_examples::print::print_line;

use crate::{
    args::{Cli, Hyperparameters},
    checkpoint::{FileFormat, newest_complete},
    epochs::Epochs,
    loader::CopyLoader,
    log_file::LogFile,
    metric_log::ResumedMetricLogger,
    model::{CopyModel, ModelSizes},
    renderer::LineRenderer,
    run_dir::{RunConfig, RunDir},
    task::{CopyTask, Split},
};

type Optim<B> = OptimizerAdaptor<AdamW, CopyModel<B>, B>;

/// Sequences in a validation.
const VALID_SEQUENCES: usize = 128;

impl Hyperparameters {
    pub(crate) fn task(&self) -> CopyTask {
        CopyTask { vocabulary: self.vocabulary, length: self.sequence_length, seed: self.seed }
    }

    pub(crate) fn epochs(&self) -> Epochs {
        Epochs { steps: self.steps, steps_per_epoch: self.steps_per_epoch }
    }

    fn model<B: Backend>(&self, device: &B::Device) -> Result<CopyModel<B>, mha::Error> {
        let sizes =
            ModelSizes { d_model: self.d_model, n_heads: self.heads, n_layers: self.layers };
        B::seed(device, self.seed);
        sizes.try_init(&self.task(), device)
    }

    fn scheduler(&self) -> Result<CosineAnnealingLrScheduler, String> {
        CosineAnnealingLrSchedulerConfig::new(self.learning_rate, self.steps).init()
    }
}

/// Trains the model that `cli` describes and returns it with its directory.
pub(crate) fn train<B: AutodiffBackend>(
    cli: &Cli,
    device: &B::Device,
) -> Result<(<CopyModel<B> as AutodiffModule<B>>::InnerModule, RunDir), String> {
    let hyper = &cli.hyper;
    // Flags that do not fit together must not cost an earlier run its files.
    let model = hyper.model::<B>(device).map_err(|error| error.to_string())?;
    let scheduler = hyper.scheduler()?;
    let (dir, resumed) = open_dir::<B>(cli, device)?;

    let (task, epochs) = (hyper.task(), hyper.epochs());
    let first_epoch = resumed.unwrap_or(0) + 1;
    let train = CopyLoader::<B>::train(task, hyper.batch_size, epochs, first_epoch, device);
    let valid = CopyLoader::<B::InnerBackend>::fixed(
        task,
        hyper.batch_size,
        Split::Valid,
        VALID_SEQUENCES,
        device,
    );
    let interrupter = Interrupter::new();
    let mut training = SupervisedTraining::new(dir.path(), Arc::new(train), Arc::new(valid))
        .metrics((AccuracyMetric::new(), LossMetric::new()))
        .metric_train_numeric(LearningRateMetric::new())
        .metric_train_numeric(IterationSpeedMetric::new())
        .with_metric_logger(ResumedMetricLogger::new(dir.path(), first_epoch))
        .with_file_checkpointer(FileFormat::default())
        .with_checkpointing_strategy(KeepLastNCheckpoints::new(2))
        .with_interrupter(interrupter.clone())
        .with_application_logger(Some(Box::new(LogFile::in_dir(dir.path()))))
        .num_epochs(epochs.count());
    if let Some(epoch) = resumed {
        training = training.checkpoint(epoch);
    }
    // On a terminal burn-train's dashboard is the default.
    if !std::io::stdout().is_terminal() {
        let first_step = epochs.steps_before(first_epoch);
        training = training.renderer(LineRenderer::new(epochs, cli.log_every, first_step));
    }
    let optim: Optim<B> = AdamWConfig::new().init();
    let result = training.launch(Learner::new(model, optim, scheduler));
    // The dashboard gives the terminal back when it is dropped.
    drop(result.renderer);
    if interrupter.should_stop() {
        let reason = interrupter.get_message().unwrap_or_else(|| "no reason given".to_string());
        return Err(format!("the training was stopped ({reason}); --resume goes on with it"));
    }
    Ok((result.model, dir))
}

/// Opens `--out`; with `--resume` also finds the epoch that the run goes on after.
fn open_dir<B: AutodiffBackend>(
    cli: &Cli,
    device: &B::Device,
) -> Result<(RunDir, Option<usize>), String> {
    let config = RunConfig { backend: cli.backend.to_string(), hyperparameters: cli.hyper.clone() };
    let (out, shown) = (&cli.out, cli.out.display());
    if !cli.resume {
        return Ok((RunDir::begin(out, &config)?, None));
    }
    let Some(dir) = RunDir::open(out, &config)? else {
        print_line(format_args!("nothing to resume in {shown}, so the run begins"));
        return Ok((RunDir::begin(out, &config)?, None));
    };
    let newest =
        newest_complete::<B, CopyModel<B>, Optim<B>, CosineAnnealingLrScheduler>(&dir, device)?;
    match newest {
        Some(epoch) => print_line(format_args!("resuming the run in {shown} after epoch {epoch}")),
        None => {
            print_line(format_args!("no complete checkpoint in {shown}, so the run begins again"))
        }
    }
    dir.forget_after(newest.unwrap_or(0))?;
    Ok((dir, newest))
}
