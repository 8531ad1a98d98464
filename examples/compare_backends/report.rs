//! All comparisons as a table, as Markdown and as JSON.

use mha::oracle::Sizes;
use mha_examples::columns::{aligned, significant};
use mha_tests::Measure;
use serde_json::{Value, json};

use crate::record::{Record, said, worst};

/// Everything that was compared.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// How many backends were compared.
    pub(crate) backends: usize,
    pub(crate) records: Vec<Record>,
    /// Paths that could not take a call, and why.
    pub(crate) left_out: Vec<String>,
}

const HEAD: [&str; 11] = [
    "configuration, batch×queries×keys",
    "backend",
    "path",
    "output",
    "allowed",
    "gradient",
    "allowed",
    "forward ms",
    "backward ms",
    "peak KiB",
    "× textbook",
];

/// What the columns mean. A gradient is the one with the least room to its allowance.
const LEGEND: [&str; 4] = [
    "output, gradient: the largest error against f64; of all gradients the one with the least room",
    "allowed: twice the error of the textbook formula in f32, and one rounding",
    "× textbook: error / (textbook error + half a rounding), so that 2.0 is what is allowed; the worst of all",
    "peak KiB: heap at the peak of forward and backward, besides weights and inputs; - on a GPU",
];

/// How many results that are wrong a remark names; the JSON has all.
const NAMED: usize = 3;

impl Report {
    /// Whether every error is within its allowance.
    pub(crate) fn passes(&self) -> bool {
        self.records.iter().all(Record::passes)
    }

    /// The table in columns, what they mean, and what went wrong.
    pub(crate) fn text(&self) -> Vec<String> {
        let head = HEAD.map(String::from).to_vec();
        let rows: Vec<_> = std::iter::once(head).chain(self.rows()).collect();
        let mut lines = aligned(&rows);
        lines.push(String::new());
        lines.extend(LEGEND.map(String::from));
        lines.extend(self.remarks());
        lines
    }

    /// The same as Markdown.
    pub(crate) fn markdown(&self) -> Vec<String> {
        let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
        let mut lines = vec![line(&HEAD.map(String::from))];
        lines.push(format!("| --- | --- | --- |{}", " ---: |".repeat(HEAD.len() - 3)));
        lines.extend(self.rows().iter().map(|row| line(row)));
        lines.push(String::new());
        lines.extend(LEGEND.iter().map(|said| format!("- {said}")));
        lines.extend(self.remarks().iter().map(|said| format!("- {said}")));
        lines.push(String::new());
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.records.iter().map(row).collect()
    }

    /// What was left out, and where what failed first went wrong.
    fn remarks(&self) -> Vec<String> {
        let left_out = self.left_out.iter().map(|reason| format!("not compared: {reason}"));
        let failed = self.records.iter().filter(|record| !record.passes()).map(remark);
        left_out.chain(failed).collect()
    }

    pub(crate) fn last_line(&self) -> String {
        let worst = worst(self.measures()).map_or(0.0, Measure::times);
        let (allowed, worst) = (Measure::ALLOWED, times(worst));
        let (comparisons, backends) = (self.records.len(), self.backends);
        format!(
            "worst error: {worst} times the textbook error (allowed {allowed:.1}), \
             {comparisons} comparisons, {backends} backends"
        )
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "passes": self.passes(),
            "worst_times_textbook": worst(self.measures()).map(Measure::times),
            "allowed_times_textbook": Measure::ALLOWED,
            "backends": self.backends,
            "comparisons": self.records.iter().map(Record::json).collect::<Vec<_>>(),
            "not_compared": self.left_out,
        })
    }

    fn measures(&self) -> impl Iterator<Item = &Measure> {
        self.records.iter().flat_map(|record| &record.measures)
    }
}

fn row(record: &Record) -> Vec<String> {
    let Sizes { batch, seq_q, seq_k, .. } = record.sizes;
    let (output, gradients): (Vec<_>, Vec<_>) =
        record.measures.iter().partition(|measure| measure.name == "context");
    let [output, gradient] = [output, gradients].map(worst);
    let cells = |measure: Option<&Measure>| match measure {
        Some(measure) => [measure.error, measure.allowed()].map(|x| format!("{x:.1e}")),
        None => ["-", "-"].map(String::from),
    };
    let ([output, output_allowed], [gradient, gradient_allowed]) = (cells(output), cells(gradient));
    let most = worst(&record.measures).map_or(0.0, Measure::times);
    let kib = |bytes: usize| significant(bytes as f64 / 1024.0);
    vec![
        format!("{}, {batch}×{seq_q}×{seq_k}", record.configuration),
        record.backend.to_string(),
        record.path(),
        output,
        output_allowed,
        gradient,
        gradient_allowed,
        significant(record.times.forward_ms),
        significant(record.times.backward_ms),
        record.peak_bytes.map_or("-".into(), kib),
        times(most),
    ]
}

/// What is wrong with a comparison, and where that begins.
fn remark(record: &Record) -> String {
    let Record { configuration, backend, measures, first_divergence, .. } = record;
    let wrong: Vec<_> = measures.iter().filter(|measure| !measure.passes()).collect();
    let mut over: Vec<_> = wrong
        .iter()
        .take(NAMED)
        .map(|measure| {
            format!("{} {:.1e} over {:.1e}", said(measure), measure.error, measure.allowed())
        })
        .collect();
    if wrong.len() > NAMED {
        over.push(format!("{} more", wrong.len() - NAMED));
    }
    let (path, over) = (record.path(), over.join(", "));
    let first = first_divergence.as_deref().unwrap_or("nowhere");
    format!("WRONG: {configuration} on {backend}, {path}: {over}; diverges first: {first}")
}

/// One decimal; upwards where more than is allowed must not look like what is allowed.
fn times(times: f64) -> String {
    let shown = if times > Measure::ALLOWED { (times * 10.0).ceil() / 10.0 } else { times };
    format!("{shown:.1}")
}
