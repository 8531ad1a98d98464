//! Tensor files, checked: what is in a file, and its tensors one at a time.
//!
//! [`Store::open`] reads the directory of a file and no tensor; [`Store::read`] reads one tensor.
//! [`write()`] makes a safetensors file, tensor by tensor. A model that is larger than the memory can
//! pass through.
//!
//! # Formats
//!
//! - safetensors, the file as its format says
//!   (<https://github.com/huggingface/safetensors#format>): header bounded, names unique, every byte of
//!   the data in one tensor.
//! - Shards named by an index, `*.index.json`, of either format. The index decides what the model
//!   holds: a tensor of a shard that the index does not name, or names in another shard, is left out,
//!   as it is not part of the model.
//! - PyTorch's `.pt`, `.pth` and `.bin`, as `torch.save` has written them since PyTorch 1.6 (a zip
//!   archive). The pickle in it is read as data and nothing of it is run: dicts, lists and tuples of
//!   tensors, whatever their depth, become names joined by `.`; an object of any other class is left
//!   out with all that it holds. Views come back in row-major order.
//!
//! # What a file cannot do
//!
//! A file that is damaged or made to harm gives an [`Error`]: the tensor's name, what was expected and
//! what came. It cannot run code, open another file (an index names files of its own folder only), make
//! a function panic, or have it allocate what the file does not hold: opening needs memory for the
//! directory of the file (a few times its bytes; of a forged pickle up to a hundred times, and below
//! 1 GB), reading at most twice the bytes that the tensor spans in the file.
//!
//! Neither format has a checksum to rely on: bytes changed inside a tensor are not noticed. (PyTorch
//! can be told to write no valid CRC-32, and does not verify them.)
//!
//! # Example
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use mha_files::{Array, Dtype, Entry, Store};
//!
//! let path = std::env::temp_dir().join(format!("mha-files-{}.safetensors", std::process::id()));
//! let entry = Entry { dtype: Dtype::F32, shape: vec![2, 1] };
//! let bytes: Vec<u8> = [1.5_f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
//! mha_files::write(&path, &[("weight".to_owned(), entry)], &BTreeMap::new(), |_name| {
//!     Array::new(Dtype::F32, vec![2, 1], bytes.clone())
//! })?;
//!
//! let store = Store::open(&path)?;
//! assert_eq!(store.entry("weight").unwrap().shape, [2, 1]);
//! assert_eq!(store.read("weight")?.to_f64(), Some(vec![1.5, -2.0]));
//! # std::fs::remove_file(&path).unwrap();
//! # Ok::<(), mha_files::Error>(())
//! ```

mod array;
mod error;
mod folder;
mod header;
mod index;
mod layout;
mod pytorch;
mod source;
mod store;
mod unique;
mod write;

pub use array::{Array, Entry};
pub use error::Error;
pub use safetensors::Dtype;
pub use store::Store;
pub use write::write;
