//! Runs the example `walkthrough` and reads what it prints.

mod program;

use std::process::Output;

use program::example;

fn run(flags: &[&str]) -> Output {
    example("walkthrough").args(flags).output().expect("it runs")
}

/// The page that a good call prints.
fn page(flags: &[&str]) -> String {
    let output = run(flags);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{flags:?}: {error}");
    String::from_utf8(output.stdout).expect("the page is UTF-8")
}

/// The only line that begins with `start`, indented or not.
fn line<'a>(page: &'a str, start: &str) -> &'a str {
    let mut lines = page.lines().map(str::trim_start).filter(|line| line.starts_with(start));
    let found = lines.next().unwrap_or_else(|| panic!("no line {start:?} in\n{page}"));
    assert_eq!(lines.next(), None, "a second line {start:?}");
    found
}

/// The numbers of a line, in the order of their appearance.
fn numbers(line: &str) -> Vec<f64> {
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

fn assert_close(actual: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len());
    for (a, e) in actual.iter().zip(expected) {
        assert!((a - e).abs() <= tolerance, "{actual:?} is not {expected:?}");
    }
}

/// Checks the last line: whose values, and a difference that single precision explains.
fn assert_last_line(page: &str, reference: &str) {
    let last = page.lines().last().expect("a page has lines");
    let number = last.strip_prefix(&format!("largest difference from the {reference}: "));
    let number: f64 = number.unwrap_or_else(|| panic!("{last}")).parse().expect("a number");
    assert!((0.0..1e-4).contains(&number), "{last}");
}

#[test]
fn the_article_example_is_reproduced() {
    let page = page(&[]);
    for title in ["1. project", "2. split", "3. attend", "4. merge", "5. project out"] {
        line(&page, &format!("── {title} ─"));
    }
    let chain = "(7, 8) → (7, 2, 4) → (2, 7, 4) → (7, 4) → (7, 2, 4) → (7, 8) → (7, 8)";
    line(&page, chain);
    assert_eq!(line(&page, "parameters"), format!("parameters{}", "       256".repeat(4)));
    assert!(line(&page, "── stack three times").contains("(7, 8) → (7, 8) → (7, 8) → (7, 8)"));

    let check = [0.80712381, -1.60705917, 11.04755425, 20.02610582];
    assert_close(&numbers(line(&page, "NumPy values")), &check, 0.0);
    assert_close(&numbers(line(&page, "this layer")), &check, 1e-4);
    assert_last_line(&page, "NumPy values");
}

#[test]
fn the_heads_one_by_one_agree_with_all_at_once() {
    for flags in [&[][..], &["--heads", "8"], &["--sentence", "a cat", "--d-model", "12"]] {
        let page = page(flags);
        for start in ["all heads at once", "in one call"] {
            let line = line(&page, start);
            let difference = numbers(line).pop().expect("a number at the end");
            assert!((0.0..1e-5).contains(&difference), "{line}");
        }
    }
}

#[test]
fn the_weights_of_each_head_are_drawn_with_the_characters() {
    let page = page(&[]);
    line(&page, "head 1                                  head 2");
    let keys = "远   方   有   颗   苹   果   树";
    assert_eq!(line(&page, keys).matches(keys).count(), 2);
    // Head 1 sends 99 % of the first token to the last, head 2 37 % to the second.
    let row = page.lines().find(|line| line.contains("██99")).expect("a dark cell");
    assert!(row.trim_start().starts_with("远") && row.contains("▒▒37"), "{row}");
    assert!(!page.contains('\x1b'), "colour codes outside a terminal");
}

#[test]
fn every_number_of_heads_in_the_fixture_agrees_with_numpy() {
    for heads in ["1", "2", "4", "8"] {
        assert_last_line(&page(&["--heads", heads]), "NumPy values");
    }
}

#[test]
fn other_sentences_and_sizes_are_held_against_the_oracle() {
    let long = "天地玄黄".repeat(10);
    for flags in [
        &["--sentence", "天地玄黄宇宙洪"][..], // seven characters, but not the article's
        &["--sentence", "hello world", "--heads", "1"],
        &["--sentence", "猫", "--heads", "4"],
        &["--d-model", "15", "--heads", "3"],
        &["--d-model", "1", "--heads", "1"],
        &["--sentence", &long, "--d-model", "64", "--heads", "16"],
    ] {
        assert_last_line(&page(flags), "f64 oracle");
    }
}

#[test]
fn the_same_character_has_the_same_numbers() {
    let page = page(&["--sentence", "去来去"]);
    let rows: Vec<_> = page.lines().filter(|line| line.trim_start().starts_with("X 去")).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0], rows[1]);
}

#[test]
fn a_bad_flag_gets_one_sentence_and_a_failure() {
    let long = "x".repeat(129);
    for (flags, said) in [
        (&["--heads", "3"][..], "error: --heads must"),
        (&["--heads", "0"], "error: --heads must"),
        (&["--d-model", "0"], "error: --d-model must"),
        (&["--d-model", "513"], "error: --d-model must"),
        (&["--sentence", ""], "error: --sentence must"),
        (&["--sentence", "  "], "error: --sentence must"),
        (&["--sentence", &long], "error: --sentence must"),
        (&["--heads", "-1"], "error: "),
        (&["--heads", "two"], "error: "),
        (&["--backend", "abacus"], "error: "),
    ] {
        let output = run(flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(output.stdout.is_empty(), "{flags:?}");
        let error = String::from_utf8(output.stderr).expect("an error is UTF-8");
        assert!(error.starts_with(said) && !error.contains("panicked"), "{flags:?}: {error}");
        // Those that clap finds come with its usage below the sentence.
        assert!(said == "error: " || error.trim_end().lines().count() == 1, "{flags:?}: {error}");
    }
}
