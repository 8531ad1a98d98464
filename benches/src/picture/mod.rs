//! Time and memory against length, as pictures.

mod log_log;

use std::{error::Error, path::Path};

use mha_examples::picture;

use crate::{
    case::Visible,
    implementation::Implementation,
    op::Op,
    results::{Measurement, Results},
};
use log_log::{Line, LogLog, Panel};

/// Writes `time.svg`, `time.png`, `memory.svg` and `memory.png`, each if there is anything to draw.
pub(crate) fn save(results: &Results, dir: &Path) -> Result<(), Box<dyn Error>> {
    let time = picture("Time of one sequence", "ms, median", results, Measurement::median_ms);
    let memory = picture("Peak memory of one sequence", "MB", results, |m| m.peak_mb);
    for (name, drawn) in [("time", time), ("memory", memory)] {
        if !drawn.panels.is_empty() {
            picture::save(&drawn, dir, name)?;
        }
    }
    Ok(())
}

/// One panel for each operation over whole sequences without a mask; a line takes two lengths.
fn picture(
    title: &str,
    unit: &str,
    results: &Results,
    value: impl Fn(&Measurement) -> Option<f64>,
) -> LogLog {
    let panel = |op, name: &str| {
        let points = |implementation: Implementation| -> Vec<(f64, f64)> {
            let drawn = results.measurements.iter().filter(|m| {
                let case = m.case;
                m.implementation == implementation
                    && (case.op, case.batch, case.visible) == (op, 1, Visible::All)
            });
            // A logarithm has no place for 0.
            drawn
                .filter_map(|m| Some((m.case.length as f64, value(m)?)))
                .filter(|&(_, value)| value > 0.0)
                .collect()
        };
        let lines = results.implementations().into_iter().map(|implementation| Line {
            name: implementation.name(),
            color: color(implementation),
            points: points(implementation),
        });
        let lines: Vec<_> = lines.filter(|line| line.points.len() > 1).collect();
        (!lines.is_empty()).then(|| Panel { label: format!("{name}, {unit}"), lines })
    };
    let panels = [panel(Op::Forward, "forward"), panel(Op::TrainStep, "train step")];
    LogLog { title: title.to_string(), panels: panels.into_iter().flatten().collect() }
}

/// The same in every picture, whoever takes part.
fn color(implementation: Implementation) -> (u8, u8, u8) {
    match implementation {
        Implementation::MhaFlex => (31, 119, 180),
        Implementation::MhaNdarray => (120, 180, 225),
        Implementation::BurnNnFlex => (214, 85, 0),
        Implementation::BurnNnNdarray => (240, 170, 110),
        Implementation::Candle => (140, 86, 75),
        Implementation::Torch => (44, 130, 60),
        Implementation::Onnxruntime => (130, 60, 150),
        Implementation::GemmLimit => (0, 0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    /// As [`results`], and again with twice the length and time.
    fn two_lengths() -> Results {
        let mut measurements = results().measurements;
        let longer = measurements.clone().into_iter().map(|mut measurement| {
            measurement.case.length *= 2;
            measurement.seconds.iter_mut().for_each(|seconds| *seconds *= 2.0);
            measurement
        });
        measurements.extend(longer.collect::<Vec<_>>());
        Results { measurements }
    }

    #[test]
    fn every_implementation_has_a_line_where_it_was_measured() {
        let drawn = picture("t", "ms", &two_lengths(), Measurement::median_ms);
        let [panel] = drawn.panels.as_slice() else { panic!("{drawn:?}") };
        let names: Vec<_> = panel.lines.iter().map(|line| line.name).collect();
        assert_eq!(names, ["mha-ndarray", "mha-flex", "burn-nn-ndarray", "torch"]);
        assert_eq!(panel.lines[1].points, [(4096.0, 2.0), (8192.0, 4.0)]);
        let memory = picture("t", "MB", &two_lengths(), |m| m.peak_mb);
        assert_eq!(memory.panels[0].lines.len(), 1);
        assert!(picture("t", "ms", &results(), Measurement::median_ms).panels.is_empty());
    }

    #[test]
    fn files_are_written() {
        let dir = std::env::temp_dir().join(format!("mha-bench-pictures-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let saved = save(&two_lengths(), &dir).map_err(|error| error.to_string());
        let files = ["time.svg", "time.png", "memory.svg", "memory.png"]
            .map(|name| std::fs::metadata(dir.join(name)).map_or(0, |file| file.len()));
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(saved, Ok(()));
        assert!(files.iter().all(|bytes| *bytes > 1000), "{files:?}");
    }
}
