//! Flags and files that cannot be honoured end in a sentence.

use std::{fs, path::Path};

use crate::support::{command, fail, fresh_dir, succeed, text_file, tiny};

#[test]
fn impossible_values_are_refused_by_the_command_line() {
    for flags in [
        &["--steps=0"][..],
        &["--batch-size=0"],
        &["--context=0"],
        &["--d-model=0"],
        &["--heads=0"],
        &["--kv-heads=0"],
        &["--layers=-1"],
        &["--tokens=0"],
        &["--learning-rate=nan"],
        &["--dropout=1"],
        &["--temperature=-1"],
        &["--temperature=inf"],
        &["--backend=abacus"],
        &["--check-cache", "--no-cache"],
        &["--generate=here", "--text=text.txt"],
        &["--generate=here", "--out=there"],
        &["--generate=here", "--steps=5"],
        &["--generate=here", "--d-model=64"],
    ] {
        let stderr = fail(command(flags), 2);
        assert!(stderr.starts_with("error: "), "{flags:?}: {stderr}");
    }
}

/// The one line that a run with `flags` ends in; it must not begin a model.
fn sentence(dir: &Path, flags: &[&str]) -> String {
    let stderr = fail(tiny(dir, flags), 1);
    assert!(stderr.starts_with("error: ") && stderr.lines().count() == 1, "{flags:?}: {stderr}");
    assert!(!dir.exists(), "{flags:?}");
    stderr
}

#[test]
fn a_text_that_cannot_be_trained_on_is_a_sentence() {
    let dir = fresh_dir("bad_text");
    let file = dir.with_extension("bad");
    let flags = ["--text", file.to_str().unwrap()];

    let _ = fs::remove_file(&file);
    let missing = sentence(&dir, &flags);
    assert!(missing.contains("bad_text.bad: No such file"), "{missing}");
    text_file(&file, "");
    assert!(sentence(&dir, &flags).ends_with("bad_text.bad is empty\n"));
    text_file(&file, "Once");
    let short = sentence(&dir, &flags);
    assert!(short.contains("is too short: it has 4 characters, and a context of 8"), "{short}");
    fs::write(&file, b"Once \xff there was").unwrap();
    let invalid = sentence(&dir, &flags);
    assert!(invalid.contains("invalid utf-8 sequence of 1 bytes from index 5"), "{invalid}");
}

#[test]
fn a_prompt_that_the_model_cannot_read_is_a_sentence() {
    let dir = fresh_dir("bad_prompt");
    let unknown = sentence(&dir, &["--prompt=The fox, the hare"]);
    assert!(unknown.contains("the prompt has the character ',', which the"), "{unknown}");
    assert!(sentence(&dir, &["--prompt="]).contains("the prompt is empty"));
}

#[test]
fn sizes_that_do_not_fit_together_are_a_sentence() {
    let dir = fresh_dir("bad_sizes");
    let heads = sentence(&dir, &["--heads=3", "--kv-heads=1"]);
    assert_eq!(heads, "error: n_heads must divide d_model, got n_heads 3 and d_model 8\n");
    assert!(sentence(&dir, &["--kv-heads=3"]).contains("n_kv_heads must divide n_heads"));
    let odd = sentence(&dir, &["--heads=8", "--kv-heads=8"]);
    assert!(odd.contains("head_dim must be even"), "{odd}");
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let dir = fresh_dir("foreign");
    fs::create_dir(&dir).unwrap();
    let notes = dir.join("config.json");
    text_file(&notes, "{}");
    let stderr = fail(tiny(&dir, &[]), 1);
    assert!(stderr.contains("give another directory with --out"), "{stderr}");
    assert_eq!(fs::read_to_string(notes).unwrap(), "{}");

    let stderr = fail(tiny(&dir.join("config.json"), &[]), 1);
    assert!(stderr.starts_with("error: cannot make "), "{stderr}");
}

#[test]
fn a_text_in_any_language_will_do() {
    let dir = fresh_dir("chinese");
    let file = dir.with_extension("text");
    text_file(&file, &"远方有颗苹果树。".repeat(30));
    let flags = ["--text", file.to_str().unwrap(), "--prompt", "苹果"];
    let output = succeed(tiny(&dir, &flags));
    assert!(output.contains("24 held out, 8 different"), "{output}");
    assert!(output.contains("\n苹果"), "{output}");
}
