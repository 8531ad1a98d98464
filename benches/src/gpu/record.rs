//! The measurements as JSON.

use mha::Path;
use serde::Serialize;

use super::work::Work;
use crate::statistics::{least, median};

/// One measurement. What was not measured is null.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Record {
    /// What was done.
    pub(super) title: String,
    path: Path,
    pub(super) median_ms: Option<f64>,
    min_ms: Option<f64>,
    /// Of the device, after it was done once.
    pub(super) reserved_mb: Option<f64>,
    /// Of the device, before.
    pub(super) idle_mb: Option<f64>,
}

impl Record {
    pub(super) fn of_time(work: Work, path: Path, seconds: &[f64]) -> Self {
        let ms = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e3);
        Self {
            title: work.to_string(),
            path,
            median_ms: ms(median(seconds)),
            min_ms: ms(least(seconds)),
            reserved_mb: None,
            idle_mb: None,
        }
    }

    pub(super) fn of_memory(tokens: usize, [reserved, idle]: [f64; 2]) -> Self {
        Self {
            title: Work::TrainStep { length: tokens }.to_string(),
            path: Path::Fused,
            median_ms: None,
            min_ms: None,
            reserved_mb: Some(reserved),
            idle_mb: Some(idle),
        }
    }
}
