//! Flags that cannot be honoured end in a sentence.

use crate::support::{command, fail, fresh_dir, names, succeed, tiny};

#[test]
fn impossible_values_are_refused_by_the_command_line() {
    for flag in [
        "--steps=0",
        "--steps-per-epoch=0",
        "--batch-size=0",
        "--sequence-length=0",
        "--vocabulary=0",
        "--d-model=0",
        "--heads=0",
        "--layers=0",
        "--log-every=0",
        "--steps=-3",
        "--d-model=99999999999",
        "--learning-rate=0",
        "--learning-rate=nan",
        "--learning-rate=inf",
        "--min-accuracy=101",
        "--min-accuracy=nan",
        "--backend=abacus",
        "--no-such-flag",
    ] {
        let dir = fresh_dir("impossible");
        let stderr = fail(command(&["--out", dir.to_str().unwrap(), flag]), 2);
        assert!(stderr.starts_with("error: "), "{flag}: {stderr}");
        assert!(!dir.exists(), "{flag}");
    }
}

#[test]
fn heads_that_do_not_divide_the_features_cost_an_earlier_run_nothing() {
    let dir = fresh_dir("indivisible");
    succeed(tiny(&dir, &[]));
    let before = names(&dir);
    let stderr = fail(tiny(&dir, &["--heads=3"]), 1);
    assert_eq!(stderr, "error: n_heads must divide d_model, got n_heads 3 and d_model 8\n");
    assert_eq!(names(&dir), before);
}

#[test]
fn a_directory_that_cannot_be_made_is_a_sentence() {
    let dir = fresh_dir("file_in_the_way");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("file"), "not a directory").unwrap();
    let stderr = fail(tiny(&dir.join("file/run"), &[]), 1);
    assert!(stderr.starts_with("error: cannot "), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
#[cfg(all(feature = "wgpu", target_os = "linux"))]
fn without_an_adapter_a_sentence_says_what_to_install() {
    let dir = fresh_dir("no_adapter");
    let mut command = command(&["--backend=wgpu", "--out", dir.to_str().unwrap()]);
    // The Vulkan loader reads its drivers from here, under the older name too.
    command.env("VK_DRIVER_FILES", "/nonexistent").env("VK_ICD_FILENAMES", "/nonexistent");
    let stderr = fail(command, 1);
    assert!(stderr.contains("install a Vulkan driver"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(!dir.exists());
}

/// Activations of 8.6 GB, each: no kernel of ours is asked for so much, and Burn says it in a panic.
#[test]
#[cfg(all(feature = "wgpu", target_os = "linux"))]
fn what_the_device_cannot_hold_is_a_sentence() {
    let dir = fresh_dir("too_large");
    let sizes = ["--batch-size=65536", "--sequence-length=256", "--vocabulary=64"];
    let mut command = command(&["--backend=wgpu", "--out", dir.to_str().unwrap()]);
    command.args(sizes).env("RUST_BACKTRACE", "0").env("XDG_RUNTIME_DIR", "/tmp");
    let stderr = fail(command, 1);
    assert!(stderr.starts_with("error: the device stopped: "), "{stderr}");
    assert!(stderr.ends_with("smaller sizes, or `--backend ndarray`, may do\n"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}
