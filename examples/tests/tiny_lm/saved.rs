//! Writing with a model that an earlier run left.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::support::{again, fail, fresh_dir, succeed, text_file, tiny, written};

/// A run's directory, and what it wrote.
fn saved() -> &'static (PathBuf, String) {
    static RUN: OnceLock<(PathBuf, String)> = OnceLock::new();
    RUN.get_or_init(|| {
        let dir = fresh_dir("saved");
        let output = succeed(tiny(&dir, &[]));
        (dir, written(&output).to_string())
    })
}

/// A copy of [`saved`] in which one can change something.
fn copy(name: &str) -> PathBuf {
    let dir = fresh_dir(name);
    fs::create_dir(&dir).unwrap();
    for name in ["config.json", "model.mpk"] {
        fs::copy(saved().0.join(name), dir.join(name)).unwrap();
    }
    dir
}

fn replace(dir: &Path, from: &str, to: &str) {
    let file = dir.join("config.json");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(from), "{text}");
    text_file(&file, &text.replace(from, to));
}

fn sentence(dir: &Path) -> String {
    let stderr = fail(again(dir, &[]), 1);
    assert!(stderr.starts_with("error: ") && stderr.lines().count() == 1, "{stderr}");
    stderr
}

#[test]
fn a_saved_model_writes_what_it_wrote_with_the_cache_and_without() {
    let (dir, text) = saved();
    for flags in [&[][..], &["--no-cache"], &["--check-cache"]] {
        let output = succeed(again(dir, flags));
        assert_eq!(
            output.split("\n30 characters with").next().unwrap().trim_end(),
            text.trim_end()
        );
        assert!(!output.contains("step "), "nothing is trained");
    }
    assert!(succeed(again(dir, &["--prompt=hare"])).starts_with("\nhare"));
}

#[test]
fn a_directory_without_a_model_is_a_sentence() {
    let nothing = sentence(&fresh_dir("nothing"));
    assert!(nothing.ends_with("nothing holds no model: it has no config.json\n"), "{nothing}");
    let dir = copy("no_parameters");
    fs::remove_file(dir.join("model.mpk")).unwrap();
    let missing = sentence(&dir);
    assert!(missing.starts_with("error: cannot read "), "{missing}");
}

#[test]
fn a_model_that_does_not_fit_its_config_is_a_sentence() {
    for (field, from, to) in [
        ("context", "8", "0"),
        ("d_model", "8", "16"),
        ("kv_heads", "2", "1"),
        ("layers", "2", "3"),
        ("layers", "2", "1"),
        ("heads", "4", "3"),
    ] {
        let dir = copy(&format!("unfit_{field}_{to}"));
        replace(&dir, &format!("\"{field}\": {from}"), &format!("\"{field}\": {to}"));
        sentence(&dir);
    }
    let dir = copy("unfit_characters");
    replace(&dir, "Taefhorstwx", "Tae");
    assert!(sentence(&dir).ends_with("model.mpk does not fit the config.json beside it\n"));
    let dir = copy("unfit_nothing");
    replace(&dir, "\\n .Taefhorstwx", "");
    sentence(&dir);
}

#[test]
fn a_damaged_model_is_a_sentence() {
    let dir = copy("damaged");
    let file = dir.join("model.mpk");
    for keep in [0, 1, 1000] {
        fs::File::options().write(true).open(&file).unwrap().set_len(keep).unwrap();
        assert!(sentence(&dir).starts_with("error: cannot read "), "{keep} bytes");
    }
    replace(&dir, "\"seed\"", "\"sead\"");
    assert!(sentence(&dir).contains("config.json is not this example's: unknown field `sead`"));
}
