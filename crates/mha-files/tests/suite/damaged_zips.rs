//! PyTorch's files with records that are cut, gone or not what they should be.

use crate::common::{fixture_bytes, refusal, rezip};

/// A file, a record of it, what becomes of the record, and what the message says.
type Case = (&'static str, &'static str, fn(Vec<u8>) -> Option<Vec<u8>>, &'static str);

const REFUSED: &[Case] = &[
    // The other reader of our trouble gave zeros for both of these.
    (
        "small.pt",
        "data/0",
        |data| Some(data[..15].to_vec()),
        "tensor `weight`: expected 16 bytes of storage `data/0`, got 15",
    ),
    (
        "small.pt",
        "data/0",
        |_| None,
        "tensor `weight`: expected a record `data/0`, got none of this name",
    ),
    (
        "small.pt",
        "data/0",
        |_| Some(vec![]),
        "tensor `weight`: expected 16 bytes of storage `data/0`, got 0",
    ),
    (
        "small.pt",
        "data/0",
        |data| Some([data, vec![0]].concat()),
        "expected 16 bytes of storage `data/0`, got 17",
    ),
    ("state.pt", "data/16", |data| Some(data[1..].to_vec()), "bytes of storage `data/16`, got"),
    ("small.pt", "data.pkl", |_| None, "expected a folder with a data.pkl, as torch.save writes"),
    ("small.pt", "data.pkl", |_| Some(vec![]), "expected 2 more bytes, got 0"),
    (
        "small.pt",
        "byteorder",
        |_| Some(b"big".to_vec()),
        "expected the byte order `little`, got `big`",
    ),
    (
        "small.pt",
        "byteorder",
        |_| Some(vec![0; 99]),
        "expected the byte order `little`, got `\\x00",
    ),
];

#[test]
fn damaged_records_are_refused() {
    for (file, record, change, text) in REFUSED {
        let bytes = rezip(fixture_bytes(file), |name, data| {
            let (_, inner) = name.split_once('/').unwrap();
            let data = if inner == *record { change(data)? } else { data };
            Some((name.to_owned(), data))
        });
        let refusal = refusal(bytes);
        assert!(refusal.contains(text), "{file} {record}\n gave: {refusal}\n not: {text}");
    }
}

#[test]
fn a_file_without_byteorder_is_read() {
    let bytes = rezip(fixture_bytes("small.pt"), |name, data| {
        (!name.ends_with("byteorder")).then(|| (name.to_owned(), data))
    });
    assert_eq!(mha_files::Store::from_bytes(bytes).unwrap().entries().count(), 2);
}

#[test]
fn archives_of_something_else_are_refused() {
    let other = rezip(fixture_bytes("small.pt"), |name, data| {
        Some((name.replace("data.pkl", "word/document.xml"), data))
    });
    assert!(refusal(other).contains("expected a folder with a data.pkl"));
    let two = rezip(fixture_bytes("small.pt"), |name, data| {
        Some((name.replace("small/version", "other/data.pkl"), data))
    });
    assert!(refusal(two).contains("expected one folder with a data.pkl, got several"));
    let refusal = refusal(b"PK\x03\x04 and no more".to_vec());
    assert!(refusal.contains("expected a whole zip archive, got "), "{refusal}");
}

/// Changes the directory at the end of the archive: the field at `offset` of the entry of `record`.
fn patched(record: &str, offset: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = fixture_bytes("small.pt");
    let entry = (0..bytes.len() - 46)
        .filter(|&at| bytes[at..].starts_with(b"PK\x01\x02"))
        .find(|&at| bytes[at + 46..].starts_with(record.as_bytes()))
        .unwrap();
    bytes[entry + offset..entry + offset + value.len()].copy_from_slice(value);
    bytes
}

#[test]
fn damaged_directories_are_refused() {
    let record = "small/data/0";
    let cases = [
        (8, vec![1, 0], "expected a stored record `data/0`, got an encrypted one"),
        (10, vec![8, 0], "expected a stored record `data/0`, got a compressed one"),
        (20, vec![15, 0], "expected a stored record `data/0`, got 15 bytes for 16"),
        (42, vec![0xff, 0xff, 0xff, 0], "expected a whole zip archive"),
    ];
    for (offset, value, text) in cases {
        let refusal = refusal(patched(record, offset, &value));
        assert!(refusal.contains(text), "{refusal}\n not: {text}");
    }
    // A length that says more than the file has.
    let mut both = patched(record, 20, &[0xff, 0xff, 0, 0]);
    let entry = both.windows(4).rposition(|four| four == [0xff, 0xff, 0, 0]).unwrap();
    both[entry + 4..entry + 8].copy_from_slice(&[0xff, 0xff, 0, 0]);
    let refusal = refusal(both);
    assert!(refusal.contains("got 65535 bytes from"), "{refusal}");
}
