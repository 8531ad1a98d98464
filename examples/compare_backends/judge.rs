//! What is right and what is not, from numbers alone.

use mha::Path;
use mha_tests::{Measure, Named, Yardstick};

/// How far output and gradients are off, in the order in which they are computed; what is missing is
/// infinitely far off.
pub(crate) fn measure(yardstick: &Yardstick<'_>, results: &Named<f32>) -> Vec<Measure> {
    let measures = yardstick.measure(results);
    let of = |name: &str| {
        let found = measures.iter().find(|measure| measure.name == name);
        found.cloned().unwrap_or_else(|| Measure::missing(name))
    };
    let asked = |name: &&str| !["weights", "lse"].contains(name);
    yardstick.names().filter(asked).map(of).collect()
}

/// Where a call first goes wrong, in words: `steps` measures what `explain` shows of it, `measures`
/// its output and gradients.
///
/// `explain` shows the attention of a fused call in tensor operations. So where all steps are right
/// and the output is not, it is the kernel of the attention.
pub(crate) fn first_divergence(path: Path, measures: &[Measure], steps: &[Measure]) -> String {
    let first = |all: &[Measure]| all.iter().find(|m| !m.passes()).map(|m| m.name.clone());
    match (first(steps), first(measures)) {
        (Some(step), _) => format!("step {step}"),
        (None, Some(name)) if name == "context" && path == Path::Fused => {
            "step attend C, in the kernel: explain's steps, in tensor operations, are right".into()
        }
        (None, Some(name)) if name == "context" => {
            "the output itself: every step that explain shows is right".into()
        }
        (None, Some(name)) => format!("the backward pass, at the {name}"),
        (None, None) => "nowhere".into(),
    }
}
