//! Safetensors files: headers that are refused, and why.

use mha_files::{Dtype, Store};

use crate::common::{fixture, fixture_bytes, refusal, safetensors};

/// A header, how many bytes follow it, and what the message says.
const REFUSED: &[(&str, usize, &str)] = &[
    ("", 0, "expected a header that begins with `{`, got nothing"),
    (" {}", 0, "begins with `{`, got byte 0x20"),
    ("[]", 0, "begins with `{`, got byte 0x5b"),
    ("{", 0, "expected a safetensors header, got EOF"),
    ("{}x", 0, "trailing characters"),
    ("{}", 1, "expected 0 bytes of tensors after the header, got 1"),
    // a hole: before, between, after
    (
        r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#,
        2,
        "tensor `a`: expected bytes from 0 on",
    ),
    (
        r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}"#,
        3,
        "tensor `b`: expected bytes from 1 on, where the tensor before it ends, got bytes 2 to 3",
    ),
    (
        r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
        2,
        "expected 1 bytes of tensors after",
    ),
    // an overlap
    (
        r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#,
        3,
        "tensor `b`: expected bytes from 2 on",
    ),
    // beyond the file
    (
        r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#,
        3,
        "expected 4 bytes of tensors after the header, got 3",
    ),
    (
        r#"{"a":{"dtype":"U8","shape":[0],"data_offsets":[9,9]}}"#,
        0,
        "tensor `a`: expected bytes from 0 on",
    ),
    // offsets, types and shapes that contradict each other
    (
        r#"{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,20]}}"#,
        20,
        "tensor `a`: expected 24 bytes for F32 [2, 3], got bytes 0 to 20",
    ),
    (
        r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[2,1]}}"#,
        2,
        "expected 1 bytes for U8 [1], got bytes 2 to 1",
    ),
    (
        r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[18446744073709551615,1]}}"#,
        2,
        "got bytes 18446744073709551615 to 1",
    ),
    // overflow: of the elements, of their bytes, hidden behind a 0
    (
        r#"{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#,
        0,
        "expected a shape of whole bytes whose number fits memory, got U8 [4294967296, 4294967296]",
    ),
    (
        r#"{"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}}"#,
        0,
        "fits memory",
    ),
    (
        r#"{"a":{"dtype":"U8","shape":[9223372036854775808,2,0],"data_offsets":[0,0]}}"#,
        0,
        "fits memory",
    ),
    (
        r#"{"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,0]}}"#,
        0,
        "tensor `a`: ",
    ),
    (r#"{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}}"#, 0, "tensor `a`: invalid value"),
    (r#"{"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,0]}}"#, 0, "tensor `a`: invalid type"),
    // names twice, though both say the same
    (
        r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}"#,
        1,
        "the name `a` twice",
    ),
    (r#"{"__metadata__":{},"__metadata__":{}}"#, 0, "the name `__metadata__` twice"),
    (r#"{"__metadata__":{"k":"v","k":"v"}}"#, 0, "the name `k` twice"),
    // what is not there, or not so
    (r#"{"__metadata__":{"k":1}}"#, 0, "expected a string"),
    (r#"{"a":{"shape":[1],"data_offsets":[0,1]}}"#, 1, "tensor `a`: missing field `dtype`"),
    (r#"{"a":{"dtype":"X8","shape":[1],"data_offsets":[0,1]}}"#, 1, "unknown variant `X8`"),
    (r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}}"#, 1, "tensor `a`: "),
    (r#"{"a":7}"#, 0, "tensor `a`: invalid type"),
    // elements of less than a byte: half a byte left, and whole bytes (refused when read)
    (
        r#"{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}"#,
        1,
        "expected a shape of whole bytes",
    ),
    (
        r#"{"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}}"#,
        2,
        "tensor `a`: expected elements of whole bytes, got F4 of 4 bits each",
    ),
    (
        r#"{"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}"#,
        3,
        "got F6_E2M3 of 6 bits each",
    ),
    (
        r#"{"a":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[0,3]}}"#,
        3,
        "got F6_E3M2 of 6 bits each",
    ),
];

#[test]
fn contradictions_are_refused() {
    for &(header, data, text) in REFUSED {
        let refusal = refusal(safetensors(header, &vec![0; data]));
        assert!(refusal.contains(text), "{header}\n gave: {refusal}\n not: {text}");
        assert!(refusal.len() < 1000, "{refusal}");
    }
}

#[test]
fn lengths_of_headers_are_bounded() {
    let cases = [
        (vec![], "expected 8 bytes with the length of the header, got 0 bytes"),
        (vec![0; 7], "got 7 bytes"),
        (vec![0; 8], "begins with `{`, got nothing"),
        (
            [&[3, 0, 0, 0, 0, 0, 0, 0], "{}".as_bytes()].concat(),
            "at most 2 bytes (what follows its length), got 3",
        ),
        (vec![0xff; 64], "at most 56 bytes (what follows its length), got 18446744073709551615"),
    ];
    for (bytes, text) in cases {
        let refusal = refusal(bytes);
        assert!(refusal.contains(text), "{refusal}");
    }
}

#[test]
fn tensors_of_less_than_a_byte_stop_no_other() {
    let header = r#"{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#;
    let store = Store::from_bytes(safetensors(header, &[1, 2])).unwrap();
    assert_eq!(store.entry("a").unwrap().dtype, Dtype::F4);
    assert_eq!(store.read("b").unwrap().bytes(), [2]);
    store.read("a").unwrap_err();
}

#[test]
fn empty_files_and_tensors_are_files() {
    let store = Store::from_bytes(safetensors("{}", &[])).unwrap();
    assert_eq!(store.entries().count(), 0);
    let header = r#"{"b":{"dtype":"F32","shape":[2,0],"data_offsets":[4,4]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   "#;
    let store = Store::from_bytes(safetensors(header, &1.5_f32.to_le_bytes())).unwrap();
    assert_eq!(store.read("a").unwrap().to_f64(), Some(vec![1.5]));
    assert_eq!(store.read("b").unwrap().bytes(), [0_u8; 0]);
    let names: Vec<&str> = store.entries().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn a_length_that_spells_a_zip_is_still_a_length() {
    // "PK" and zeros: 19280 bytes of header.
    let mut header = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#.to_owned();
    header.extend(std::iter::repeat_n(' ', 0x4b50 - header.len()));
    let bytes = safetensors(&header, &[9]);
    assert!(bytes.starts_with(b"PK"));
    assert_eq!(Store::from_bytes(bytes).unwrap().read("a").unwrap().bytes(), [9]);
}

#[test]
fn every_cut_is_refused() {
    let whole = fixture_bytes("state.safetensors");
    for len in 0..whole.len() {
        assert!(Store::from_bytes(whole[..len].to_vec()).is_err(), "{len} bytes");
    }
    Store::from_bytes(whole).unwrap();
}

#[test]
fn names_of_a_file_do_not_flood_the_terminal() {
    let name = "\\u001b[31m".to_owned() + &"x".repeat(100_000);
    let header = format!(r#"{{"{name}":{{"dtype":"U8","shape":[2],"data_offsets":[0,1]}}}}"#);
    let refusal = refusal(safetensors(&header, &[0]));
    assert!(refusal.len() < 500 && !refusal.contains('\u{1b}'), "{refusal}");
}

#[test]
fn unknown_names_and_files_are_said_to_be_unknown() {
    let store = Store::open(fixture("small.safetensors")).unwrap();
    let error = store.read("nothing").unwrap_err().to_string();
    assert!(error.ends_with("small.safetensors: no tensor `nothing` among 2"), "{error}");
    assert_eq!(store.metadata()["format"], "pt");
    let error = Store::open(fixture("none.safetensors")).unwrap_err().to_string();
    assert!(error.contains("none.safetensors: "), "{error}");
}
