//! Files to read, and ways to make and damage them.

use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use mha_files::Store;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

/// A file that PyTorch or Hugging Face's library wrote.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

pub(crate) fn fixture_bytes(name: &str) -> Vec<u8> {
    fs::read(fixture(name)).unwrap()
}

/// What a file is refused for, in words; the file may open, but then a tensor is refused.
#[track_caller]
pub(crate) fn refusal(bytes: Vec<u8>) -> String {
    let store = match Store::from_bytes(bytes) {
        Ok(store) => store,
        Err(error) => return error.to_string(),
    };
    let error = store.entries().find_map(|(name, _)| store.read(name).err());
    error.expect("nothing was refused").to_string()
}

/// Opens a file and reads every tensor; errors are as good as tensors.
pub(crate) fn read_all(bytes: Vec<u8>) {
    let Ok(store) = Store::from_bytes(bytes) else { return };
    for (name, entry) in store.entries() {
        if let Ok(array) = store.read(name) {
            assert_eq!(array.shape(), entry.shape);
            assert_eq!(Some(array.bytes().len()), entry.byte_len());
        }
    }
}

/// A safetensors file of this header and these bytes.
pub(crate) fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// A zip archive, its records as `change` leaves them; `None` removes one.
pub(crate) fn rezip(
    bytes: Vec<u8>,
    change: impl Fn(&str, Vec<u8>) -> Option<(String, Vec<u8>)>,
) -> Vec<u8> {
    let mut old = ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut new = ZipWriter::new(Cursor::new(Vec::new()));
    for index in 0..old.len() {
        let mut file = old.by_index(index).unwrap();
        let name = file.name().unwrap().into_owned();
        let mut data = Vec::new();
        file.read_to_end(&mut data).unwrap();
        if let Some((name, data)) = change(&name, data) {
            new.start_file(name, SimpleFileOptions::default()).unwrap();
            new.write_all(&data).unwrap();
        }
    }
    new.finish().unwrap().into_inner()
}

/// A folder that is removed with what is in it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mha-files-test-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The names in it, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
