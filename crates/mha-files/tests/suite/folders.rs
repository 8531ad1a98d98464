//! Which file of a folder is opened.

use std::fs;

use mha_files::Store;

use crate::common::{Folder, fixture, safetensors};

#[test]
fn the_known_names_come_first() {
    let folder = Folder::new();
    let error = Store::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("expected a file .safetensors"), "{error}");
    // From what counts least to what counts most.
    let files =
        ["training_args.bin", "other.safetensors", "pytorch_model.bin", "model.safetensors"];
    for file in files {
        let header = format!(r#"{{"{file}":{{"dtype":"U8","shape":[],"data_offsets":[0,1]}}}}"#);
        fs::write(folder.join(file), safetensors(&header, &[0])).unwrap();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.entries().next().unwrap().0, file);
    }
}

#[test]
fn one_of_several_must_be_named() {
    let folder = Folder::new();
    for file in ["a.pt", "b.pth"] {
        fs::copy(fixture("small.pt"), folder.join(file)).unwrap();
    }
    let error = Store::open(folder.path()).unwrap_err().to_string();
    assert!(
        error.ends_with("expected one file .pt or .pth or .bin, got 2: name the one to open"),
        "{error}"
    );
    fs::remove_file(folder.join("b.pth")).unwrap();
    assert_eq!(Store::open(folder.path()).unwrap().entries().count(), 2);
}

#[test]
fn a_file_that_shrinks_is_noticed() {
    let folder = Folder::new();
    let path = folder.join("a.safetensors");
    fs::copy(fixture("small.safetensors"), &path).unwrap();
    let store = Store::open(&path).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(100).unwrap();
    let error = store.read("weight").unwrap_err().to_string();
    assert!(error.contains("expected the length it had when it was opened"), "{error}");
}

#[cfg(unix)]
#[test]
fn only_files_are_opened() {
    let error = Store::open("/dev/zero").unwrap_err().to_string();
    assert_eq!(error, "/dev/zero: expected a file, got a device or a pipe");
}
