#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("mha-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the shards");
    folder
});

fuzz_target!(|bytes: &[u8]| mha_fuzz::index(bytes, &FOLDER));
