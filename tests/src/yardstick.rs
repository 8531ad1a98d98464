//! How exact the results of a case can be asked to be: twice the error of the textbook formula.

use mha::oracle::Output;
use num_traits::Float;

use crate::cancel::terms_of;
use crate::case::convert;
use crate::compare::accurate;
use crate::{Case, Layer, Named, largest, max_error, wide};

/// The exact results of a case, and those of the textbook formula in f32.
///
/// In a few numbers the textbook's formula may be exact by luck, where another order of the same
/// sums is off by some roundings. So its error may also be looked for in neighbours of the case:
/// problems with the same sizes and options whose numbers differ a little. They are as hard as the
/// case itself, and their luck is their own.
#[derive(Debug)]
pub struct Yardstick<'a> {
    case: &'a Case,
    here: Results,
    /// For some results, what a rounding of them is relative to, where it is more than they.
    magnitudes: Named<f64>,
    neighbours: u32,
    results: fn(&Case) -> Results,
    /// For gradients that are 0 the terms that cancel out in them.
    terms: fn(&Case) -> Named<f64>,
}

/// Exact and in f32: outputs and gradients by name.
type Results = (Named<f64>, Named<f32>);

impl<'a> Yardstick<'a> {
    /// For a function's call: "context", "weights", "lse" and, given [`Case::inputs`]' gradient of
    /// the context, "gradient of .." each of [`Case::named`].
    pub fn of_function(case: &'a Case, neighbours: u32) -> Self {
        Self::new(case, neighbours, Vec::new(), function_results, function_terms)
    }

    /// For a module's call: "context", "weights", "lse" and, given [`Case::d_output`], "gradient of
    /// .." each of [`Layer::backward`].
    pub fn of_module(case: &'a Case, neighbours: u32) -> Self {
        // The projections and the attention between them: three stages, each with its rounding.
        let three = |(name, terms): (String, Vec<f64>)| {
            (gradient_of(&name), terms.iter().map(|term| 3.0 * term).collect())
        };
        let d_output = wide(&case.d_output());
        let terms = case.has_pairs().then(|| Layer::new(case).backward_magnitudes(&d_output));
        let magnitudes = terms.into_iter().flatten().map(three).collect();
        Self::new(case, neighbours, magnitudes, module_results, module_terms)
    }

    fn new(
        case: &'a Case,
        neighbours: u32,
        magnitudes: Named<f64>,
        results: fn(&Case) -> Results,
        terms: fn(&Case) -> Named<f64>,
    ) -> Self {
        Self { case, here: results(case), magnitudes, neighbours, results, terms }
    }

    /// Panics unless each of these is at most twice as far off as the textbook formula, give or take
    /// a rounding, and infinite exactly where the oracle's is.
    pub fn check(&self, ours: &Named<f32>) {
        let (exact, textbook) = &self.here;
        let mut near: Option<Vec<Results>> = None;
        for (name, ours) in ours {
            let what = format!("{}, {name}", self.case.name);
            let all = of(exact, name);
            for (&ours, &exact) in ours.iter().zip(all).filter(|(_, exact)| exact.is_infinite()) {
                assert_eq!(f64::from(ours), exact, "{what}");
            }
            let magnitude = self.magnitudes.iter().find(|(other, _)| other == name);
            let finite: Vec<f64> = all.iter().copied().filter(|exact| exact.is_finite()).collect();
            let magnitude = largest(magnitude.map_or(&finite, |(_, magnitude)| magnitude));
            let magnitude = match largest(&finite) {
                0.0 if name.starts_with("gradient") => {
                    let terms = (self.terms)(self.case);
                    terms
                        .iter()
                        .find(|(other, _)| other == name)
                        .map_or(magnitude, |(_, terms)| magnitude.max(largest(terms)))
                }
                _ => magnitude,
            };
            let (ours, theirs) = (error(ours, all), error(of(textbook, name), all));
            let Err(strict) = accurate(ours, theirs, magnitude) else { continue };
            let near = near.get_or_insert_with(|| {
                let neighbour = |neighbour| Case { neighbour, ..self.case.clone() };
                let all = (1..=self.neighbours).map(neighbour);
                all.map(|case| (self.results)(&case)).collect()
            });
            let errors =
                near.iter().map(|(exact, theirs)| error(of(theirs, name), of(exact, name)));
            if accurate(ours, errors.fold(theirs, f64::max), magnitude).is_err() {
                panic!("{what}: {strict}");
            }
        }
    }

    /// Panics when one of the gradients that are `asked` for by name is missing. Where there are no
    /// tokens a gradient of zeros may be.
    pub fn check_all_are_there(&self, ours: &Named<f32>, asked: impl Fn(&str) -> bool) {
        for (name, exact) in self.here.0.iter().filter(|(name, _)| asked(name)) {
            let nothing = self.case.sizes.seq_k == 0 && exact.iter().all(|&x| x == 0.0);
            let there = ours.iter().any(|(other, _)| other == name);
            assert!(there || nothing, "{}: no {name}", self.case.name);
        }
    }
}

/// The largest error among the numbers that are finite.
fn error(ours: &[f32], exact: &[f64]) -> f64 {
    assert_eq!(ours.len(), exact.len(), "lengths");
    let finite = ours.iter().zip(exact).filter(|(_, exact)| exact.is_finite());
    let (ours, exact): (Vec<f32>, Vec<f64>) = finite.unzip();
    max_error(&ours, &exact)
}

fn of<'a, T>(named: &'a Named<T>, name: &str) -> &'a [T] {
    &named.iter().find(|(other, _)| other == name).expect("the oracle has it").1
}

fn function_results(case: &Case) -> Results {
    fn of<T: Float + From<f32>>(case: &Case) -> Named<T> {
        let [.., d_context] = case.inputs();
        let attention = case.oracle();
        let backward = || case.named(&attention.backward(&convert::<T>(&d_context)));
        results(attention.forward(), case.has_pairs().then(backward))
    }
    (of(case), of(case))
}

fn function_terms(case: &Case) -> Named<f64> {
    let [.., d_context] = case.inputs();
    let terms = case.named(&terms_of(&case.oracle(), &wide(&d_context)));
    terms.into_iter().map(|(name, terms)| (gradient_of(&name), terms)).collect()
}

fn module_terms(case: &Case) -> Named<f64> {
    let terms = Layer::new(case).backward_terms(&wide(&case.d_output()));
    terms.into_iter().map(|(name, terms)| (gradient_of(&name), terms)).collect()
}

fn module_results(case: &Case) -> Results {
    fn of<T: Float + From<f32>>(case: &Case) -> Named<T> {
        let layer = Layer::new(case);
        let backward = || layer.backward(&convert::<T>(&case.d_output()));
        results(layer.forward(), case.has_pairs().then(backward))
    }
    (of(case), of(case))
}

fn results<T>(out: Output<T>, gradients: Option<Named<T>>) -> Named<T> {
    let mut all = vec![
        ("context".to_string(), out.context),
        ("weights".to_string(), out.weights),
        ("lse".to_string(), out.lse),
    ];
    let gradients = gradients.into_iter().flatten();
    all.extend(gradients.map(|(name, gradient)| (gradient_of(&name), gradient)));
    all
}

fn gradient_of(name: &str) -> String {
    format!("gradient of {name}")
}
