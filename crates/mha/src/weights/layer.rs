//! One attention layer of a checkpoint: what it is, not yet its numbers.

use std::collections::BTreeMap;

use burn::tensor::TensorData;
use burn::tensor::backend::Backend;
use mha_files::{Array, Dtype, Store};

use super::find::Names;
use super::form::Form;
use super::numbers::{self, cast, check_finite, shifted};
use super::source::{Habits, Source, sources};
use super::{Error, Family, arrange};
use crate::{Mask, MultiHeadAttentionConfig, Rule, T5Buckets};

/// An attention layer of a [`Checkpoint`](super::Checkpoint): whose names it has, and the module that
/// it would be.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use mha::MultiHeadAttentionConfig;
/// use mha::weights::{Checkpoint, Family, Model, save};
///
/// let path = std::env::temp_dir().join("mha-doc-layer.safetensors");
/// let attention = MultiHeadAttentionConfig::new(8, 2).init::<NdArray>(&Default::default());
/// save(&path, Family::PyTorch, &[("encoder", &attention)]).unwrap();
///
/// let checkpoint = Checkpoint::open(&path).unwrap().with_model(Model::default().with_heads(2));
/// let layer = checkpoint.layer("encoder").unwrap();
/// assert_eq!((layer.family(), layer.config().d_model), (Family::PyTorch, 8));
/// ```
#[derive(Debug, Clone)]
pub struct Layer {
    pub(super) prefix: String,
    pub(super) form: &'static Form,
    pub(super) config: MultiHeadAttentionConfig,
    pub(super) habits: Habits,
    pub(super) rule: Option<Rule>,
    pub(super) shared_table: Option<(String, T5Buckets)>,
}

/// Our parameters by their paths in the module, each in our shape.
pub(super) type Parameters = BTreeMap<&'static str, Array>;

impl Layer {
    /// A layer of which nothing is known but its parameters.
    pub(super) fn new(prefix: &str, form: &'static Form, config: MultiHeadAttentionConfig) -> Self {
        let prefix = prefix.to_string();
        let habits = Habits { zero_centred: false, layout: form.rotary };
        let (rule, shared_table) = (None, None);
        Self { prefix, form, config, habits, rule, shared_table }
    }

    /// What its tensors' names begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whose names and layout it has.
    pub fn family(&self) -> Family {
        self.form.family
    }

    /// The configuration of the module that it would be. Its dropout is that which the model was
    /// trained with, and acts in training alone.
    pub fn config(&self) -> &MultiHeadAttentionConfig {
        &self.config
    }

    /// Loads it as a module of another configuration: with another dropout, a sink that has no
    /// parameter, or the other [`RotaryLayout`](crate::RotaryLayout), for which query and key weights
    /// are then permuted.
    pub fn with_config(mut self, config: MultiHeadAttentionConfig) -> Self {
        self.config = config;
        self
    }

    /// What the model's own calls of this layer hide besides padding: later tokens in a decoder, those
    /// beyond a window. It belongs to the call, not to the module: `input.mask(layer.mask())`.
    pub fn mask<B: Backend>(&self) -> Mask<B> {
        self.rule.iter().cloned().collect()
    }

    /// The tensor that has the table of T5's first block, for a layer of a later block, which uses it
    /// too, and the table's buckets. It belongs to the call: `input.t5(buckets, table)`.
    pub fn shared_table(&self) -> Option<(&str, T5Buckets)> {
        self.shared_table.as_ref().map(|(name, buckets)| (name.as_str(), *buckets))
    }

    pub(super) fn rule(&self) -> Option<&Rule> {
        self.rule.as_ref()
    }

    /// Its tensors.
    pub(super) fn sources(&self) -> Result<Vec<Source>, Error> {
        sources(self.form, &self.config, self.habits, &self.prefix)
    }

