//! Every byte of a file changed, one at a time: whatever comes of it, it is no panic.

use mha_files::Store;

use crate::common::{fixture_bytes, read_all};

/// Each bit of a byte, and all of them.
const CHANGES: [u8; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 255];

fn flip_each(name: &str) {
    let mut bytes = fixture_bytes(name);
    read_all(bytes.clone());
    for at in 0..bytes.len() {
        for change in CHANGES {
            bytes[at] ^= change;
            read_all(bytes.clone());
            bytes[at] ^= change;
        }
    }
}

#[test]
fn of_safetensors() {
    flip_each("small.safetensors");
    flip_each("state.safetensors");
}

#[test]
fn of_pytorch() {
    flip_each("small.pt");
    flip_each("kinds.pt");
}

#[test]
fn every_cut_of_an_archive_is_refused() {
    for name in ["small.pt", "state.pt"] {
        let whole = fixture_bytes(name);
        for len in 0..whole.len() {
            assert!(Store::from_bytes(whole[..len].to_vec()).is_err(), "{name}: {len} bytes");
        }
    }
}
