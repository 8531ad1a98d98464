//! What the example prints and draws.

use std::{fs, process::Command};

use crate::support::{command, edit, fail, fresh_dir, names, succeed};
use crate::tiny;

#[test]
fn embeddings_are_those_of_transformers() {
    let dir = tiny::model("check");
    let fixture = tiny::source().join("embeddings.json");
    let output = succeed(command(&dir, &["--check", fixture.to_str().unwrap()]));
    let [first, last] = output.lines().collect::<Vec<_>>()[..] else { panic!("{output}") };
    assert!(first.starts_with("2 layers, "), "{first}");
    assert!(first.ends_with(&format!("; not used: {}", tiny::UNUSED.join(", "))), "{first}");
    assert!(last.starts_with("6 sentences in 8 batches: smallest cosine 1.000000"), "{last}");
}

#[test]
fn a_number_that_differs_is_status_1() {
    let dir = tiny::model("differs");
    let fixture = dir.join("embeddings.json");
    fs::copy(tiny::source().join("embeddings.json"), &fixture).unwrap();
    let check = || command(&dir, &["--check", fixture.to_str().unwrap()]);
    edit(&fixture, "-0.19749495", "-0.19749496"); // one rounding is allowed
    succeed(check());
    edit(&fixture, "-0.19749496", "-0.19769496");
    let stderr = fail(check(), 1);
    assert!(stderr.starts_with("error: the embeddings differ") && one_line(&stderr), "{stderr}");

    // Other word pieces are found before they are embedded.
    edit(&fixture, "[2,23,3]", "[2,22,3]");
    let stderr = fail(check(), 1);
    assert!(stderr.contains("\"é\" has the word pieces [2, 22, 3], ours"), "{stderr}");
}

/// Other weights, positions or masks do not pass the check.
#[test]
fn the_check_is_sharp() {
    let fixture = tiny::source().join("embeddings.json");
    let checked = |dir: &std::path::Path| command(dir, &["--check", fixture.to_str().unwrap()]);
    let dir = tiny::model("sharp");
    let config = dir.join("config.json");
    edit(&config, "\"num_attention_heads\": 3", "\"num_attention_heads\": 4");
    let stderr = fail(checked(&dir), 1);
    assert!(stderr.starts_with("error: the embeddings differ"), "{stderr}");

    edit(&config, "\"num_attention_heads\": 4", "\"num_attention_heads\": 3");
    let mut tensors = tiny::tensors();
    let key = tensors["encoder.layer.1.attention.self.key.weight"].clone();
    tensors.insert("encoder.layer.1.attention.self.query.weight".to_string(), key);
    tiny::write_tensors(&dir, tensors);
    let stderr = fail(checked(&dir), 1);
    assert!(stderr.starts_with("error: the embeddings differ"), "{stderr}");
}

#[test]
fn a_table_has_the_cosine_of_every_two_sentences() {
    let dir = tiny::model("table");
    let output = succeed(command(&dir, &["The dog barks.", "A hound is loud.", "The dog barks ."]));
    let rows: Vec<Vec<_>> =
        output.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["cosine", "1", "2", "3"]);
    assert_eq!(rows.len(), 4, "{output}");
    let numbers = |row: usize| rows[row][rows[row].len() - 3..].to_vec();
    let between = numbers(1)[1];
    assert_eq!(numbers(1), ["1.000", between, "1.000"]); // a space makes no word piece
    assert_eq!(numbers(2), [between, "1.000", between]);
    // From tiny/embeddings.json: the product of its first two rows.
    assert_eq!(between, "0.803");
}

#[test]
fn without_sentences_it_compares_its_own() {
    let dir = tiny::model("own");
    let output = succeed(command(&dir, &[]));
    assert_eq!(output.lines().count(), 2 + 7, "{output}");
    assert!(output.contains("1 A man is playing a guitar on the street. "), "{output}");
    assert!(output.contains('…'), "{output}"); // a long one is cut
}

#[test]
fn more_sentences_than_a_batch_holds_are_embedded() {
    let dir = tiny::model("many");
    let sentences = ["The dog barks.", "The cat sleeps on the mat."].repeat(40);
    let output = succeed(command(&dir, &sentences));
    let rows: Vec<_> = output.lines().skip(3).collect();
    assert_eq!(rows.len(), 80);
    let cells = |row: &str| row.split_whitespace().map(String::from).collect::<Vec<_>>();
    assert_eq!(cells(rows[0])[4..], cells(rows[78])[4..]);
}

#[test]
fn heads_are_drawn() {
    let dir = tiny::model("heads");
    let out = fresh_dir("heads_out");
    let flags = ["--heads", "2", "--out", out.to_str().unwrap(), "The dog, barking"];
    let output = succeed(command(&dir, &flags));
    assert!(output.contains("layer_2.svg and "), "{output}");
    assert_eq!(names(&out), ["layer_2.png", "layer_2.svg"]);
    let svg = fs::read_to_string(out.join("layer_2.svg")).unwrap();
    for label in ["Attention of layer 2 of 2", "head 1", "head 3", "[CLS]", "dog", "##ing"] {
        assert!(svg.contains(label), "{label}");
    }
    assert!(!svg.contains("head 4"));
}

#[test]
fn flags_that_cannot_be_honoured_are_sentences() {
    let dir = tiny::model("flags");
    for flags in [
        &["--heads=0"][..],
        &["--heads=first"],
        &["--backend=abacus"],
        &["--check=file", "a sentence"],
        &["--check=file", "--heads=1"],
        &["--check=file", "--out=dir"],
    ] {
        let stderr = fail(command(&dir, flags), 2);
        assert!(stderr.starts_with("error: "), "{flags:?}: {stderr}");
    }
    let stderr = fail(command(&dir, &["--heads=3"]), 1);
    assert_eq!(stderr, "error: --heads must be from 1 to 2, got 3\n");
    let file = dir.join("config.json");
    let stderr = fail(command(&dir, &["--heads=1", "--out", file.to_str().unwrap()]), 1);
    assert!(stderr.starts_with("error: cannot make ") && one_line(&stderr), "{stderr}");
}

/// Without `--model` it looks where fetch.sh puts the model.
#[test]
fn the_model_is_looked_for_in_the_cache() {
    let cache = fresh_dir("cache");
    let without_model = |variable: &str, home: &std::path::Path| {
        let mut command: Command = crate::program::example("sentence_embeddings");
        command.env_remove("XDG_CACHE_HOME").env_remove("HOME").env(variable, home);
        command.args(["--backend", "ndarray", "The dog barks."]);
        command
    };
    let stderr = fail(without_model("XDG_CACHE_HOME", &cache), 1);
    let folder = cache.join("mha/all-MiniLM-L6-v2");
    assert!(stderr.starts_with(&format!("error: there is no folder {}", folder.display())));
    assert!(stderr.contains("fetch.sh") && one_line(&stderr), "{stderr}");

    fs::create_dir_all(cache.join(".cache/mha")).unwrap();
    fs::rename(tiny::model("cached"), cache.join(".cache/mha/all-MiniLM-L6-v2")).unwrap();
    succeed(without_model("HOME", &cache));
}

fn one_line(stderr: &str) -> bool {
    stderr.lines().count() == 1
}