    /// Its tensors with their real names, each there and of the right shape and type.
    pub(super) fn checked<'a>(&self, names: &Names<'a>) -> Result<Vec<(&'a str, Source)>, Error> {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for source in self.sources()? {
            match names.real(&self.prefix, source.name) {
                Some(real) => found.push((real, source)),
                None => missing.push(super::find::join(&self.prefix, source.name)),
            }
        }
        if !missing.is_empty() {
            let (prefix, family) = (self.prefix.clone(), self.form.family);
            return Err(Error::Missing { prefix, family, names: missing });
        }
        for (name, source) in &found {
            let Some(entry) = names.store.entry(name) else { continue };
            if entry.shape != source.shape {
                return Err(Error::Shape {
                    name: name.to_string(),
                    axes: source.axes.clone(),
                    expected: source.shape.clone(),
                    actual: entry.shape.clone(),
                });
            }
            numbers::check_dtype(name, entry.dtype)?;
        }
        Ok(found)
    }

    /// Its parameters, in the file's types.
    pub(super) fn read(&self, names: &Names<'_>) -> Result<Parameters, Error> {
        let mut parameters = Parameters::new();
        for (name, source) in self.checked(names)? {
            let stored = read_finite(names.store, name)?;
            for piece in &source.pieces {
                let size = stored.bytes().len() / stored.shape().iter().product::<usize>().max(1);
                let bytes = arrange::pick(stored.bytes(), size, &source, piece);
                let ours = Array::new(stored.dtype(), piece.shape.clone(), bytes)?;
                let ours = if source.shift == 0.0 { ours } else { shifted(&ours, source.shift)? };
                parameters.insert(piece.parameter, ours);
            }
        }
        Ok(parameters)
    }

    /// The types that its parameters have in the file.
    pub(super) fn dtypes(&self, names: &Names<'_>) -> Result<BTreeMap<&'static str, Dtype>, Error> {
        let mut dtypes = BTreeMap::new();
        for (name, source) in self.checked(names)? {
            let Some(entry) = names.store.entry(name) else { continue };
            // A factor that is stored less 1 is added up in f32.
            let dtype = match entry.dtype {
                Dtype::F16 | Dtype::BF16 if source.shift != 0.0 => Dtype::F32,
                dtype => dtype,
            };
            dtypes.extend(source.pieces.iter().map(|piece| (piece.parameter, dtype)));
        }
        Ok(dtypes)
    }

    /// The tensors that hold `parameters`, named below the prefix.
    pub(super) fn written(&self, parameters: &Parameters) -> Result<Vec<(Source, Array)>, Error> {
        let mut written = Vec::new();
        for source in self.sources()? {
            let array = source.raw(parameters, self.form.family)?;
            let array = if source.shift == 0.0 { array } else { shifted(&array, -source.shift)? };
            written.push((source, array));
        }
        Ok(written)
    }
}

impl Source {
    /// The tensor that holds `parameters`, before what is added on reading is taken away.
    pub(super) fn raw(&self, parameters: &Parameters, family: Family) -> Result<Array, Error> {
        let part = |parameter: &str| {
            let what = format!("{} without {parameter}", self.name);
            parameters.get(parameter).ok_or(Error::NoPlace { family, what })
        };
        // The parts of one tensor have one type, that of the first.
        let dtype = part(self.pieces[0].parameter)?.dtype();
        let size = dtype.bitsize() / 8;
        let mut bytes = vec![0; self.shape.iter().product::<usize>() * size];
        for piece in &self.pieces {
            let ours = part(piece.parameter)?;
            let ours = cast(ours, dtype)?;
            arrange::place(&mut bytes, ours.bytes(), size, self, piece);
        }
        Ok(Array::new(dtype, self.shape.clone(), bytes)?)
    }
}

/// A tensor whose elements are all finite.
pub(super) fn read_finite(store: &Store, name: &str) -> Result<Array, Error> {
    let array = store.read(name)?;
    check_finite(name, &array)?;
    Ok(array)
}

/// A parameter as Burn takes it.
pub(super) fn to_data(array: &Array) -> Result<TensorData, Error> {
    let dtype = numbers::burn_dtype(array.dtype());
    let wrong = || numbers::wrong_dtype("parameter", array.dtype());
    let bytes = burn::tensor::Bytes::from_bytes_vec(array.bytes().to_vec());
    Ok(TensorData::from_bytes(bytes, array.shape().to_vec(), dtype.ok_or_else(wrong)?))
}
