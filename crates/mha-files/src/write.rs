//! Safetensors files, written tensor by tensor.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use safetensors::tensor::TensorInfo;

use crate::error::{Problem, shorten};
use crate::header::{LENGTH, LONGEST, METADATA};
use crate::{Array, Entry, Error};

/// Writes a safetensors file: `read` gives each tensor when its turn comes, and only one is in memory.
///
/// The file takes its name when it is complete, in place of one that had the name before; until then
/// it lies beside it under a name that ends in `.tmp`, and is removed when something fails.
///
/// Tensors lie in the order that Hugging Face's library gives them (larger elements first, then by
/// name), and the header is spelled as it does: a file of that library comes back the same, byte for
/// byte, as long as its metadata has at most one pair (its order is not fixed there, and sorted here).
///
/// # Errors
///
/// When `read` does, or gives another type or shape than `tensors` promised; when a name comes twice;
/// when the file cannot be written.
///
/// # Example
///
/// ```
/// use std::collections::BTreeMap;
///
/// use mha_files::{Array, Dtype, Entry, Store};
///
/// let path = std::env::temp_dir().join(format!("mha-files-write-{}", std::process::id()));
/// let tensors = [("bias".to_owned(), Entry { dtype: Dtype::U8, shape: vec![2] })];
/// let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
/// mha_files::write(&path, &tensors, &metadata, |_| Array::new(Dtype::U8, vec![2], vec![7, 8]))?;
/// assert_eq!(Store::open(&path)?.read("bias")?.bytes(), [7, 8]);
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), mha_files::Error>(())
/// ```
pub fn write<E: From<Error>>(
    path: &Path,
    tensors: &[(String, Entry)],
    metadata: &BTreeMap<String, String>,
    mut read: impl FnMut(&str) -> Result<Array, E>,
) -> Result<(), E> {
    let file = path.display().to_string();
    let mut order: Vec<(&str, &Entry)> = tensors.iter().map(|(name, e)| (&**name, e)).collect();
    order.sort_by(|(a, left), (b, right)| right.dtype.cmp(&left.dtype).then(a.cmp(b)));
    let header = header(&file, &order, metadata)?;

    let of_file = |source| Error::Io { file: shorten(&file), source };
    let temporary = Temporary::beside(path).map_err(of_file)?;
    let mut out = BufWriter::with_capacity(1 << 20, &temporary.file);
    out.write_all(&(header.len() as u64).to_le_bytes()).map_err(of_file)?;
    out.write_all(header.as_bytes()).map_err(of_file)?;
    for (name, entry) in order {
        let array = read(name)?;
        if array.entry() != entry {
            return Err(Problem::new(entry, array.entry()).of_tensor(&file, name).into());
        }
        out.write_all(array.bytes()).map_err(of_file)?;
    }
    out.flush().map_err(of_file)?;
    drop(out);
    Ok(temporary.rename(path).map_err(of_file)?)
}

/// The header of tensors that follow each other in this order.
fn header(
    file: &str,
    order: &[(&str, &Entry)],
    metadata: &BTreeMap<String, String>,
) -> Result<String, Error> {
    let json = |value: &dyn Fn() -> serde_json::Result<String>| {
        value().map_err(|error| Problem::new("what JSON can say", error).of_file(file))
    };
    let mut pairs = Vec::new();
    if !metadata.is_empty() {
        pairs.push(format!("\"{METADATA}\":{}", json(&|| serde_json::to_string(metadata))?));
    }
    let (mut end, mut names) = (0_usize, BTreeSet::new());
    for &(name, entry) in order {
        let refuse = |problem: Problem| problem.of_tensor(file, name);
        if name == METADATA || !names.insert(name) {
            return Err(refuse(Problem::new("a name for each tensor", "one that is taken")));
        }
        entry.expect_whole_bytes().map_err(refuse)?;
        let start = end;
        end = entry
            .byte_len()
            .and_then(|len| start.checked_add(len))
            .ok_or_else(|| refuse(Problem::new("a size that fits memory", entry)))?;
        let Entry { dtype, shape } = entry.clone();
        let info = TensorInfo { dtype, shape, data_offsets: (start, end) };
        let name = json(&|| serde_json::to_string(name))?;
        pairs.push(format!("{name}:{}", json(&|| serde_json::to_string(&info))?));
    }
    let mut header = format!("{{{}}}", pairs.join(","));
    // The tensors begin where any element may.
    let padded = header.len().next_multiple_of(LENGTH as usize);
    header.extend(std::iter::repeat_n(' ', padded - header.len()));
    if header.len() as u64 > LONGEST {
        let expected = format_args!("names and shapes for a header of at most {LONGEST} bytes");
        return Err(Problem::new(expected, header.len()).of_file(file));
    }
    Ok(header)
}

/// A new file that is removed unless it takes its final name.
struct Temporary {
    path: PathBuf,
    file: File,
}

impl Temporary {
    /// A file in the same folder, so that taking the name is one step of the file system.
    fn beside(path: &Path) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = path.with_file_name(format!(".mha-files-{}-{count}.tmp", process::id()));
            match File::create_new(&path) {
                Ok(file) => return Ok(Self { path, file }),
                // Left by an earlier process of this number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn rename(self, path: &Path) -> io::Result<()> {
        // Or a crash could leave the name with a file that is not all there.
        self.file.sync_all()?;
        fs::rename(&self.path, path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Renamed already, or there is no one left to tell.
        let _ = fs::remove_file(&self.path);
    }
}
