//! Which file of a folder holds the model.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::error::{Problem, shorten};

/// The names that Hugging Face's libraries give, the first found counts.
const KNOWN: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];

/// How other names end, the first kind found counts.
const KINDS: [&[&str]; 3] = [&[".safetensors"], &[".index.json"], &[".pt", ".pth", ".bin"]];

/// The file to open, which is one of the folder's.
pub(crate) fn find(folder: &Path) -> Result<PathBuf, Error> {
    if let Some(name) = KNOWN.iter().find(|name| folder.join(name).is_file()) {
        return Ok(folder.join(name));
    }
    let name = folder.display().to_string();
    let of_folder = |source| Error::Io { file: shorten(&name), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(of_folder)? {
        let path = entry.map_err(of_folder)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    for ends in KINDS {
        let fits = |path: &&PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            ends.iter().any(|end| name.ends_with(end))
        };
        match files.iter().filter(fits).collect::<Vec<_>>().as_slice() {
            [] => {}
            [path] => return Ok(path.to_path_buf()),
            several => {
                let expected = format_args!("one file {}", ends.join(" or "));
                let actual = format_args!("{}: name the one to open", several.len());
                return Err(Problem::new(expected, actual).of_file(&name));
            }
        }
    }
    let expected = "a file .safetensors, .index.json, .pt, .pth or .bin";
    Err(Problem::new(expected, "none in this folder").of_file(&name))
}
