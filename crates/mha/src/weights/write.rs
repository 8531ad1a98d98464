//! Modules and whole checkpoints, written.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::backend::Backend;
use mha_files::{Array, Entry};

use super::find::{Names, join};
use super::forms::FORMS;
use super::layer::{Layer, Parameters, read_finite};
use super::numbers::{cast, shifted};
use super::source::Source;
use super::{Checkpoint, Error, Family, config_field, options, transfer};
use crate::{MultiHeadAttention, MultiHeadAttentionConfig};

/// Writes modules to a safetensors file, each under a prefix, with the names and the layout of
/// `family`: what PyTorch and `transformers` read with `safetensors`.
///
/// Rotary pairs go into the order that the family has. Options that are no parameters (heads, scale,
/// positions) are in the file for [`Family::Mha`] alone; other libraries take them from a config.json.
///
/// # Errors
///
/// When the family has no place for a parameter, or the file cannot be written.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use mha::weights::{Checkpoint, Family, save};
/// use mha::{MultiHeadAttentionConfig, Rotary};
///
/// let path = std::env::temp_dir().join("mha-doc-save.safetensors");
/// let config = MultiHeadAttentionConfig::new(8, 2).with_position(Rotary::half(1e4));
/// let attention = config.init::<NdArray>(&Default::default());
/// save(&path, Family::Mha, &[("block.attention", &attention)])?;
///
/// let layer = Checkpoint::open(&path)?.layer("block.attention")?;
/// assert_eq!(layer.config().position, config.position);
/// # Ok::<(), mha::weights::Error>(())
/// ```
pub fn save<B: Backend>(
    path: impl AsRef<Path>,
    family: Family,
    modules: &[(&str, &MultiHeadAttention<B>)],
) -> Result<(), Error> {
    let (mut tensors, mut metadata) = (BTreeMap::new(), BTreeMap::new());
    for &(prefix, module) in modules {
        tensors.extend(export(module, family, prefix)?);
        if family == Family::Mha {
            add_config(&mut metadata, prefix, &transfer::config_of(module))?;
        }
    }
    let entry = |array: &Array| Entry { dtype: array.dtype(), shape: array.shape().to_vec() };
    let entries: Vec<_> =
        tensors.iter().map(|(name, array)| (name.clone(), entry(array))).collect();
    mha_files::write(path.as_ref(), &entries, &metadata, |name| Ok(tensors[name].clone()))
}

/// The tensors of a module as `family` has them, each under `prefix`, in the module's float type: what
/// [`save`] writes.
///
/// # Errors
///
/// When the family has no place for a parameter.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
/// use mha::MultiHeadAttentionConfig;
/// use mha::weights::{Family, export};
///
/// let attention = MultiHeadAttentionConfig::new(8, 2).init::<NdArray>(&Default::default());
/// let tensors = export(&attention, Family::Gpt2, "h.0.attn")?;
/// assert_eq!(tensors[0].0, "h.0.attn.c_attn.weight");
/// assert_eq!(tensors[0].1.shape(), [8, 24]);
/// # Ok::<(), mha::weights::Error>(())
/// ```
pub fn export<B: Backend>(
    module: &MultiHeadAttention<B>,
    family: Family,
    prefix: &str,
) -> Result<Vec<(String, Array)>, Error> {
    let layer = layer_of(family, &transfer::config_of(module), prefix)?;
    let written = layer.written(&transfer::parameters(module)?)?.into_iter();
    Ok(written.map(|(source, array)| (join(prefix, source.name), array)).collect())
}

/// A file of ours brings the configuration of each layer.
fn add_config(
    metadata: &mut BTreeMap<String, String>,
    prefix: &str,
    config: &MultiHeadAttentionConfig,
) -> Result<(), Error> {
    let field = config_field(prefix);
    let json = serde_json::to_string(config).map_err(|error| Error::Model {
        field: field.clone(),
        expected: "a configuration that JSON can hold".to_string(),
        actual: error.to_string(),
    })?;
    metadata.insert(field, json);
    Ok(())
}

