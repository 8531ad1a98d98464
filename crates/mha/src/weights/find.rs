//! Which tensors of a checkpoint are attention layers.

use std::collections::{BTreeMap, BTreeSet};

use mha_files::{Entry, Store};

use super::form::Form;
use super::forms::FORMS;
use super::infer::{Found, Tensors};
use super::model::{Model, Place};
use super::source::Habits;
use super::{Error, Family, Layer};
use crate::{MultiHeadAttentionConfig, Position, RotaryLayout, T5Buckets};

/// The names of a checkpoint, those with slashes in them as if they were dots.
pub(super) struct Names<'a> {
    pub(super) store: &'a Store,
    real: BTreeMap<String, &'a str>,
}

/// The tensors below one prefix.
pub(super) struct Below<'a> {
    names: &'a Names<'a>,
    prefix: &'a str,
}

impl<'a> Names<'a> {
    pub(super) fn new(store: &'a Store) -> Self {
        let real = store.entries().map(|(name, _)| (name.replace('/', "."), name)).collect();
        Self { store, real }
    }

    /// The real name of what lies below a prefix.
    pub(super) fn real(&self, prefix: &str, name: &str) -> Option<&'a str> {
        self.real.get(&join(prefix, name)).copied()
    }

    /// The real names of all that lies below a prefix.
    pub(super) fn below(&self, prefix: &str) -> Vec<&'a str> {
        let start = join(prefix, "");
        let below =
            self.real.range(start.clone()..).take_while(|(name, _)| name.starts_with(&start));
        below.map(|(_, real)| *real).collect()
    }

    /// Every prefix with at least three of query, key, value and output below it, in the order of
    /// their numbers.
    pub(super) fn prefixes(&self) -> Vec<String> {
        let mut prefixes = BTreeSet::new();
        for name in self.real.keys() {
            let stems =
                ENDINGS.iter().chain(FORMS.iter().flat_map(|form| form.weights).map(|p| &p.name));
            for stem in stems {
                let Some(prefix) = name.strip_suffix(stem) else { continue };
                if prefix.is_empty() || prefix.ends_with('.') {
                    prefixes.insert(prefix.trim_end_matches('.').to_string());
                }
            }
        }
        let mut prefixes: Vec<String> = prefixes
            .into_iter()
            .filter(|prefix| self.latent(prefix) || self.best(prefix).1 >= 3)
            .collect();
        // BERT's query, key and value lie in `self`, its output beside it: one layer, not two.
        let parts: BTreeSet<String> = prefixes
            .iter()
            .filter(|prefix| self.is_complete(prefix))
            .flat_map(|prefix| {
                self.best(prefix).0.weights.iter().map(move |p| join(prefix, p.name))
            })
            .collect();
        let is_part = |prefix: &String| {
            let (form, _) = self.best(prefix);
            let there = form.weights.iter().map(|pack| join(prefix, pack.name));
            !self.is_complete(prefix)
                && there.filter(|name| self.real.contains_key(name)).all(|n| parts.contains(&n))
        };
        prefixes.retain(|prefix| self.latent(prefix) || !is_part(prefix));
        prefixes.sort_by_cached_key(|prefix| natural(prefix));
        prefixes
    }

    /// Whether this is DeepSeek's latent attention, whose keys and values come from one small vector.
    fn latent(&self, prefix: &str) -> bool {
        self.real(prefix, ENDINGS[0]).is_some()
    }

    /// Whether all weights of a form are there.
    fn is_complete(&self, prefix: &str) -> bool {
        let (form, _) = self.best(prefix);
        form.weights.iter().all(|pack| self.real(prefix, pack.name).is_some())
    }

    /// The form of which most is there, and how many of its parts are.
    fn best(&self, prefix: &str) -> (&'static Form, usize) {
        let parts = |form: &&Form| -> usize {
            let there = form.weights.iter().filter(|pack| self.real(prefix, pack.name).is_some());
            there.map(|pack| pack.parts.len()).sum()
        };
        let forms = FORMS.iter().filter(|form| !form.is_ours());
        let best = forms.rev().max_by_key(parts).unwrap_or(&FORMS[0]);
        (best, parts(&best))
    }

    /// The layer at a prefix.
    pub(super) fn layer(&self, prefix: &str, model: &Model) -> Result<Layer, Error> {
        let prefix = prefix.replace('/', ".");
        let prefix = prefix.trim_end_matches('.');
        if self.latent(prefix) {
            let what = "keys and values come from a shared latent vector (multi-head latent \
                        attention), which this module does not have";
            return Err(Error::OtherKind { prefix: prefix.to_string(), what });
        }
        let below = Below { names: self, prefix };
        if let Some(config) = self.ours(prefix)? {
            return Ok(Layer::new(prefix, &FORMS[0], config));
        }
        let found = |form| Found { form, at: Place { prefix }, model, tensors: &below };
        // These two differ in nothing that a file shows.
        let other = match model.kind(Place { prefix }) {
            "bloom" => Family::GptNeox,
            _ => Family::Bloom,
        };
        let complete: Vec<&'static Form> = FORMS
            .iter()
            .filter(|form| !form.is_ours() && form.family != other)
            .filter(|form| form.weights.iter().all(|pack| below.entry(pack.name).is_some()))
            .collect();
        // Of two that fit the one with more names says more.
        let fitting = complete.iter().rev().filter(|form| found(form).fits());
        let fitting = fitting.max_by_key(|form| form.weights.len());
        let Some(form) = fitting.or(complete.first()).copied() else {
            return Err(self.incomplete(prefix));
        };
        if let Some(what) = form.refused.iter().find(|name| below.entry(name).is_some()) {
            return Err(Error::NoPlace { family: Family::Mha, what: join(prefix, what) });
        }
        let config = found(form).config()?;
        let at = Place { prefix };
        Ok(Layer {
            habits: Habits { zero_centred: model.zero_centred(at), layout: stored_layout(&config) },
            rule: model.rule(form, at)?,
            shared_table: self.shared_table(form, prefix, model)?,
            ..Layer::new(prefix, form, config)
        })
    }

    /// The table of T5's first block, which the later ones use too.
    fn shared_table(
        &self,
        form: &Form,
        prefix: &str,
        model: &Model,
    ) -> Result<Option<(String, T5Buckets)>, Error> {
        let at = Place { prefix };
        let [(table, _)] = form.others else { return Ok(None) };
        if form.family != Family::T5 || at.is_cross() || self.real(prefix, table).is_some() {
            return Ok(None);
        }
        let Some(layer) = at.layer() else { return Ok(None) };
        let first = prefix.replacen(&format!(".{layer}."), ".0.", 1);
        let Some(name) = self.real(&first, table) else { return Ok(None) };
        let shape = self.store.entry(name).map(|entry| entry.shape.as_slice());
        let Some(&[n_buckets, _]) = shape else { return Ok(None) };
        Ok(Some((name.to_string(), model.buckets(at, n_buckets)?)))
    }

    /// The configuration that a file of ours brings for a layer.
    fn ours(&self, prefix: &str) -> Result<Option<MultiHeadAttentionConfig>, Error> {
        let field = super::config_field(prefix);
        let Some(json) = self.store.metadata().get(&field) else { return Ok(None) };
        match serde_json::from_str(json) {
            Ok(config) => Ok(Some(config)),
            Err(error) => Err(Error::Model {
                field,
                expected: "a configuration of MultiHeadAttention".to_string(),
                actual: error.to_string(),
            }),
        }
    }

    fn incomplete(&self, prefix: &str) -> Error {
        let (form, parts) = self.best(prefix);
        if parts < 3 {
            let there = self.prefixes();
            let there = match there.len() {
                0 => "none".to_string(),
                1..=4 => there.join(", "),
                n => format!("{} and {} more", there[..3].join(", "), n - 3),
            };
            return Error::NoLayer { prefix: prefix.to_string(), there };
        }
        let missing = form.weights.iter().filter(|pack| self.real(prefix, pack.name).is_none());
        let names: Vec<String> = missing.map(|pack| join(prefix, pack.name)).collect();
        Error::Missing { prefix: prefix.to_string(), family: form.family, names }
    }
}

impl Tensors for Below<'_> {
    fn entry(&self, name: &str) -> Option<&Entry> {
        self.names.store.entry(self.names.real(self.prefix, name)?)
    }
}

/// The order of rotary pairs in a file is the one that its model computes with.
fn stored_layout(config: &MultiHeadAttentionConfig) -> Option<RotaryLayout> {
    match &config.position {
        Position::Rotary(rotary) => Some(rotary.layout),
        _ => None,
    }
}

/// Names that no form has and that tell a layer that the module cannot be.
const ENDINGS: [&str; 1] = ["kv_a_proj_with_mqa.weight"];

/// A name below a prefix, which may be empty.
pub(super) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") }
}

/// Orders names with their numbers as numbers: layer 2 before layer 10.
fn natural(name: &str) -> Vec<(u64, String)> {
    let number = |part: &str| part.parse().unwrap_or(u64::MAX);
    name.split('.').map(|part| (number(part), part.to_string())).collect()
}
