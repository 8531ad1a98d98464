//! How much memory a file can make its reader take.

use std::io::{Cursor, Write};

use mha_files::Store;
use peak_alloc::PeakAlloc;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// A PyTorch file of this pickle.
fn archive(pickle: &[u8]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, data) in [("a/data.pkl", pickle), ("a/data/0", &[0; 4])] {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(data).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// A one-byte tensor of 64 axes, in memo 0.
fn tensor() -> Vec<u8> {
    let axes = [b"(".as_slice(), &b"K\x01".repeat(64), b"t"].concat();
    let start = b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nByteStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04tQK\x00";
    [start, &axes[..], &axes, b"\x89NtRq\x00"].concat()
}

fn safetensors(header: String) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
}

/// Files of about a megabyte, each made to look as large in memory as it can.
#[test]
fn memory_is_a_small_multiple_of_the_file() {
    const MEGA: usize = 1 << 20;
    let pickle = |body: &[u8]| archive(&[b"\x80\x02", body].concat());
    let repeat = |piece: &[u8]| piece.repeat(MEGA / piece.len());
    let names: Vec<String> = (0..MEGA / 50)
        .map(|at| format!(r#""{at}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#))
        .collect();
    let zeros = vec!["0"; MEGA / 2].join(",");
    let files = [
        ("values", pickle(&repeat(b"N"))),
        ("marks", pickle(&repeat(b"("))),
        ("dicts", pickle(&repeat(b"}"))),
        ("tuples", pickle(&repeat(b")"))),
        ("tuples of tuples", pickle(&repeat(b")\x85"))),
        ("a list", pickle(&[b"](".as_slice(), &repeat(b"N"), b"e."].concat())),
        ("a dict", pickle(&[b"}(".as_slice(), &repeat(b"N"), b"u."].concat())),
        ("memos", pickle(&[b"N".as_slice(), &repeat(b"\x94")].concat())),
        ("far memos", pickle(&[b"Nr\xff\xff\xff\xff".as_slice(), &repeat(b"q\xff")].concat())),
        ("tensors", pickle(&[&tensor()[..], b"](", &repeat(b"h\x00"), b"e."].concat())),
        ("calls", pickle(&[b"cos\nsystem\nq\x00".as_slice(), &repeat(b"h\x00)R")].concat())),
        ("text that is too long", pickle(b"X\xff\xff\xff\xff")),
        ("bytes that are too long", pickle(b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f")),
        ("names", safetensors(format!("{{{}}}", names.join(",")))),
        (
            "axes",
            safetensors(format!(
                r#"{{"x":{{"dtype":"U8","shape":[{zeros}],"data_offsets":[0,0]}}}}"#
            )),
        ),
        (
            "a shape",
            safetensors(
                r#"{"x":{"dtype":"U8","shape":[9999999999999],"data_offsets":[0,9999999999999]}}"#
                    .to_owned(),
            ),
        ),
        ("a header", (1_u64 << 26).to_le_bytes().to_vec()),
    ];
    for (name, bytes) in files {
        let len = bytes.len();
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let store = Store::from_bytes(bytes);
        let taken = MEMORY.peak_usage() - before;
        println!(
            "{name}: {taken} bytes for {len}, {}",
            store.map_or_else(|e| e.to_string(), |s| format!("{s:?}"))
        );
        assert!(taken <= 120 * len + (1 << 16), "{name}: {taken} bytes for a file of {len}");
    }
}
