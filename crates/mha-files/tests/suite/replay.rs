//! What a fuzzer has tried before: its seeds, and the inputs that once broke something.

use std::fs;
use std::path::Path;

use crate::common::Folder;
use crate::fuzzed;

/// Runs a target on every file kept for it; how many there were. `None` when this crate is built from
/// its package, which leaves them out.
fn replay(target: &str, run: impl Fn(&[u8])) -> Option<usize> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    if !fuzz.is_dir() {
        return None;
    }
    let mut count = 0;
    for kind in ["seeds", "finds"] {
        let Ok(files) = fs::read_dir(fuzz.join(kind).join(target)) else { continue };
        for file in files {
            let path = file.unwrap().path();
            // Printed when what follows fails.
            println!("{}", path.display());
            run(&fs::read(&path).unwrap());
            count += 1;
        }
    }
    Some(count)
}

#[test]
fn safetensors() {
    assert_ne!(replay("safetensors", fuzzed::file), Some(0));
}

#[test]
fn pytorch() {
    assert_ne!(replay("pytorch", fuzzed::file), Some(0));
}

#[test]
fn pickle() {
    assert_ne!(replay("pickle", fuzzed::pickle), Some(0));
}

#[test]
fn index() {
    let folder = Folder::new();
    assert_ne!(replay("index", |bytes| fuzzed::index(bytes, folder.path())), Some(0));
}
