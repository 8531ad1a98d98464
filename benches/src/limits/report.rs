//! How near attention alone, and decoding, come to what the machine can do.

use super::{Direction, Limits, Work, bandwidth, gemm};
use crate::{
    case::{Case, D_MODEL, Visible},
    implementation::Implementation,
    op::Op,
    plan::WINDOW,
    results::Results,
    statistics::median,
    table,
};

/// The lines of the report.
pub(crate) fn lines(limits: &Limits, results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    let rate = median(&limits.gemm).map(|seconds| gemm::OPERATIONS / seconds);
    if let Some(rate) = rate {
        let side = gemm::SIDE;
        let rate = rate / 1e9;
        lines.push(format!("gemm crate, {side} x {side} x {side} in f32: {rate:.0} GF/s"));
    }
    let bandwidth = median(&limits.bandwidth).map(|seconds| bandwidth::BYTES as f64 / seconds);
    if let Some(bandwidth) = bandwidth {
        lines.push(format!("memory, read: {:.1} GB/s", bandwidth / 1e9));
    }
    lines.extend(alone(limits, rate));
    lines.extend(decode(results, bandwidth));
    lines
}

/// Attention alone: rates, and what hidden keys save.
fn alone(limits: &Limits, rate: Option<f64>) -> Vec<String> {
    let seconds_of = |implementation, work| {
        let found = limits.alone.iter().find(|(one, of, _)| (*one, *of) == (implementation, work));
        found.and_then(|(_, _, seconds)| median(seconds))
    };
    let mut rows = Vec::new();
    for implementation in Implementation::LAYERS.into_iter().filter(|one| one.is_ours()) {
        for (direction, name) in
            [(Direction::Forward, "forward"), (Direction::Backward, "backward")]
        {
            let seconds = |visible| seconds_of(implementation, Work { direction, visible });
            let full = seconds(Visible::All);
            let of_full = |visible| {
                let times = full.zip(seconds(visible)).map(|(full, part)| full / part);
                times.map_or("-".into(), |times| format!("{times:.2}x"))
            };
            let work = Work { direction, visible: Visible::All };
            let full_rate = full.map(|seconds| work.operations(limits.length) / seconds);
            rows.push(vec![
                format!("{}, {name}", implementation.name()),
                full_rate.map_or("-".into(), |rate| format!("{:.0} GF/s", rate / 1e9)),
                percent(full_rate, rate),
                of_full(Visible::Causal),
                of_full(Visible::Window(WINDOW)),
            ]);
        }
    }
    rows.retain(|row| row[1..].iter().any(|cell| cell != "-"));
    let title = format!("attention alone, 1 x {}", limits.length);
    let window = format!("window {WINDOW}");
    table::lines([&title, "full", "of gemm", "causal", &window], rows)
}

/// Decoding: keys and values read per second.
fn decode(results: &Results, bandwidth: Option<f64>) -> Vec<String> {
    let of_ours = |case: &&Case| case.op == Op::Decode;
    let mut rows = Vec::new();
    for case in results.cases().iter().filter(of_ours) {
        for implementation in Implementation::LAYERS.into_iter().filter(|one| one.is_ours()) {
            let seconds = results.median_ms(implementation, case).map(|ms| ms / 1e3);
            let Some(seconds) = seconds else { continue };
            let bytes = 2 * case.length * D_MODEL * size_of::<f32>();
            let rate = bytes as f64 / seconds;
            rows.push(vec![
                format!("{}, {} cached", implementation.name(), case.length),
                format!("{:.1} GB/s", rate / 1e9),
                percent(Some(rate), bandwidth),
            ]);
        }
    }
    table::lines(["decode, keys and values read", "rate", "of memory"], rows)
}

fn percent(part: Option<f64>, whole: Option<f64>) -> String {
    let share = part.zip(whole).map(|(part, whole)| 100.0 * part / whole);
    share.map_or("-".into(), |share| format!("{share:.0} %"))
}
