//! Pickles made by hand: what no PyTorch writes, and what they are refused for.

use std::io::{Cursor, Write};

use mha_files::Store;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::common::refusal;

/// A PyTorch file of this pickle and one storage, `0`, of six `f32`.
fn archive(pickle: &[u8]) -> Vec<u8> {
    let storage: Vec<u8> = (0u8..6).flat_map(|x| f32::from(x).to_le_bytes()).collect();
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, data) in [("a/data.pkl", pickle), ("a/data/0", &storage)] {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(data).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

fn int(value: i64) -> Vec<u8> {
    [&[0x8a, 8], &value.to_le_bytes()[..]].concat()
}

fn tuple(values: &[i64]) -> Vec<u8> {
    let values: Vec<u8> = values.iter().flat_map(|&value| int(value)).collect();
    [b"(", &values[..], b"t"].concat()
}

/// What calls `_rebuild_tensor_v2`.
fn tensor(key: &str, count: i64, offset: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    let parts: [&[u8]; 11] = [
        b"ctorch._utils\n_rebuild_tensor_v2\n((",
        &text("storage"),
        b"ctorch\nFloatStorage\n",
        &text(key),
        &text("cpu"),
        &int(count),
        b"tQ",
        &int(offset),
        &tuple(shape),
        &tuple(strides),
        b"\x89ccollections\nOrderedDict\n)RtR",
    ];
    parts.concat()
}

/// A dict of one tensor, `x`.
fn dict(value: &[u8]) -> Vec<u8> {
    [b"\x80\x02}", &text("x")[..], value, b"s."].concat()
}

fn good() -> Vec<u8> {
    dict(&tensor("0", 6, 0, &[2, 3], &[3, 1]))
}

#[test]
fn a_tensor_by_hand_is_read() {
    let store = Store::from_bytes(archive(&good())).unwrap();
    let array = store.read("x").unwrap();
    assert_eq!(array.to_f64(), Some(vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
    let parameter = [
        b"ctorch._utils\n_rebuild_parameter\n",
        &tensor("0", 6, 1, &[2, 2], &[1, 3])[..],
        b"\x88)\x87R",
    ];
    let store = Store::from_bytes(archive(&dict(&parameter.concat()))).unwrap();
    assert_eq!(store.read("x").unwrap().to_f64(), Some(vec![1.0, 4.0, 2.0, 5.0]));
}

/// What PyTorch writes of a tensor with attributes of its own, and of sizes that are a `torch.Size`.
#[test]
fn wrapped_tensors_and_sizes_are_read() {
    let inner = tensor("0", 6, 0, &[3], &[2]);
    let inner = inner.strip_prefix(b"ctorch._utils\n_rebuild_tensor_v2\n").unwrap();
    let inner = inner.strip_suffix(b"R").unwrap();
    let wrapped = [
        b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n",
        inner,
        b"}tR",
    ];
    let store = Store::from_bytes(archive(&dict(&wrapped.concat()))).unwrap();
    assert_eq!(store.read("x").unwrap().to_f64(), Some(vec![0.0, 2.0, 4.0]));

    let plain = tensor("0", 6, 0, &[3], &[2]);
    let shape = tuple(&[3]);
    let at = plain.windows(shape.len()).position(|bytes| bytes == shape).unwrap();
    let sized = [&plain[..at], b"ctorch\nSize\n", &shape, b"\x85R", &plain[at + shape.len()..]];
    let store = Store::from_bytes(archive(&dict(&sized.concat()))).unwrap();
    assert_eq!(store.entry("x").unwrap().shape, [3]);
}

#[test]
fn views_beyond_their_storage_are_refused() {
    const MAX: i64 = i64::MAX;
    /// Elements of the storage, offset, sizes, strides, and what the message says.
    type Case = (i64, i64, &'static [i64], &'static [i64], &'static str);
    let cases: &[Case] = &[
        // The other reader of our trouble took the memory for the first of these, and was ended.
        (
            6,
            0,
            &[1 << 40],
            &[1],
            "expected at most the 6 elements of storage `data/0`, got F32 [1099511627776]",
        ),
        (6, 0, &[7], &[1], "at most the 6 elements"),
        (6, 0, &[7], &[0], "at most the 6 elements"),
        (6, 0, &[MAX, MAX], &[0, 0], "at most the 6 elements"),
        (6, 0, &[MAX, 8, 0], &[1, 1, 1], "at most the 6 elements"),
        (
            6,
            1,
            &[6],
            &[1],
            "elements below 6, where storage `data/0` ends, got F32 [6] from element 1 on by steps of [1]",
        ),
        (6, 6, &[1], &[1], "elements below 6"),
        (6, 6, &[], &[], "elements below 6"),
        (6, 0, &[2, 3], &[4, 1], "elements below 6"),
        (6, 0, &[2], &[MAX], "elements below 6"),
        (6, MAX, &[2], &[MAX], "elements below 6"),
        (6, 0, &[2, 2, 1], &[MAX, MAX, 1], "elements below 6"),
        (5, 0, &[5], &[1], "expected 20 bytes of storage `data/0`, got 24"),
        (7, 0, &[6], &[1], "expected 28 bytes of storage `data/0`, got 24"),
        (MAX, 0, &[6], &[1], "expected a storage that fits memory"),
        (-1, 0, &[6], &[1], "expected a size or a step, got -1"),
        (6, -1, &[6], &[1], "expected a size or a step, got -1"),
        (6, 0, &[-6], &[1], "expected a size or a step, got -6"),
        (6, 5, &[6], &[-1], "expected a size or a step, got -1"),
        (6, 0, &[2, 3], &[1], "expected 2 strides, got 1"),
        (6, 0, &[1; 65], &[1; 65], "expected at most 64 axes, got 65"),
    ];
    for (count, offset, shape, strides, text) in cases {
        let refusal = refusal(archive(&dict(&tensor("0", *count, *offset, shape, strides))));
        assert!(
            refusal.contains("tensor `x`: ") && refusal.contains(text),
            "{refusal}\n not: {text}"
        );
    }
    let empty = archive(&dict(&tensor("0", 6, 99, &[0, 2], &[1, 1])));
    assert_eq!(Store::from_bytes(empty).unwrap().read("x").unwrap().bytes(), [0_u8; 0]);
    for key in ["1", "../data.pkl", "", "\u{0}"] {
        let refusal = refusal(archive(&dict(&tensor(key, 6, 0, &[1], &[1]))));
        assert!(refusal.contains("expected a record `data/"), "{refusal}");
    }
}

#[test]
fn what_is_no_pickle_of_torch_save_is_refused() {
    let deep = [b"\x80\x02".as_slice(), &b"(".repeat(100_000), b"."].concat();
    let nested: Vec<u8> = [text("k").repeat(1), b"}".to_vec()].concat();
    let dicts = [b"\x80\x02}".as_slice(), &nested.repeat(70), &b"s".repeat(70), b"."].concat();
    let cases: &[(&[u8], &str)] = &[
        (b"", "expected 2 more bytes, got 0"),
        (b"I01\n.", "expected a pickle of protocol 2 to 5, got `I0`"),
        (b"\x80\x06N.", "expected a pickle of protocol 2 to 5"),
        (b"\x80\x02", "expected 1 more bytes, got 0"),
        (b"\x80\x02N", "expected 1 more bytes, got 0"),
        (b"\x80\x02.", "expected a value on the stack, got none (data.pkl, byte 2)"),
        (b"\x80\x02(.", "expected a value on the stack"),
        (&deep, "expected a value on the stack"),
        (&dicts, "expected dicts at most 64 deep"),
        (b"\x80\x02}h\x00.", "expected a memo 0, got none"),
        (b"\x80\x02}j\xff\xff\xff\xff.", "expected a memo 4294967295"),
        (b"\x80\x02q\x00.", "expected a value on the stack"),
        (b"\x80\x02t.", "expected a mark, got none"),
        (b"\x80\x02N(\x85.", "expected a value on the stack"),
        (b"\x80\x02NNs.", "expected a value on the stack"),
        (b"\x80\x02NNNs.", "expected a dict to set keys of"),
        (b"\x80\x02}(Nu.", "expected a value for each key, got one key more"),
        (b"\x80\x02}Na.", "expected a list to append to"),
        (b"\x80\x02NNR.", "expected a function and its arguments, got a plain value"),
        (b"\x80\x02NN\x93.", "expected the name of a global, got no text"),
        (
            b"\x80\x02ccollections\nOrderedDict\nN\x85R.",
            "expected an OrderedDict without arguments",
        ),
        (b"\x80\x02cos", "expected a line, got no end of it"),
        (b"\x80\x02c\xff\nx\n.", "expected UTF-8, got \\xff"),
        (b"\x80\x02X\xff\xff\xff\xffabc.", "expected 4294967295 more bytes, got 4"),
        (b"\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc.", "more bytes, got 4"),
        (b"\x80\x02\x8b\xff\xff\xff\xff.", "expected 4294967295 more bytes"),
        (b"\x80\x02\x97.", "expected an instruction that torch.save writes, got `\\x97`"),
        (
            b"\x80\x02I01\n.",
            "expected an instruction that torch.save writes, got `I` (data.pkl, byte 2)",
        ),
        (b"\x80\x02K\x07.", "such as `model.state_dict()`, got 7"),
        (b"\x80\x02\x8a\x09aaaaaaaaa.", "got an integer of more than 64 bits"),
        (b"\x80\x02\x8f(N\x90.", "got a set"),
        (b"\x80\x02(N\x91.", "got a frozenset"),
        (b"\x80\x02U\x01\xff.", "got text that is not UTF-8"),
        (b"\x80\x04\x95\0\0\0\0\0\0\0\0C\x01a.", "got bytes"),
        (b"\x80\x02G\0\0\0\0\0\0\0\0.", "got a float"),
        (b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.", "got what os.system makes"),
        (b"\x80\x02cbuiltins\ndict\n.", "got builtins.dict"),
        (b"\x80\x02NQ.", "got a storage"),
    ];
    for (pickle, text) in cases {
        let refusal = refusal(archive(pickle));
        assert!(
            refusal.contains(text),
            "{}\n gave: {refusal}\n not: {text}",
            pickle.escape_ascii()
        );
        assert!(refusal.len() < 1000, "{refusal}");
    }
}

#[test]
fn damaged_calls_are_refused_with_the_tensor() {
    let v2 = b"ctorch._utils\n_rebuild_tensor_v2\n".as_slice();
    let cases: &[(&[u8], &str)] = &[
        (b")R", "expected a storage, an offset, sizes and strides, got 0"),
        (b"(NK\x00))tR", "expected a storage, got None"),
        (b"(NQK\x00))tR", "expected a storage, got a storage"),
        (b"((NNNNNtQK\x00))tR", "expected a storage and its name, got None"),
    ];
    for (arguments, text) in cases {
        let refusal = refusal(archive(&dict(&[v2, arguments].concat())));
        assert!(
            refusal.contains("tensor `x`: ") && refusal.contains(text),
            "{refusal}\n not: {text}"
        );
    }
    let odd = tensor("0", 6, 0, &[], &[]);
    let sizes = tuple(&[]);
    let at = odd.windows(2).rposition(|bytes| bytes == sizes).unwrap();
    for (sizes, text) in
        [(&b"K\x01"[..], "got 1"), (b"}", "got a dict of 0"), (b"]", "got a list of 0")]
    {
        let refusal = refusal(archive(&dict(&[&odd[..at], sizes, &odd[at + 2..]].concat())));
        assert!(refusal.contains("expected a tuple of sizes, got"), "{refusal}");
        assert!(refusal.contains(text), "{refusal}");
    }
}

#[test]
fn names_that_come_twice_are_refused() {
    let one = tensor("0", 6, 0, &[1], &[1]);
    let twice = [&b"\x80\x02}("[..], &text("x"), &one, &text("x"), &one, b"u."].concat();
    assert!(
        refusal(archive(&twice)).contains("tensor `x`: expected one tensor of this name, got two")
    );
    let inner = [&b"}"[..], &text("y"), &one, b"s"].concat();
    let joined = [&b"\x80\x02}("[..], &text("x.y"), &one, &text("x"), &inner, b"u."].concat();
    assert!(refusal(archive(&joined)).contains("tensor `x.y`: expected one tensor of this name"));
}

/// Twenty dicts, each of which holds the one before it ten times: 10²⁰ names.
#[test]
fn dicts_that_repeat_others_are_bounded() {
    let mut pickle = [&b"\x80\x02"[..], &tensor("0", 6, 0, &[1], &[1]), b"q\x00"].concat();
    for level in 0..20_u8 {
        pickle.extend(b"}(");
        for key in 0..10 {
            pickle.extend([&text(&key.to_string())[..], &[b'h', level]].concat());
        }
        pickle.extend([b'u', b'q', level + 1]);
    }
    pickle.push(b'.');
    let refusal = refusal(archive(&pickle));
    assert!(refusal.contains("expected names that a pickle of this length can spell"), "{refusal}");
}

/// A dict and a list that hold themselves.
#[test]
fn circles_end() {
    for pickle in [&b"\x80\x02}q\x00X\x01\0\0\0xh\x00s."[..], b"\x80\x02]q\x00h\x00a."] {
        let refusal = refusal(archive(pickle));
        assert!(refusal.contains("expected dicts at most 64 deep"), "{refusal}");
    }
}

#[test]
fn every_cut_of_a_pickle_is_refused() {
    let whole = good();
    for len in 0..whole.len() {
        assert!(Store::from_bytes(archive(&whole[..len])).is_err(), "{len} bytes");
    }
}
