//! The tensors of a file, or of the shards that an index names.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::error::{Problem, shorten};
use crate::layout::Tensor;
use crate::source::Source;
use crate::{Array, Entry, Error, folder, header, index, pytorch};

/// What one file has.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) tensors: BTreeMap<String, Tensor>,
    /// Tensors of kinds that are not read (sparse, quantized), and what they are.
    pub(crate) unread: BTreeMap<String, String>,
    pub(crate) metadata: BTreeMap<String, String>,
}

/// The tensors of a file, or of the shards of an index. Opening reads no tensor; any thread may read.
///
/// # Example
///
/// ```
/// use mha_files::{Dtype, Store};
///
/// let mut file = Vec::new();
/// let header = br#"{"bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
/// file.extend((header.len() as u64).to_le_bytes());
/// file.extend(header);
/// file.extend(0.5_f32.to_le_bytes());
///
/// let store = Store::from_bytes(file)?;
/// let (name, entry) = store.entries().next().unwrap();
/// assert_eq!((name, entry.dtype), ("bias", Dtype::F32));
/// assert_eq!(store.read("bias")?.to_f64(), Some(vec![0.5]));
/// # Ok::<(), mha_files::Error>(())
/// ```
pub struct Store {
    /// For messages about no tensor in particular.
    name: String,
    sources: Vec<Source>,
    tensors: BTreeMap<String, (usize, Tensor)>,
    unread: BTreeMap<String, String>,
    metadata: BTreeMap<String, String>,
}

impl Store {
    /// Opens a safetensors file, a PyTorch file, an index of shards (`*.index.json`), or a folder that
    /// has one of them. The first bytes say which format a file has, not its name.
    ///
    /// In a folder the first of these names counts: `model.safetensors`,
    /// `model.safetensors.index.json`, `pytorch_model.bin`, `pytorch_model.bin.index.json`; then the
    /// only `*.safetensors`, the only `*.index.json`, the only `*.pt`, `*.pth` or `*.bin`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is none of these, or contradicts itself.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let found;
        let path = if path.is_dir() {
            found = folder::find(path)?;
            &found
        } else {
            path
        };
        if path.to_str().is_some_and(|path| path.ends_with(".index.json")) {
            return index::open(path);
        }
        Self::from_source(Source::open(path)?)
    }

    /// Opens a safetensors file or a PyTorch file that is in memory.
    ///
    /// # Errors
    ///
    /// When it is neither, or contradicts itself.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        Self::from_source(Source::from_bytes(bytes))
    }

    fn from_source(source: Source) -> Result<Self, Error> {
        let Contents { tensors, unread, metadata } = contents(&source)?;
        let tensors = tensors.into_iter().map(|(name, tensor)| (name, (0, tensor))).collect();
        let name = source.name().to_owned();
        Ok(Self { name, sources: vec![source], tensors, unread, metadata })
    }

    /// A store of shards; each tensor goes with the index of its shard.
    pub(crate) fn from_shards(
        name: String,
        sources: Vec<Source>,
        tensors: BTreeMap<String, (usize, Tensor)>,
        unread: BTreeMap<String, String>,
        metadata: BTreeMap<String, String>,
    ) -> Self {
        Self { name, sources, tensors, unread, metadata }
    }

    /// The tensors and what the file says about them, sorted by name.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.tensors.iter().map(|(name, (_, tensor))| (name.as_str(), &tensor.entry))
    }

    /// What the file says about one tensor.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.tensors.get(name).map(|(_, tensor)| &tensor.entry)
    }

    /// Reads one tensor, and nothing else of the file.
    ///
    /// # Errors
    ///
    /// When there is no such tensor, it is of a kind that is not read (sparse or quantized, elements of
    /// less than a byte), the file is shorter than it was, or memory is.
    pub fn read(&self, name: &str) -> Result<Array, Error> {
        if let Some((source, tensor)) = self.tensors.get(name) {
            return tensor.read(name, &self.sources[*source]);
        }
        if let Some(kind) = self.unread.get(name) {
            return Err(Problem::new("a dense tensor", kind).of_tensor(&self.name, name));
        }
        let (file, tensor) = (shorten(&self.name), shorten(name));
        Err(Error::NotFound { file, tensor, count: self.tensors.len() })
    }

    /// What a safetensors file says about itself (`__metadata__`); of shards, what all of them say.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({}, {} tensors)", self.name, self.tensors.len())
    }
}

/// What a file has, by the format that its first bytes show.
pub(crate) fn contents(source: &Source) -> Result<Contents, Error> {
    let start = source.read(0, source.len().min(512) as usize)?;
    // The header of safetensors follows 8 bytes of length: with a length that spells a zip's mark it
    // is still one.
    let json = start.get(header::LENGTH as usize) == Some(&b'{');
    if start.starts_with(b"PK") && !json {
        return pytorch::open(source);
    }
    if !json && let Some(kind) = pytorch::old(&start) {
        let expected = "a zip archive, as torch.save writes since PyTorch 1.6";
        let actual = format_args!("{kind}: load it with PyTorch and save it again");
        return Err(source.refuse(Problem::new(expected, actual)));
    }
    header::open(source)
}
