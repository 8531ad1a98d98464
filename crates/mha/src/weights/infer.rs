//! The configuration of a layer, from the shapes of its tensors and what its model says.

use mha_files::Entry;

use super::form::{Axes, Form, Order, Pack, Part};
use super::model::{Model, Place};
use super::{Error, Family};
use crate::position::Position;
use crate::{Gate, MultiHeadAttentionConfig, QkNorm, Sink};

/// Longer than any axis of a layer whose widths fit the module, three of them side by side too.
const LONGEST: usize = 1 << 18;

/// One layer's tensors, by their names below the prefix.
pub(super) trait Tensors {
    fn entry(&self, name: &str) -> Option<&Entry>;
}

/// A weight as a matrix.
#[derive(Debug, Clone, Copy)]
struct Matrix {
    d_input: usize,
    features: usize,
    /// Heads, where they are an axis.
    heads: Option<usize>,
}

/// A layer that has all weights of a form.
pub(super) struct Found<'a, T> {
    pub(super) form: &'static Form,
    pub(super) at: Place<'a>,
    pub(super) model: &'a Model,
    pub(super) tensors: &'a T,
}

impl<T: Tensors> Found<'_, T> {
    /// Whether the weights have shapes that the form can have: what tells forms with the same names
    /// apart.
    pub(super) fn fits(&self) -> bool {
        let (Ok(output), Ok(first)) = (self.matrix(Part::Output), self.matrix(Part::Query)) else {
            return true; // what is wrong is said later
        };
        let inner = output.d_input;
        match self.pack(Part::Query).parts {
            [Part::Query, Part::Gate] => first.features == 2 * inner,
            [Part::Query, Part::Key, Part::Value] => {
                (inner + 2..=3 * inner).contains(&first.features)
            }
            _ => true,
        }
    }

    pub(super) fn config(&self) -> Result<MultiHeadAttentionConfig, Error> {
        let [query, key, value, output] =
            [Part::Query, Part::Key, Part::Value, Part::Output].map(|part| self.matrix(part));
        let (query, key, value, output) = (query?, key?, value?, output?);
        let n_heads = self.n_heads(query, output)?;
        let inner = output.d_input;
        if inner % n_heads != 0 || n_heads > inner {
            let prefix = self.at.prefix.to_string();
            return Err(Error::Heads { prefix, features: inner, n_heads });
        }
        let value_dim = inner / n_heads;
        let head_dim = match self.pack(Part::Query).parts {
            [Part::Query] => query.features / n_heads,
            [Part::Query, Part::Gate] => query.features / 2 / n_heads,
            _ => self.model.head_dim(self.at)?.unwrap_or(value_dim),
        }
        .max(1);
        let n_kv_heads = match self.model.kv_heads(self.at)? {
            Some(said) => said,
            None => self.n_kv_heads(n_heads, head_dim, value_dim, key),
        };

        let d_model = query.d_input;
        let mut config = MultiHeadAttentionConfig::new(d_model, n_heads)
            .with_dropout(self.model.dropout(self.at)?);
        config.n_kv_heads = (n_kv_heads != n_heads).then_some(n_kv_heads);
        config.head_dim = (head_dim * n_heads != d_model).then_some(head_dim);
        config.value_dim = (value_dim != head_dim).then_some(value_dim);
        config.d_key = (key.d_input != d_model).then_some(key.d_input);
        config.d_value = (value.d_input != d_model).then_some(value.d_input);
        config.d_output = (output.features != d_model).then_some(output.features);
        config.scale = self.model.scale(self.form, self.at, head_dim)?;
        config.softcap = self.model.softcap(self.at)?;
        config.position = self.position(head_dim)?;
        self.set_biases(&mut config);
        self.set_others(&mut config)?;
        Ok(config)
    }

    /// The heads as config.json or the shape of some tensor says.
    fn n_heads(&self, query: Matrix, output: Matrix) -> Result<usize, Error> {
        let said = self.model.heads(self.at)?;
        let axis = |parameter, axis: usize| self.other(parameter)?.shape.get(axis).copied();
        let by_norm = || {
            let head_dim = axis("query_norm.gamma", 0).filter(|&head_dim| head_dim > 0)?;
            Some(query.features.min(output.d_input) / head_dim)
        };
        let shown = || axis("sinks", 0).or(axis("relative_bias", 1)).or_else(by_norm);
        let n_heads = said.or(query.heads).or_else(shown).filter(|&n_heads| n_heads > 0);
        n_heads.ok_or_else(|| self.unknown("the number of heads is", "Model::with_heads"))
    }

    fn n_kv_heads(&self, n_heads: usize, head_dim: usize, value_dim: usize, key: Matrix) -> usize {
        if self.form.order == Order::PerHead && self.pack(Part::Key).parts.len() > 1 {
            return n_heads;
        }
        let both = head_dim + value_dim;
        let n_kv_heads = match self.pack(Part::Key).parts {
            [Part::Key] => key.features / head_dim,
            [Part::Key, Part::Value] => key.features / both,
            _ => key.features.saturating_sub(n_heads * head_dim) / both,
        };
        n_kv_heads.max(1)
    }

    fn position(&self, head_dim: usize) -> Result<Position, Error> {
        let table = self.other("relative_bias").and_then(|table| table.shape.first().copied());
        let position = self.model.position(self.form, self.at, head_dim, table)?;
        position
            .ok_or_else(|| self.unknown("how positions are told apart is", "Model::with_position"))
    }

    fn unknown(&self, what: &'static str, setter: &str) -> Error {
        let remedy = match self.model.kind(self.at) {
            "" => format!("a config.json beside it, or {setter}, says so"),
            kind => format!("model_type {kind:?} does not tell, {setter} does"),
        };
        Error::Unknown {
            prefix: self.at.prefix.to_string(),
            family: self.form.family,
            what,
            remedy,
        }
    }

    /// The smallest set of biases that the family has and that holds all that are there.
    fn set_biases(&self, config: &mut MultiHeadAttentionConfig) {
        let there = [Part::Query, Part::Key, Part::Value, Part::Output].map(|part| {
            let packs = self.form.biases.iter().filter(|pack| pack.parts.contains(&part));
            packs.into_iter().any(|pack| self.tensors.entry(pack.name).is_some())
        });
        let holds =
            |set: &&[bool; 4]| there.iter().zip(*set).all(|(&there, &in_set)| in_set || !there);
        let [query, key, value, output] =
            self.form.bias_sets.iter().find(holds).copied().unwrap_or(there);
        config.bias.query = query;
        config.bias.key = key;
        config.bias.value = value;
        config.bias.output = output;
        config.bias.gate = query;
    }

    fn set_others(&self, config: &mut MultiHeadAttentionConfig) -> Result<(), Error> {
        let there = |parameter| self.other(parameter).is_some();
        if there("query_norm.gamma") || there("key_norm.gamma") {
            config.qk_norm = Some(QkNorm::Rms { epsilon: self.model.norm_epsilon(self.at)? });
        }
        if there("sinks") {
            config.sink = Sink::Learned;
        }
        config.bias_kv = usize::from(there("bias_k") || there("bias_v"));
        if self.pack(Part::Query).parts.contains(&Part::Gate) {
            config.gate = Gate::Elementwise;
        }
        Ok(())
    }

    /// The tensor that holds one of our parameters that are no projection.
    fn other(&self, parameter: &str) -> Option<&Entry> {
        let (name, _) = self.form.others.iter().find(|(_, ours)| *ours == parameter)?;
        self.tensors.entry(name)
    }

    fn pack(&self, part: Part) -> &'static Pack {
        let pack = self.form.weights.iter().find(|pack| pack.parts.contains(&part));
        pack.unwrap_or(&self.form.weights[0])
    }

    fn matrix(&self, part: Part) -> Result<Matrix, Error> {
        let name = self.pack(part).name;
        let missing = || Error::Missing {
            prefix: self.at.prefix.to_string(),
            family: self.form.family,
            names: vec![name.to_string()],
        };
        let shape = &self.tensors.entry(name).ok_or_else(missing)?.shape;
        let axes = match (self.form.axes, part) {
            (Axes::OutIn, _) => vec!["features", "d_input"],
            (Axes::InOut, _) => vec!["d_input", "features"],
            (Axes::Heads, Part::Output) => vec!["heads", "head_dim", "d_output"],
            (Axes::Heads, _) => vec!["d_input", "heads", "head_dim"],
        };
        let fits =
            shape.len() == axes.len() && shape.iter().all(|axis| (1..=LONGEST).contains(axis));
        let matrix = match (self.form.axes, part, shape.as_slice()) {
            (Axes::OutIn, _, &[features, d_input]) | (Axes::InOut, _, &[d_input, features]) => {
                Some(Matrix { d_input, features, heads: None })
            }
            (Axes::Heads, Part::Output, &[heads, width, features]) => {
                Some(Matrix { d_input: heads.saturating_mul(width), features, heads: Some(heads) })
            }
            (Axes::Heads, _, &[d_input, heads, width]) => {
                Some(Matrix { d_input, features: heads.saturating_mul(width), heads: Some(heads) })
            }
            _ => None,
        };
        let name = format!("{}.{name}", self.at.prefix);
        let wrong = Error::Axes { name, axes, longest: LONGEST, actual: shape.clone() };
        matrix.filter(|_| fits).ok_or(wrong)
    }
}

impl Form {
    /// Whether a file can have this form: that of `mha` itself brings its configuration.
    pub(super) fn is_ours(&self) -> bool {
        self.family == Family::Mha
    }
}
