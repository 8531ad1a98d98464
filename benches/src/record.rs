//! The measurements as JSON.

use std::{fs, path::Path};

use serde::Serialize;

use crate::{
    case::{Case, Visible},
    implementation::Implementation,
    limits::{GEMM_SIDE, Limits},
    op::Op,
    results::{Measurement, Results},
};

/// One measurement. What was not measured is null.
#[derive(Clone, Debug, Serialize)]
struct Record {
    implementation: Implementation,
    batch: usize,
    /// Tokens of a sequence; of [`Op::Decode`], those in the cache.
    length: usize,
    op: Op,
    causal: bool,
    window: Option<usize>,
    median_ms: Option<f64>,
    min_ms: Option<f64>,
    peak_mb: Option<f64>,
}

impl From<&Measurement> for Record {
    fn from(measurement: &Measurement) -> Self {
        let Measurement { implementation, case, peak_mb, .. } = measurement;
        Self {
            implementation: *implementation,
            batch: case.batch,
            length: case.length,
            op: case.op,
            causal: case.causal(),
            window: case.window(),
            median_ms: measurement.median_ms(),
            min_ms: measurement.min_ms(),
            peak_mb: *peak_mb,
        }
    }
}

/// Writes all of them as an array, and the matrix product of the gemm crate as a forward pass of as
/// many tokens as it has rows.
pub(crate) fn write(file: &Path, results: &Results, limits: &Limits) -> Result<(), String> {
    let mut records: Vec<Record> = results.measurements.iter().map(Record::from).collect();
    if !limits.gemm.is_empty() {
        records.push(Record::from(&Measurement {
            implementation: Implementation::GemmLimit,
            case: Case::new(Op::Forward, 1, GEMM_SIDE, Visible::All),
            seconds: limits.gemm.clone(),
            peak_mb: None,
        }));
    }
    serde_json::to_string_pretty(&records)
        .map_err(|error| error.to_string())
        .and_then(|json| fs::write(file, json + "\n").map_err(|error| error.to_string()))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::results::tests::{case, results};

    #[test]
    fn a_record_has_these_fields() {
        let records: Vec<Record> = results().measurements.iter().map(Record::from).collect();
        assert_eq!(
            serde_json::to_value(&records[1]).unwrap(),
            json!({
                "implementation": "mha-flex", "batch": 1, "length": 4096, "op": "forward",
                "causal": false, "window": null, "median_ms": 2.0, "min_ms": 0.5, "peak_mb": 12.5,
            })
        );
        let case = Case { op: Op::TrainStep, visible: Visible::Window(256), ..case() };
        let windowed = Measurement { case, seconds: vec![], ..results().measurements[0].clone() };
        assert_eq!(
            serde_json::to_value(Record::from(&windowed)).unwrap(),
            json!({
                "implementation": "mha-ndarray", "batch": 1, "length": 4096, "op": "train_step",
                "causal": true, "window": 256, "median_ms": null, "min_ms": null, "peak_mb": null,
            })
        );
    }
}
