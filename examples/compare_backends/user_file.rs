//! A configuration of the user's own, from a JSON file.

use std::{error::Error, fs, path::Path};

use burn::tensor::backend::AutodiffBackend;
use mha::{Masking, MultiHeadAttentionConfig, Rule, oracle::Sizes};
use mha_examples::backend::{BackendName, Job};
use mha_tests::{Call, Case, Layer};
use serde::Deserialize;

use crate::subject::Subject;

/// The most weights, and the most pairs: the reference keeps several f64 for each.
const MOST_NUMBERS: f64 = (1 << 24) as f64;

/// The most multiplications of a forward pass: the reference takes about a minute for these.
const MOST_WORK: f64 = 4e9;

/// What the file holds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserFile {
    module: MultiHeadAttentionConfig,
    batch: usize,
    seq_q: usize,
    seq_k: Option<usize>,
    #[serde(default)]
    rules: Vec<Rule>,
}

/// The subject of a file, checked by building it on this backend.
pub(crate) fn read(file: &Path, backend: BackendName) -> Result<Subject, Box<dyn Error>> {
    let in_file = |what: &str| format!("{}: {what}", file.display());
    let text = fs::read_to_string(file).map_err(|error| in_file(&error.to_string()))?;
    let user: UserFile = serde_json::from_str(&text)
        .map_err(|error| in_file(&format!("{error}; --help shows what the file must have")))?;
    let name = file.file_stem().map_or("module".into(), |stem| stem.to_string_lossy());
    let subject = user.subject(&name);
    check_sizes(&subject).map_err(|error| in_file(&error))?;
    backend.run(Check { subject: &subject })?.map_err(|error| in_file(&error))?;
    Ok(subject)
}

impl UserFile {
    fn subject(self, name: &str) -> Subject {
        let Self { module: config, batch, seq_q, seq_k, rules } = self;
        let n_heads = config.n_heads;
        // 0 heads are refused when the module is built.
        let head_dim = config.head_dim.unwrap_or(config.d_model / n_heads.max(1));
        let value_dim = config.value_dim.unwrap_or(head_dim);
        let all = [batch, n_heads, seq_q, seq_k.unwrap_or(seq_q), head_dim, value_dim];
        let case = Case::new(name, all);
        let n_kv_heads = config.n_kv_heads.unwrap_or(n_heads);
        let width = |width: Option<usize>| width.unwrap_or(config.d_model);
        let (d_key, d_value) = (width(config.d_key), width(config.d_value));
        let case = Case {
            sizes: Sizes { n_kv_heads, ..case.sizes },
            widths: Some([config.d_model, d_key, d_value, width(config.d_output)]),
            projection_bias: config.bias,
            scale: config.scale,
            softcap: config.softcap,
            rules,
            position: config.position.clone(),
            qk_norm: config.qk_norm,
            bias_kv: config.bias_kv,
            sink: config.sink,
            gate: config.gate,
            dropout: (config.dropout > 0.0).then_some((1, config.dropout)),
            ..case
        };
        Subject { case, config }
    }
}

/// Refuses sizes that there is nothing to compare in, or that plain loops take too long for.
fn check_sizes(subject: &Subject) -> Result<(), String> {
    let Sizes { batch, seq_q, seq_k, .. } = subject.case.sizes;
    for (name, size) in [("batch", batch), ("seq_q", seq_q), ("seq_k", seq_k)] {
        if size == 0 {
            return Err(format!("{name} must be at least 1, got 0"));
        }
    }
    for (what, count, most) in [
        ("weights", subject.weights(), MOST_NUMBERS),
        ("pairs of query and key", subject.pairs(), MOST_NUMBERS),
        ("multiplications", subject.work(), MOST_WORK),
    ] {
        if count > most {
            return Err(format!(
                "the reference in plain loops takes at most {most:.1e} {what}, got {count:.1e}"
            ));
        }
    }
    Ok(())
}

/// Builds the module and checks the call, without computing it.
struct Check<'a> {
    subject: &'a Subject,
}

impl Job for Check<'_> {
    type Output = Result<(), String>;

    fn run<B: AutodiffBackend>(self, device: B::Device) -> Self::Output {
        let Subject { case, config } = self.subject;
        let module = config.try_init::<B>(&device).map_err(|error| error.to_string())?;
        let call = Call::new(&Layer::new(case), module);
        let input = call.input.path(mha::Path::Auto);
        call.module.attention_path(&input).map_err(|error| error.to_string())?;
        check_masking(self.subject)
    }
}

/// The reference gives hidden pairs a weight of 0, which overwritten scores have unless they are all
/// that a query has.
fn check_masking(Subject { case, config }: &Subject) -> Result<(), String> {
    let Masking::Overwrite { min_float } = config.masking else { return Ok(()) };
    let Sizes { batch, seq_q, seq_k, .. } = case.sizes;
    let hides = case.hides();
    // The rules of a file are the same for all heads.
    let sees = |b, i| case.bias_kv > 0 || (0..seq_k).any(|j| !hides([b, 0, i, j]));
    let all_see = (0..batch).all(|b| (0..seq_q).all(|i| sees(b, i)));
    if min_float <= -1e3 && all_see {
        return Ok(());
    }
    Err("masking: the reference knows Overwrite only with a min_float of -1000 or less, and where \
         every query sees a key"
        .into())
}
