//! Progress as lines of text, for wherever `burn-train`'s dashboard has no terminal to draw on.

use std::{collections::HashMap, time::Instant};

use burn::train::{
    metric::{MetricDefinition, MetricId, NumericEntry},
    renderer::{
        EvaluationName, EvaluationProgress, MetricState, MetricsRenderer,
        MetricsRendererEvaluation, MetricsRendererTraining, ProgressType, TrainingProgress,
    },
};
use mha_examples::print::print_line;

use crate::epochs::Epochs;

/// Prints a line every few steps and one per validation.
pub(crate) struct LineRenderer {
    epochs: Epochs,
    log_every: usize,
    names: HashMap<MetricId, String>,
    /// The latest training values by metric.
    train: HashMap<String, f64>,
    /// Sum and count of this validation's values by metric.
    valid: HashMap<String, (f64, usize)>,
    /// When the last line was printed and after which step, for the speed.
    last_line: (Instant, usize),
}

impl LineRenderer {
    /// `first_step` is the number of steps that a resumed run has behind it.
    pub(crate) fn new(epochs: Epochs, log_every: usize, first_step: usize) -> Self {
        Self {
            epochs,
            log_every,
            names: HashMap::new(),
            train: HashMap::new(),
            valid: HashMap::new(),
            last_line: (Instant::now(), first_step),
        }
    }

    fn numeric(&self, state: MetricState) -> Option<(String, NumericEntry)> {
        let MetricState::Numeric(entry, value) = state else { return None };
        Some((self.names.get(&entry.metric_id)?.clone(), value))
    }
}

impl MetricsRendererTraining for LineRenderer {
    fn update_train(&mut self, state: MetricState) {
        if let Some((name, value)) = self.numeric(state) {
            self.train.insert(name, value.current());
        }
    }

    fn update_valid(&mut self, state: MetricState) {
        if let Some((name, value)) = self.numeric(state) {
            let count = match value {
                NumericEntry::Value(_) => 1,
                NumericEntry::Aggregated { count, .. } => count,
            };
            let (sum, total) = self.valid.entry(name).or_default();
            *sum += value.current() * count as f64;
            *total += count;
        }
    }

    fn render_train(&mut self, item: TrainingProgress, _: Vec<ProgressType>) {
        let epoch = item.global_progress.items_processed;
        let step = self.epochs.steps_before(epoch) + item.iteration.unwrap_or(0);
        if !step.is_multiple_of(self.log_every) && step != self.epochs.steps {
            return;
        }
        let (since, last_step) = std::mem::replace(&mut self.last_line, (Instant::now(), step));
        let value = |name| self.train.get(name).copied().unwrap_or(f64::NAN);
        print_line(format_args!(
            "step {step}/{}  epoch {epoch}/{}  loss {:.4}  accuracy {:.2} %  {:.1} steps/s",
            self.epochs.steps,
            self.epochs.count(),
            value("Loss"),
            value("Accuracy"),
            (step - last_step) as f64 / since.elapsed().as_secs_f64(),
        ));
    }

    fn render_valid(&mut self, item: TrainingProgress, _: Vec<ProgressType>) {
        if item.progress.is_some_and(|progress| progress.items_processed < progress.items_total) {
            return;
        }
        let mean = |name| self.valid.get(name).map_or(f64::NAN, |(sum, n)| sum / *n as f64);
        print_line(format_args!(
            "validation after epoch {}  loss {:.4}  accuracy {:.2} %",
            item.global_progress.items_processed,
            mean("Loss"),
            mean("Accuracy"),
        ));
        self.valid.clear();
    }
}

impl MetricsRendererEvaluation for LineRenderer {
    fn update_test(&mut self, _: EvaluationName, _: MetricState) {}

    fn render_test(&mut self, _: EvaluationProgress, _: Vec<ProgressType>) {}
}

impl MetricsRenderer for LineRenderer {
    fn manual_close(&mut self) {}

    fn register_metric(&mut self, definition: MetricDefinition) {
        self.names.insert(definition.metric_id, definition.name);
    }
}
