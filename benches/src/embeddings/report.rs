//! Sentences per second as a table and as JSON.

use std::{fs, path::Path};

use mha_examples::columns::{aligned, significant};
use serde::Serialize;

use super::{
    there,
    work::{Part, Work},
};
use crate::statistics::median;

/// One entrant at one work.
#[derive(Clone, Debug)]
pub(super) struct Score {
    pub(super) work: Work,
    pub(super) name: &'static str,
    /// Of each run.
    pub(super) seconds: Vec<f64>,
}

/// What is written of a score.
#[derive(Clone, Debug, Serialize)]
struct Record {
    part: Part,
    batch: usize,
    length: usize,
    implementation: &'static str,
    median_ms: Option<f64>,
    sentences_per_second: Option<f64>,
    /// How many times as many as transformers, the faster of the two.
    times_transformers: Option<f64>,
}

impl Score {
    fn rate(&self) -> Option<f64> {
        Some(self.work.batch as f64 / median(&self.seconds)?)
    }

    fn is_ours(&self) -> bool {
        !there::NAMES.contains(&self.name)
    }

    /// How many times as many as transformers, the faster of the two; none for itself.
    fn times_transformers(&self, all: &[Self]) -> Option<f64> {
        let theirs = all.iter().filter(|one| one.work == self.work && !one.is_ours());
        let fastest = theirs.filter_map(Self::rate).max_by(f64::total_cmp)?;
        self.is_ours().then_some(self.rate()? / fastest)
    }
}

/// A row for each work, a column for each entrant.
pub(super) fn lines(scores: &[Score]) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    let mut works: Vec<Work> = Vec::new();
    for Score { work, name, .. } in scores {
        if !names.contains(name) {
            names.push(name);
        }
        if !works.contains(work) {
            works.push(*work);
        }
    }
    let cell = |work: &Work, name: &str| {
        let score = scores.iter().find(|score| score.work == *work && score.name == name)?;
        let rate = significant(score.rate()?);
        Some(match score.times_transformers(scores) {
            Some(times) => format!("{rate} ({times:.2}x)"),
            None => rate,
        })
    };
    let title = "sentences per second (times transformers)".to_string();
    let head = std::iter::once(title).chain(names.iter().map(|name| name.to_string()));
    let rows = works.iter().map(|work| {
        let cells = names.iter().map(|name| cell(work, name).unwrap_or_else(|| "-".to_string()));
        std::iter::once(work.to_string()).chain(cells).collect()
    });
    aligned(&std::iter::once(head.collect()).chain(rows).collect::<Vec<_>>())
}

/// Writes all scores as an array.
pub(super) fn write(file: &Path, scores: &[Score]) -> Result<(), String> {
    let record = |score: &Score| Record {
        part: score.work.part,
        batch: score.work.batch,
        length: score.work.length,
        implementation: score.name,
        median_ms: median(&score.seconds).map(|seconds| seconds * 1e3),
        sentences_per_second: score.rate(),
        times_transformers: score.times_transformers(scores),
    };
    serde_json::to_string_pretty(&scores.iter().map(record).collect::<Vec<_>>())
        .map_err(|error| error.to_string())
        .and_then(|json| fs::write(file, json + "\n").map_err(|error| error.to_string()))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_rates_and_ratios() {
        let work = Work { part: Part::Embed, batch: 32, length: 16 };
        let score = |name, seconds| Score { work, name, seconds: vec![seconds] };
        assert_eq!(
            lines(&[
                score("mha-flex", 0.5),
                score(there::NAMES[0], 2.0),
                score(there::NAMES[1], 1.0),
            ]),
            [
                "sentences per second (times transformers)      mha-flex  transformers  \
                 transformers-passive",
                "whole model, 32 x 16                       64.0 (2.00x)          16.0  \
                 \x20               32.0",
            ]
        );
    }
}