/// A layer as `family` has it: in the first of its forms that has a place for everything.
fn layer_of(
    family: Family,
    config: &MultiHeadAttentionConfig,
    prefix: &str,
) -> Result<Layer, Error> {
    let mut refused = Error::NoPlace { family, what: "anything".to_string() };
    for form in FORMS.iter().filter(|form| form.family == family) {
        let layer = Layer::new(prefix, form, config.clone());
        match options::check(form, config).and_then(|()| layer.sources()) {
            Ok(_) => return Ok(layer),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

impl Checkpoint {
    /// The tensors of a layer with the numbers of `module`, named and typed as in the file. An element
    /// that is what loading it gave has the bits that it has in the file.
    ///
    /// # Errors
    ///
    /// When the module has other shapes than the layer, or the file changed meanwhile.
    pub fn export<B: Backend>(
        &self,
        layer: &Layer,
        module: &MultiHeadAttention<B>,
    ) -> Result<Vec<(String, Array)>, Error> {
        let names = Names::new(&self.store);
        let parameters = transfer::parameters(module)?;
        let mut exported = Vec::new();
        for (name, source) in layer.checked(&names)? {
            fits(&source, &parameters)?;
            let now = source.raw(&parameters, layer.family())?;
            let before = read_finite(&self.store, name)?;
            exported.push((name.to_string(), unchanged_kept(&source, &before, &now)?));
        }
        Ok(exported)
    }

    /// Writes the whole file again, as safetensors, with the numbers of these modules in place of those
    /// of their layers; all other tensors and the metadata as they are.
    ///
    /// # Errors
    ///
    /// As [`export`](Self::export), and when the file cannot be written.
    ///
    /// # Example
    ///
    /// ```
    /// use burn::backend::NdArray;
    /// use mha::MultiHeadAttentionConfig;
    /// use mha::weights::{Checkpoint, Family, save};
    ///
    /// let folder = std::env::temp_dir();
    /// let [path, tuned] = ["mha-doc-file.safetensors", "mha-doc-tuned.safetensors"]
    ///     .map(|name| folder.join(name));
    /// let device = Default::default();
    /// let attention = MultiHeadAttentionConfig::new(8, 2).init::<NdArray>(&device);
    /// save(&path, Family::Mha, &[("encoder", &attention)])?;
    ///
    /// let checkpoint = Checkpoint::open(&path)?;
    /// let layer = checkpoint.layer("encoder")?;
    /// let attention = checkpoint.load::<NdArray>(&layer, &device)?.attention; // and trained
    /// checkpoint.save(&tuned, &[(&layer, &attention)])?;
    /// assert_eq!(std::fs::read(path).unwrap(), std::fs::read(tuned).unwrap());
    /// # Ok::<(), mha::weights::Error>(())
    /// ```
    pub fn save<B: Backend>(
        &self,
        path: impl AsRef<Path>,
        modules: &[(&Layer, &MultiHeadAttention<B>)],
    ) -> Result<(), Error> {
        let mut changed = BTreeMap::new();
        for (layer, module) in modules {
            changed.extend(self.export(layer, module)?);
        }
        let entries: Vec<_> =
            self.store.entries().map(|(name, entry)| (name.to_string(), entry.clone())).collect();
        mha_files::write(path.as_ref(), &entries, self.store.metadata(), |name| {
            match changed.get(name) {
                Some(array) => Ok(array.clone()),
                None => Ok(self.store.read(name)?),
            }
        })
    }

    /// Writes the whole file again, as safetensors, with every attention layer under the names and in
    /// the layout of `family`, below the same prefixes; other tensors as they are. One layer is in
    /// memory at a time; `progress` is told each tensor's name and how many bytes it has, as it is
    /// written. Masks, and the table that T5's later layers borrow, belong to calls and do not go along.
    ///
    /// # Errors
    ///
    /// When a layer cannot be loaded, or the family has no place for a parameter of one.
    pub fn convert(
        &self,
        path: impl AsRef<Path>,
        family: Family,
        mut progress: impl FnMut(&str, usize),
    ) -> Result<(), Error> {
        let names = Names::new(&self.store);
        let inspection = self.inspect();
        let mut plan = Plan::default();
        for (name, entry) in self.store.entries() {
            plan.tensors.insert(name.to_string(), (entry.clone(), None));
        }
        plan.metadata = self.store.metadata().clone();
        for inspected in inspection.layers {
            let from = inspected.layer?;
            for (name, _) in from.checked(&names)? {
                plan.tensors.remove(name);
            }
            plan.metadata.remove(&config_field(from.prefix()));
            let mut to = layer_of(family, from.config(), from.prefix())?;
            if family == from.family() {
                // The model stays the same kind, and reads its norms as before.
                to.habits = from.habits;
            }
            if family == Family::Mha {
                add_config(&mut plan.metadata, to.prefix(), to.config())?;
            }
            plan.add(&from, &to, &names)?;
            plan.layers.push((from, to));
        }
        let entries: Vec<_> =
            plan.tensors.iter().map(|(name, (entry, _))| (name.clone(), entry.clone())).collect();
        let mut held: Option<(usize, BTreeMap<String, Array>)> = None;
        mha_files::write(path.as_ref(), &entries, &plan.metadata, |name| {
            let array = match plan.tensors[name].1 {
                None => self.store.read(name)?,
                Some(layer) => {
                    if held.as_ref().is_none_or(|(of, _)| *of != layer) {
                        held = Some((layer, plan.layer(layer, &names)?));
                    }
                    let arrays = held.as_mut().map(|(_, arrays)| arrays);
                    let there = arrays.and_then(|arrays| arrays.get(name).cloned());
                    there.ok_or_else(|| Error::NoPlace { family, what: name.to_string() })?
                }
            };
            progress(name, array.bytes().len());
            Ok(array)
        })
    }
}

/// What a converted file will have.
#[derive(Default)]
struct Plan {
    /// Each tensor, and the layer that it belongs to, if it does.
    tensors: BTreeMap<String, (Entry, Option<usize>)>,
    metadata: BTreeMap<String, String>,
    /// Each layer as it was and as it will be.
    layers: Vec<(Layer, Layer)>,
}

impl Plan {
    fn add(&mut self, from: &Layer, to: &Layer, names: &Names<'_>) -> Result<(), Error> {
        let dtypes = from.dtypes(names)?;
        for source in to.sources()? {
            let name = join(to.prefix(), source.name);
            let first = dtypes.get(source.pieces[0].parameter);
            let dtype =
                *first.ok_or_else(|| Error::NoPlace { family: to.family(), what: name.clone() })?;
            let entry = Entry { dtype, shape: source.shape };
            if self.tensors.insert(name.clone(), (entry, Some(self.layers.len()))).is_some() {
                let what = format!("{name}, a name that another tensor has");
                return Err(Error::NoPlace { family: to.family(), what });
            }
        }
        Ok(())
    }

    fn layer(&self, n: usize, names: &Names<'_>) -> Result<BTreeMap<String, Array>, Error> {
        let (from, to) = &self.layers[n];
        let written = to.written(&from.read(names)?)?.into_iter();
        Ok(written.map(|(source, array)| (join(to.prefix(), source.name), array)).collect())
    }
}

/// `now` in the type of `before`, with the bits of `before` wherever reading it gives `now`.
fn unchanged_kept(source: &Source, before: &Array, now: &Array) -> Result<Array, Error> {
    let read = if source.shift == 0.0 { before.clone() } else { shifted(before, source.shift)? };
    let read = cast(&read, now.dtype())?;
    let back = if source.shift == 0.0 { now.clone() } else { shifted(now, -source.shift)? };
    let dtype = before.dtype();
    let mut bytes = cast(&back, dtype)?.into_bytes();
    let (size, size_now) = (dtype.bitsize() / 8, now.dtype().bitsize() / 8);
    let pairs = read.bytes().chunks_exact(size_now).zip(now.bytes().chunks_exact(size_now));
    let stored = before.bytes().chunks_exact(size).zip(bytes.chunks_exact_mut(size));
    for ((read, now), (before, out)) in pairs.zip(stored) {
        if read == now {
            out.copy_from_slice(before);
        }
    }
    Ok(Array::new(dtype, before.shape().to_vec(), bytes)?)
}

/// Whether a module's parameters have the shapes of the layer's.
fn fits(source: &Source, parameters: &Parameters) -> Result<(), Error> {
    for piece in &source.pieces {
        let Some(ours) = parameters.get(piece.parameter) else { continue };
        if ours.shape() != piece.shape {
            return Err(Error::Shape {
                name: piece.parameter.to_string(),
                axes: vec!["axis"; piece.shape.len()],
                expected: piece.shape.clone(),
                actual: ours.shape().to_vec(),
            });
        }
    }
    Ok(())
}
