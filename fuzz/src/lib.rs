//! What the targets do with their input. It lies with the tests of `mha-files`, which do the same with
//! the files in `seeds` and `finds`.
//!
//! From the root of the repository, with `cargo install cargo-fuzz` and a nightly compiler:
//!
//! ```sh
//! mkdir -p fuzz/corpus/pickle
//! cargo +nightly fuzz run pickle fuzz/corpus/pickle fuzz/seeds/pickle -- \
//!     -max_total_time=900 -rss_limit_mb=2048 -malloc_limit_mb=512
//! ```
//!
//! The targets are `safetensors`, `pytorch`, `pickle` and `index`. What breaks one goes, as small as
//! `cargo +nightly fuzz tmin` makes it, to `fuzz/finds/TARGET`.

use std::path::Path;

#[path = "../../crates/mha-files/tests/suite/fuzzed.rs"]
mod fuzzed;

/// A safetensors or PyTorch file.
pub fn file(bytes: &[u8]) {
    fuzzed::file(bytes);
}

/// The pickle of a PyTorch file.
pub fn pickle(bytes: &[u8]) {
    fuzzed::pickle(bytes);
}

/// The index of shards in `folder`.
pub fn index(bytes: &[u8], folder: &Path) {
    fuzzed::index(bytes, folder);
}
