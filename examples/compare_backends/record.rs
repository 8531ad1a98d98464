//! What one comparison found.

use mha::{Path, oracle::Sizes};
use mha_examples::backend::BackendName;
use mha_tests::Measure;
use serde_json::{Value, json};

use crate::timing::Times;

/// One configuration on one backend and path.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// The output's, then each gradient's, from the output backwards.
    pub(crate) measures: Vec<Measure>,
    pub(crate) configuration: String,
    pub(crate) sizes: Sizes,
    pub(crate) backend: BackendName,
    pub(crate) path: Path,
    pub(crate) times: Times,
    /// The heap at the peak of both passes, on a CPU.
    pub(crate) peak_bytes: Option<usize>,
    /// Where the call first goes wrong, if it does.
    pub(crate) first_divergence: Option<String>,
}

impl Record {
    pub(crate) fn passes(&self) -> bool {
        self.measures.iter().all(Measure::passes)
    }

    /// `plain` or `fused`.
    pub(crate) fn path(&self) -> String {
        format!("{:?}", self.path).to_lowercase()
    }

    pub(crate) fn json(&self) -> Value {
        let Sizes { batch, n_heads, n_kv_heads, seq_q, seq_k, head_dim, value_dim } = self.sizes;
        json!({
            "configuration": self.configuration,
            "batch": batch, "seq_q": seq_q, "seq_k": seq_k,
            "n_heads": n_heads, "n_kv_heads": n_kv_heads,
            "head_dim": head_dim, "value_dim": value_dim,
            "backend": self.backend.to_string(),
            "path": self.path(),
            "passes": self.passes(),
            "first_divergence": self.first_divergence,
            "measures": self.measures.iter().map(measure_json).collect::<Vec<_>>(),
            "forward_ms": self.times.forward_ms,
            "backward_ms": self.times.backward_ms,
            "peak_heap_bytes": self.peak_bytes,
        })
    }
}

/// JSON has no infinity and no NaN: they become null.
fn measure_json(measure: &Measure) -> Value {
    json!({
        "name": said(measure),
        "error": measure.error,
        "textbook_error": measure.textbook,
        "one_rounding": measure.rounding,
        "allowed": measure.allowed(),
        "times_textbook": measure.times(),
        "passes": measure.passes(),
    })
}

/// What a measure's name is here: the module's context is its output.
pub(crate) fn said(measure: &Measure) -> &str {
    if measure.name == "context" { "output" } else { &measure.name }
}

/// The measure with the least room to its allowance, or with none: the most times the textbook's
/// error.
pub(crate) fn worst<'a>(measures: impl IntoIterator<Item = &'a Measure>) -> Option<&'a Measure> {
    // NaN is worse than any number; `f64::max` would hide it.
    let rank =
        |measure: &Measure| if measure.times().is_nan() { f64::INFINITY } else { measure.times() };
    measures.into_iter().max_by(|a, b| rank(a).total_cmp(&rank(b)))
}
