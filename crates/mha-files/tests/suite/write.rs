//! Safetensors files that are written.

use std::collections::BTreeMap;
use std::fs;

use mha_files::{Array, Dtype, Entry, Error, Store};

use crate::common::{Folder, fixture, fixture_bytes};

fn entries(store: &Store) -> Vec<(String, Entry)> {
    store.entries().map(|(name, entry)| (name.to_owned(), entry.clone())).collect()
}

#[test]
fn a_file_of_hugging_face_comes_back_the_same() {
    let folder = Folder::new();
    for name in ["state.safetensors", "checkpoint.safetensors", "small.safetensors"] {
        let store = Store::open(fixture(name)).unwrap();
        let path = folder.join(name);
        mha_files::write(&path, &entries(&store), store.metadata(), |name| store.read(name))
            .unwrap();
        assert_eq!(fs::read(&path).unwrap(), fixture_bytes(name), "{name}");
    }
}

/// From PyTorch's file to the one that safetensors' library makes of it, and over itself.
#[test]
fn a_file_of_pytorch_becomes_a_safetensors_file() {
    let folder = Folder::new();
    let path = folder.join("state.safetensors");
    let store = Store::open(fixture("state.pt")).unwrap();
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    mha_files::write(&path, &entries(&store), &metadata, |name| store.read(name)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), fixture_bytes("state.safetensors"));

    let store = Store::open(&path).unwrap();
    mha_files::write(&path, &entries(&store), &metadata, |name| store.read(name)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), fixture_bytes("state.safetensors"));
    assert_eq!(folder.names(), ["state.safetensors"]);
}

#[test]
fn names_and_metadata_are_escaped() {
    let folder = Folder::new();
    let path = folder.join("odd");
    let name = "\"\\\n\u{0}é".to_owned();
    let metadata = BTreeMap::from([(name.clone(), name.clone()), ("b".to_owned(), String::new())]);
    let tensors = [(name.clone(), Entry { dtype: Dtype::BOOL, shape: vec![] })];
    mha_files::write(&path, &tensors, &metadata, |_| Array::new(Dtype::BOOL, vec![], vec![1]))
        .unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!(store.read(&name).unwrap().bytes(), [1]);
    assert_eq!(store.metadata(), &metadata);
}

#[test]
fn no_tensors_are_a_file() {
    let folder = Folder::new();
    let path = folder.join("none");
    mha_files::write::<mha_files::Error>(&path, &[], &BTreeMap::new(), |_| panic!("there is none"))
        .unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"\x08\0\0\0\0\0\0\0{}      ");
    assert_eq!(Store::open(&path).unwrap().entries().count(), 0);
}

/// What is refused; the file of the name stays as it was, and nothing lies beside it.
#[test]
fn a_failure_leaves_the_old_file_alone() {
    let folder = Folder::new();
    let path = folder.join("old");
    fs::write(&path, b"old").unwrap();
    let entry = |dtype, shape: &[usize]| Entry { dtype, shape: shape.to_vec() };
    let two = Array::new(Dtype::U8, vec![2], vec![1, 2]).unwrap();
    let cases: Vec<(Vec<(&str, Entry)>, &str)> = vec![
        (vec![("a", entry(Dtype::U8, &[3]))], "tensor `a`: expected U8 [3], got U8 [2]"),
        (vec![("a", entry(Dtype::I8, &[2]))], "tensor `a`: expected I8 [2], got U8 [2]"),
        (vec![("a", entry(Dtype::U8, &[1, 2]))], "tensor `a`: expected U8 [1, 2], got U8 [2]"),
        (vec![("a", entry(Dtype::U8, &[2])), ("a", entry(Dtype::U8, &[2]))], "one that is taken"),
        (vec![("__metadata__", entry(Dtype::U8, &[2]))], "one that is taken"),
        (vec![("a", entry(Dtype::F4, &[2]))], "expected elements of whole bytes"),
        (vec![("a", entry(Dtype::F32, &[usize::MAX]))], "expected a size that fits memory"),
    ];
    for (tensors, text) in cases {
        let tensors: Vec<(String, Entry)> =
            tensors.into_iter().map(|(name, entry)| (name.to_owned(), entry)).collect();
        let two = |_: &str| Ok::<_, Error>(two.clone());
        let result = mha_files::write(&path, &tensors, &BTreeMap::new(), two);
        let error = result.unwrap_err().to_string();
        assert!(error.contains(text), "{error}\n not: {text}");
        assert_eq!(folder.names(), ["old"]);
    }
    let store = Store::open(fixture("small.safetensors")).unwrap();
    let tensors = [("b".to_owned(), entry(Dtype::U8, &[2]))];
    let result = mha_files::write(&path, &tensors, &BTreeMap::new(), |name| store.read(name));
    assert!(matches!(result, Err(Error::NotFound { .. })));
    assert_eq!(
        (folder.names(), fs::read(&path).unwrap()),
        (vec!["old".to_owned()], b"old".to_vec())
    );
    for nowhere in [folder.join("none/a"), folder.join("..")] {
        let result = mha_files::write(&nowhere, &[], &BTreeMap::new(), |_| Ok(two.clone()));
        assert!(matches!(result, Err(Error::Io { .. })), "{result:?}");
    }
}
