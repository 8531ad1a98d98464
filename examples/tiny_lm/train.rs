//! The training loop.

use burn::{
    grad_clipping::GradientClippingConfig,
    lr_scheduler::{
        LrScheduler,
        composed::{ComposedLrScheduler, ComposedLrSchedulerConfig},
        cosine::CosineAnnealingLrSchedulerConfig,
        linear::LinearLrSchedulerConfig,
    },
    module::AutodiffModule,
    optim::{AdamWConfig, GradientsParams, Optimizer},
    tensor::{
        ElementConversion,
        backend::{AutodiffBackend, Backend},
    },
};
use mha_examples::print::print_line;

use crate::{
    args::{Cli, Training},
    batches::{batch, random_starts, spread_starts},
    corpus::Corpus,
    curves::Curves,
    generate::{Way, generate},
    model::TinyLm,
    progress::Progress,
    sampler::Sampler,
};

/// Stretches in a validation at most.
const VALIDATION_STRETCHES: usize = 128;
/// Validations in a run, beside the one before its first step.
const VALIDATIONS: usize = 20;
/// How often the model shows what it writes now, and how many characters.
const SAMPLES: usize = 5;
const SAMPLE_LENGTH: usize = 160;

/// A trained model.
pub(crate) struct Trained<B: Backend> {
    pub(crate) model: TinyLm<B>,
    pub(crate) curves: Curves,
    /// The last validation loss, in nats per character.
    pub(crate) validation: f64,
}

impl Training {
    /// A straight line up to the learning rate in the first twentieth of the steps, times a cosine
    /// down to 0.
    fn scheduler(&self) -> Result<ComposedLrScheduler, String> {
        let warm_up = self.steps.div_ceil(20);
        ComposedLrSchedulerConfig::new()
            .linear(LinearLrSchedulerConfig::new(1.0 / warm_up as f64, 1.0, warm_up))
            .cosine(CosineAnnealingLrSchedulerConfig::new(self.learning_rate, self.steps))
            .init()
    }
}

/// Trains `model` on `corpus`, with lines of progress and now and then what it writes.
pub(crate) fn train<B: AutodiffBackend>(
    cli: &Cli,
    corpus: &Corpus,
    mut model: TinyLm<B>,
    device: &B::Device,
) -> Result<Trained<B::InnerBackend>, String> {
    let Training { steps, batch_size, .. } = cli.training;
    let context = cli.sizes.context;
    let mut scheduler = cli.training.scheduler()?;
    let mut optimizer = AdamWConfig::new()
        .with_beta_2(0.99)
        .with_weight_decay(0.01)
        .with_grad_clipping(Some(GradientClippingConfig::Norm(1.0)))
        .init::<B, TinyLm<B>>();

    let mut curves = Curves::default();
    let mut validation = validation_loss(&model.valid(), corpus, context, batch_size, device);
    curves.validation.push((0, validation));
    let mut progress = Progress::begin(steps, batch_size * context);
    for step in 1..=steps {
        let starts = random_starts(corpus.training.len(), context, batch_size, cli.seed, step);
        let loss = model.loss(batch(&corpus.training, &starts, context, device));
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(scheduler.step(), model, gradients);

        let loss = loss.into_scalar().elem::<f64>();
        if !loss.is_finite() {
            let advice = "a lower --learning-rate may help";
            return Err(format!("the loss of step {step} is not a finite number; {advice}"));
        }
        curves.training.push((step - 1, loss));
        if is_due(step, steps, VALIDATIONS) {
            validation = validation_loss(&model.valid(), corpus, context, batch_size, device);
            curves.validation.push((step, validation));
        }
        progress.step(step, loss, validation);
        if is_due(step, steps, SAMPLES) && step < steps {
            show_sample(cli, corpus, &model.valid());
        }
    }
    Ok(Trained { model: model.valid(), curves, validation })
}

/// Whether something that happens `times` times in `steps` steps happens after `step`: at even
/// distances, and after the last.
fn is_due(step: usize, steps: usize, times: usize) -> bool {
    step == steps || step.is_multiple_of(steps.div_ceil(times))
}

/// The mean loss on the held-out part of the text.
fn validation_loss<B: Backend>(
    model: &TinyLm<B>,
    corpus: &Corpus,
    context: usize,
    batch_size: usize,
    device: &B::Device,
) -> f64 {
    let text = &corpus.validation;
    let starts = spread_starts(text.len(), context, VALIDATION_STRETCHES);
    let sum: f64 = starts
        .chunks(batch_size)
        .map(|starts| {
            let loss = model.loss(batch(text, starts, context, device));
            loss.into_scalar().elem::<f64>() * starts.len() as f64
        })
        .sum();
    sum / starts.len() as f64
}

fn show_sample<B: Backend>(cli: &Cli, corpus: &Corpus, model: &TinyLm<B>) {
    let vocabulary = &corpus.vocabulary;
    let prompt = vocabulary.encode(&vocabulary.default_prompt()).expect("one of its own");
    let sampler = Sampler::new(cli.writing.temperature, cli.seed);
    let context = cli.sizes.context;
    let tokens = generate(model, &prompt, SAMPLE_LENGTH, context, Way::Cached, sampler);
    for line in vocabulary.decode(&tokens).lines() {
        print_line(format_args!("  writes | {line}"));
    }
}
