//! Attention layers of other libraries' checkpoints, read and written.
//!
//! [`Checkpoint::open`] takes a safetensors file, the index of a sharded one, a PyTorch `.pt` file or a
//! folder of these, and the config.json beside it. [`inspect`](Checkpoint::inspect) says which
//! attention layers there are, [`load`](Checkpoint::load) makes a module of one, and
//! [`save`](Checkpoint::save) writes the file again with changed modules in it. [`save`](save()) writes
//! modules under the names of any [`Family`], [`convert`](Checkpoint::convert) a whole file.
//!
//! - A tensor that a module needs and the file lacks is an error; one that no parameter is made of is
//!   named in the [`Report`]. Nothing keeps random numbers.
//! - What the tensors do not say (heads, rotary positions) a config.json says, or a [`Model`].
//! - A file is not trusted: whatever is wrong with it gives an [`Error`], before anything of the size
//!   that it claims is allocated. Elements that are NaN or infinite are refused.
//! - Numbers are kept: the elements of a tensor that no training changed are written with the bits that
//!   were read, in the type that they had.
//!
//! # Example
//!
//! ```
//! use burn::backend::NdArray;
//! use burn::tensor::Tensor;
//! use mha::weights::{Checkpoint, Family, Model, save};
//! use mha::{MhaInput, MultiHeadAttentionConfig};
//!
//! let device = Default::default();
//! # let path = std::env::temp_dir().join("mha-doc-weights.safetensors");
//! # let trained = MultiHeadAttentionConfig::new(8, 2).init::<NdArray>(&device);
//! # save(&path, Family::PyTorch, &[("decoder.self_attn", &trained)])?;
//! // An `nn.MultiheadAttention` with 2 heads, saved by safetensors.torch.save_file.
//! let checkpoint = Checkpoint::open(&path)?.with_model(Model::default().with_heads(2));
//! println!("{}", checkpoint.inspect());
//! let layer = checkpoint.layer("decoder.self_attn")?;
//! let attention = checkpoint.load::<NdArray>(&layer, &device)?.attention;
//! let tokens = Tensor::ones([1, 3, 8], &device);
//! let context = attention.forward(MhaInput::self_attn(tokens)).context;
//! # assert_eq!(context.dims(), [1, 3, 8]);
//! # Ok::<(), mha::weights::Error>(())
//! ```

mod arrange;
mod error;
mod family;
mod find;
mod form;
mod forms;
mod hides;
mod infer;
mod layer;
mod model;
mod numbers;
mod options;
mod report;
mod rope;
mod source;
mod transfer;
mod write;

use std::fs;
use std::path::Path;

use burn::tensor::{Tensor, backend::Backend};

pub use error::Error;
pub use family::Family;
use find::Names;
pub use layer::Layer;
pub use mha_files::{Array, Dtype, Entry, Store};
pub use model::Model;
pub use report::{Inspected, Inspection, Report, Used};
pub use write::{export, save};

use crate::MultiHeadAttention;

/// A file of tensors, or several that an index names, and what its model says besides.
///
/// # Example
///
/// ```
/// use mha::weights::Checkpoint;
///
/// # fn main() {
/// match Checkpoint::open("all-MiniLM-L6-v2") {
///     Ok(checkpoint) => println!("{}", checkpoint.inspect()),
///     Err(error) => println!("{error}"),
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Checkpoint {
    store: Store,
    model: Model,
}

/// A module and what became of its layer's tensors.
///
/// # Example
///
/// ```
/// use burn::tensor::backend::Backend;
/// use mha::weights::{Checkpoint, Error, Loaded};
///
/// fn first<B: Backend>(file: &Checkpoint, device: &B::Device) -> Result<Loaded<B>, Error> {
///     let loaded = file.load::<B>(&file.layer("encoder.layer.0.attention")?, device)?;
///     println!("{}", loaded.report);
///     Ok(loaded)
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded<B: Backend> {
    /// The module.
    pub attention: MultiHeadAttention<B>,
    /// What was used and what not.
    pub report: Report,
}

