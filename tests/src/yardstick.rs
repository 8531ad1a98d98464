//! How exact the results of a case can be asked to be: twice the error of the textbook formula.

use mha::oracle::Output;
use num_traits::Float;

use crate::cancel::terms_of;
use crate::case::convert;
use crate::compare::one_rounding;
use crate::{Case, Layer, Measure, Named, largest, max_error, wide};

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

    /// For the steps of a module's call, as [`Layer::steps`] has them; see
    /// [`explained_steps`](crate::explained_steps).
    pub fn of_steps(case: &'a Case, neighbours: u32) -> Self {
        let results = |case: &Case| (Layer::new(case).steps(), Layer::new(case).steps());
        Self::new(case, neighbours, Vec::new(), results, |_| Vec::new())
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
        for measure in self.measure(ours) {
            if let Err(error) = measure.verdict() {
                panic!("{}, {}: {error}", self.case.name, measure.name);
            }
        }
    }

    /// How far each of these is off, and how far it may be.
    pub fn measure(&self, ours: &Named<f32>) -> Vec<Measure> {
        let mut near = None;
        ours.iter().map(|(name, ours)| self.measure_one(name, ours, &mut near)).collect()
    }

    fn measure_one(&self, name: &str, ours: &[f32], near: &mut Option<Vec<Results>>) -> Measure {
        let (exact, textbook) = &self.here;
        let exact = of(exact, name);
        let mut measure = Measure {
            name: name.to_string(),
            error: error(ours, exact),
            textbook: error(of(textbook, name), exact),
            rounding: one_rounding(self.magnitude(name, exact)),
        };
        let mut infinite = ours.iter().zip(exact).filter(|(_, exact)| exact.is_infinite());
        if infinite.any(|(&ours, &exact)| f64::from(ours) != exact) {
            measure.error = f64::INFINITY;
        }
        if !measure.passes() {
            let near = near.get_or_insert_with(|| {
                let neighbour = |neighbour| Case { neighbour, ..self.case.clone() };
                let all = (1..=self.neighbours).map(neighbour);
                all.map(|case| (self.results)(&case)).collect()
            });
            let errors =
                near.iter().map(|(exact, theirs)| error(of(theirs, name), of(exact, name)));
            measure.textbook = errors.fold(measure.textbook, f64::max);
        }
        measure
    }

    /// What a rounding of this result is relative to.
    fn magnitude(&self, name: &str, exact: &[f64]) -> f64 {
        let finite: Vec<f64> = exact.iter().copied().filter(|exact| exact.is_finite()).collect();
        let found = |all: &Named<f64>| {
            all.iter().find(|(other, _)| other == name).map(|(_, numbers)| largest(numbers))
        };
        let magnitude = found(&self.magnitudes).unwrap_or_else(|| largest(&finite));
        if largest(&finite) == 0.0 && name.starts_with("gradient") {
            return found(&(self.terms)(self.case)).map_or(magnitude, |terms| magnitude.max(terms));
        }
        magnitude
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

    /// The names of all results, outputs first and gradients from the output backwards.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.here.0.iter().map(|(name, _)| name.as_str())
    }

    /// Whether the exact results are numbers, as they are but for settings that overflow in f64 too.
    pub fn is_exact(&self) -> bool {
        !self.here.0.iter().flat_map(|(_, exact)| exact).any(|x| x.is_nan())
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
