//! What the fuzz targets do with the bytes that they are given. The tests do the same with the bytes
//! that the repository keeps.

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use mha_files::Store;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Tensors above are left alone: reading them is no different, and slow.
const LARGEST: usize = 1 << 20;

/// The most tensors read of one file.
const MOST: usize = 256;

/// A safetensors or PyTorch file.
pub(crate) fn file(bytes: &[u8]) {
    if let Ok(store) = Store::from_bytes(bytes.to_vec()) {
        read(&store, Some(bytes.len()));
    }
}

/// A pickle, in an archive that is well formed and has four storages of 64 bytes.
pub(crate) fn pickle(bytes: &[u8]) {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let storage: Vec<u8> = (0..64).collect();
    let records = [("0", &*storage), ("1", &storage), ("2", &storage), ("3", &storage)];
    zip.start_file("archive/data.pkl", SimpleFileOptions::default()).unwrap();
    zip.write_all(bytes).unwrap();
    for (key, data) in records {
        zip.start_file(format!("archive/data/{key}"), SimpleFileOptions::default()).unwrap();
        zip.write_all(data).unwrap();
    }
    file(&zip.finish().unwrap().into_inner());
}

/// An index, in a folder with two shards: `a` has tensors `x` and `y`, `b` has `z`.
pub(crate) fn index(bytes: &[u8], folder: &Path) {
    let shards = [
        (
            "a",
            r#"{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#,
            3,
        ),
        ("b", r#"{"z":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#, 8),
    ];
    for (name, header, len) in shards {
        let path = folder.join(name);
        if !path.exists() {
            let data = vec![0; len];
            let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
            fs::write(path, bytes).unwrap();
        }
    }
    let path = folder.join("model.safetensors.index.json");
    fs::write(&path, bytes).unwrap();
    if let Ok(store) = Store::open(&path) {
        read(&store, None);
    }
}

/// Reads every tensor below a bound. Errors are as good as tensors; what holds of every tensor does.
fn read(store: &Store, len: Option<usize>) {
    for (name, entry) in store.entries().take(MOST) {
        let Some(bytes) = entry.byte_len() else { panic!("`{name}` of {entry}") };
        assert!(len.is_none_or(|len| bytes <= len), "`{name}` is larger than its file");
        if bytes <= LARGEST
            && let Ok(array) = store.read(name)
        {
            assert_eq!(array.shape(), entry.shape);
            assert_eq!(array.bytes().len(), bytes);
        }
    }
}