impl Checkpoint {
    /// Opens a safetensors file, an index of several (`*.safetensors.index.json`), a PyTorch file
    /// (`.pt`, `.pth`, `.bin`), or a folder that has one of these, and reads the config.json in the same
    /// folder, or Meta's params.json, if there is one. No tensor is read yet.
    ///
    /// # Errors
    ///
    /// When the file is damaged or none of these, or the config.json is not JSON.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let store = Store::open(path)?;
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
        let said =
            ["config.json", "params.json"].iter().find_map(|name| read_model(&folder.join(name)));
        Ok(Self { store, model: said.transpose()?.unwrap_or_default() })
    }

    /// A checkpoint of what is open already.
    pub fn new(store: Store, model: Model) -> Self {
        Self { store, model }
    }

    /// Says what config.json would, or something else than it does.
    pub fn with_model(mut self, model: Model) -> Self {
        self.model = model;
        self
    }

    /// What the model says besides its tensors.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The tensors.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// All attention layers: what each is, what it would load where, or why it cannot be loaded. Reads
    /// no tensor.
    pub fn inspect(&self) -> Inspection {
        let names = Names::new(&self.store);
        let inspected = |prefix: String| {
            let layer = names.layer(&prefix, &self.model);
            let report = layer.and_then(|layer| Ok((report(&layer, &names)?, layer)));
            match report {
                Ok((report, layer)) => Inspected { prefix, layer: Ok(layer), report },
                Err(error) => {
                    let report = Report { used: Vec::new(), ignored: Vec::new() };
                    Inspected { prefix, layer: Err(error), report }
                }
            }
        };
        let layers: Vec<Inspected> = names.prefixes().into_iter().map(inspected).collect();
        let others = self.others(&layers);
        Inspection { layers, others }
    }

    /// The tensors that no layer uses or has below it.
    fn others(&self, layers: &[Inspected]) -> Vec<String> {
        let mut seen = std::collections::BTreeSet::new();
        for Inspected { report, .. } in layers {
            seen.extend(report.used.iter().map(|used| used.tensor.as_str()));
            seen.extend(report.ignored.iter().map(String::as_str));
        }
        let names = self.store.entries().map(|(name, _)| name);
        names.filter(|name| !seen.contains(name)).map(str::to_string).collect()
    }

    /// The attention layer whose tensors' names begin with `prefix`: `encoder.layer.0.attention`, say.
    ///
    /// # Errors
    ///
    /// When there is none, it lacks a weight, or heads or positions are neither in the file nor said by
    /// the [`Model`].
    pub fn layer(&self, prefix: &str) -> Result<Layer, Error> {
        Names::new(&self.store).layer(prefix, &self.model)
    }

    /// The module that a layer is, in the float type of the device.
    ///
    /// # Errors
    ///
    /// When a tensor is missing, has another shape or type than the layer asks for, or an element that
    /// is not finite, or becomes so in the type of the device.
    pub fn load<B: Backend>(&self, layer: &Layer, device: &B::Device) -> Result<Loaded<B>, Error> {
        let names = Names::new(&self.store);
        let parameters = layer.read(&names)?;
        let attention = transfer::module(layer.prefix(), layer.config(), &parameters, device)?;
        Ok(Loaded { attention, report: report(layer, &names)? })
    }

    /// Any tensor of the file as it is, not transposed, in the float type of the device: what a model
    /// has besides attention. (`Linear` weights of PyTorch are `[out, in]`, Burn's `[in, out]`.)
    ///
    /// # Errors
    ///
    /// When it is missing, has another shape or no floats, or an element that is not finite.
    pub fn tensor<B: Backend, const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        device: &B::Device,
    ) -> Result<Tensor<B, D>, Error> {
        if let Some(entry) = self.store.entry(name) {
            numbers::check_dtype(name, entry.dtype)?;
            if entry.shape != shape {
                return Err(Error::Shape {
                    name: name.to_string(),
                    axes: vec!["axis"; D],
                    expected: shape.to_vec(),
                    actual: entry.shape.clone(),
                });
            }
        }
        transfer::tensor(name, &layer::read_finite(&self.store, name)?, device)
    }
}

/// A config.json, if it is there.
fn read_model(path: &Path) -> Option<Result<Model, Error>> {
    // Longer than any: the longest lists of numbers and words take some hundred thousand bytes.
    const LONGEST: u64 = 16 << 20;
    let length = fs::metadata(path).ok()?.len();
    if length > LONGEST {
        return Some(Err(Error::Model {
            field: "the file".to_string(),
            expected: format!("at most {LONGEST} bytes"),
            actual: format!("{length}"),
        }));
    }
    let unreadable = |error: std::io::Error| Error::Model {
        field: "the file".to_string(),
        expected: "text".to_string(),
        actual: error.to_string(),
    };
    Some(fs::read_to_string(path).map_err(unreadable).and_then(|text| Model::from_json(&text)))
}

/// What a layer uses of what lies below its prefix.
fn report(layer: &Layer, names: &Names<'_>) -> Result<Report, Error> {
    let used: Vec<Used> = layer
        .checked(names)?
        .into_iter()
        .map(|(name, source)| Used {
            tensor: name.to_string(),
            shape: source.shape.clone(),
            dtype: names.store.entry(name).map_or(String::new(), |entry| entry.dtype.to_string()),
            parameters: source.pieces.iter().map(|piece| piece.parameter).collect(),
        })
        .collect();
    let is_used = |name: &&str| used.iter().any(|used| used.tensor == *name);
    let below = names.below(layer.prefix()).into_iter();
    let ignored = below.filter(|name| !is_used(name)).map(str::to_string).collect();
    Ok(Report { used, ignored })
}

/// Where a file of ours has a layer's configuration.
fn config_field(prefix: &str) -> String {
    format!("mha.config {prefix}")
}
