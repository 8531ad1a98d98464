//! Wrong numbers are found, and the step at which they begin.

use mha::{Gate, Offset, Path, Position, Rotary, Rule};
use mha_examples::backend::BackendName;
use mha_tests::{Case, Layer, Measure, Named, Yardstick};

use crate::judge;
use crate::record::Record;
use crate::report::Report;
use crate::timing::Times;

/// A case with many steps, whose results are computed in plain loops in f32.
struct Right {
    case: Case,
    results: Named<f32>,
    steps: Named<f32>,
}

impl Right {
    fn new() -> Self {
        let position: Position = Rotary::half(100.0).into();
        let rules = vec![Rule::Causal { offset: Offset::BottomRight }];
        let (gate, softcap) = (Gate::PerHead, Some(1.5));
        let base = Case::new("wrong on purpose", [2, 3, 5, 7, 4, 3]);
        let case = Case { position, rules, gate, softcap, ..base };
        let layer = Layer::<f32>::new(&case);
        let gradients = layer.backward(&case.d_output()).into_iter();
        let gradients = gradients.map(|(name, x)| (format!("gradient of {name}"), x));
        let output = ("context".to_string(), layer.forward().context);
        let results = std::iter::once(output).chain(gradients).collect();
        let steps = layer.steps();
        Self { case, results, steps }
    }

    /// The report of these results and steps.
    fn report(&self, path: Path) -> Report {
        let measures = judge::measure(&Yardstick::of_module(&self.case, 0), &self.results);
        let steps = Yardstick::of_steps(&self.case, 0).measure(&self.steps);
        let passes = measures.iter().all(Measure::passes);
        let first = || judge::first_divergence(path, &measures, &steps);
        let record = Record {
            configuration: self.case.name.clone(),
            sizes: self.case.sizes,
            backend: BackendName::Ndarray,
            path,
            first_divergence: (!passes).then(first),
            measures,
            times: Times { forward_ms: 1.0, backward_ms: 2.0 },
            peak_bytes: None,
        };
        Report { records: vec![record], left_out: Vec::new(), backends: 1 }
    }
}

/// Moves a number of one result by much more than rounding does.
fn tamper(all: &mut Named<f32>, name: &str) {
    let (_, numbers) = all.iter_mut().find(|(other, _)| other == name).expect("it is there");
    let number = numbers.iter_mut().find(|x| !x.is_nan()).expect("a number");
    *number += 1e-3;
}

fn remark(report: &Report) -> String {
    let text = report.text();
    text.iter().find(|line| line.starts_with("WRONG")).expect("something is wrong").clone()
}

#[test]
fn the_textbook_itself_is_right() {
    for path in [Path::Plain, Path::Fused] {
        let report = Right::new().report(path);
        assert!(report.passes());
        assert!(!report.text().iter().any(|line| line.contains("WRONG")));
        // Once its own error, less the half a rounding that all are granted.
        assert!(report.last_line().starts_with("worst error: 0."), "{}", report.last_line());
    }
}

#[test]
fn the_first_wrong_step_is_named_and_not_those_behind_it() {
    let all = Right::new().steps.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert!(all.len() > 12, "{all:?}");
    for first in 0..all.len() {
        let mut wrong = Right::new();
        all[first..].iter().for_each(|name| tamper(&mut wrong.steps, name));
        tamper(&mut wrong.results, "context");
        let report = wrong.report(Path::Plain);
        assert!(!report.passes());
        let said = remark(&report);
        assert!(said.contains("output 1.0e-3 over "), "{said}");
        assert!(said.ends_with(&format!("diverges first: step {}", all[first])), "{said}");
    }
}

#[test]
fn a_kernel_is_suspected_where_the_steps_are_right() {
    let mut wrong = Right::new();
    tamper(&mut wrong.results, "context");
    let (fused, plain) = (remark(&wrong.report(Path::Fused)), remark(&wrong.report(Path::Plain)));
    assert!(fused.contains("diverges first: step attend C, in the kernel"), "{fused}");
    assert!(plain.contains("diverges first: the output itself"), "{plain}");
    assert!(wrong.report(Path::Fused).markdown().contains(&format!("- {fused}")));
}

#[test]
fn a_wrong_gradient_is_named_from_the_output_backwards() {
    let mut wrong = Right::new();
    tamper(&mut wrong.results, "gradient of the input key");
    tamper(&mut wrong.results, "gradient of output.weight");
    let report = wrong.report(Path::Fused);
    assert!(!report.passes());
    let said = remark(&report);
    assert!(said.contains("gradient of the input key 1.0e-3 over "), "{said}");
    let first = "diverges first: the backward pass, at the gradient of output.weight";
    assert!(said.ends_with(first), "{said}");
}

#[test]
fn nan_and_what_is_missing_are_wrong() {
    let mut wrong = Right::new();
    wrong.results[0].1[3] = f32::NAN;
    let report = wrong.report(Path::Plain);
    assert!(!report.passes());
    assert!(report.last_line().starts_with("worst error: NaN times"), "{}", report.last_line());

    let mut wrong = Right::new();
    wrong.results.retain(|(name, _)| name != "gradient of query.weight");
    let report = wrong.report(Path::Plain);
    assert!(!report.passes());
    assert!(remark(&report).contains("gradient of query.weight inf over 0"), "{}", remark(&report));
    assert!(report.last_line().starts_with("worst error: inf times"), "{}", report.last_line());
    let json = report.json();
    assert_eq!((&json["passes"], &json["worst_times_textbook"]), (&false.into(), &().into()));
}

/// An error just over its allowance must not look like one within it.
#[test]
fn barely_too_much_is_rounded_up() {
    let right = Right::new();
    let exact = Layer::<f64>::new(&right.case).forward().context;
    let yardstick = Yardstick::of_module(&right.case, 0);
    let allowed = yardstick.measure(&right.results)[0].allowed();
    let mut wrong = Right::new();
    // Where f32 is finest beside the allowance: at the smallest number.
    let at = (0..exact.len()).min_by(|&a, &b| exact[a].abs().total_cmp(&exact[b].abs())).unwrap();
    wrong.results[0].1[at] = (exact[at] + 1.01 * allowed) as f32;
    let error = (f64::from(wrong.results[0].1[at]) - exact[at]).abs();
    assert!(error > allowed && error < 1.04 * allowed, "{error:e}, {allowed:e}");
    let report = wrong.report(Path::Plain);
    assert!(!report.passes());
    assert!(report.last_line().starts_with("worst error: 2.1 times"), "{}", report.last_line());
}
