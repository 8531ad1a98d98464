//! Metric files that stay right across a resume.

use std::path::Path;

use burn::train::{
    logger::{FileMetricLogger, MetricLogger},
    metric::{
        MetricDefinition, NumericEntry,
        store::{EpochSummary, MetricsUpdate, Split},
    },
};

/// `burn-train`'s own metric files. Version 0.21 counts the first epoch after a resume as epoch 1
/// and would write over that epoch's log; from the second on it counts right.
pub(crate) struct ResumedMetricLogger {
    files: FileMetricLogger,
    first_epoch: usize,
}

impl ResumedMetricLogger {
    pub(crate) fn new(dir: &Path, first_epoch: usize) -> Self {
        Self { files: FileMetricLogger::new(dir), first_epoch }
    }
}

impl MetricLogger for ResumedMetricLogger {
    fn log(&mut self, update: MetricsUpdate, epoch: usize, split: &Split) {
        self.files.log(update, epoch.max(self.first_epoch), split);
    }

    fn read_numeric(
        &mut self,
        name: &str,
        epoch: usize,
        split: &Split,
    ) -> Result<Vec<NumericEntry>, String> {
        self.files.read_numeric(name, epoch, split)
    }

    fn log_metric_definition(&mut self, definition: MetricDefinition) {
        self.files.log_metric_definition(definition);
    }

    fn log_epoch_summary(&mut self, summary: EpochSummary) {
        self.files.log_epoch_summary(summary);
    }
}
