//! The table, as text, Markdown and JSON.

use crate::outcome::{stdout, succeed};
use crate::support::{command, empty_dir, last_line, read_json};

#[test]
fn the_table_is_within_the_allowance() {
    let json = empty_dir("table").join("table.json");
    let stdout = succeed(command(&["--json", json.to_str().unwrap()]));
    let [worst, allowed, comparisons, backends] = last_line(&stdout);
    assert!(worst > 0.0 && worst <= allowed, "{worst}");
    assert_eq!((allowed, backends), (2.0, 1.0));
    for name in ["no mask", "window", "grouped heads", "longer, causal, 1×256×256"] {
        for path in ["plain", "fused"] {
            let row = |line: &&str| line.starts_with(name) && line.contains(path);
            assert_eq!(stdout.lines().filter(row).count(), 1, "{name}, {path}: {stdout}");
        }
    }
    assert!(!stdout.contains("WRONG"), "{stdout}");

    let json = read_json(&json);
    let all = json["comparisons"].as_array().unwrap();
    assert_eq!(all.len() as f64, comparisons);
    assert_eq!((&json["passes"], &json["backends"]), (&true.into(), &1.into()));
    for one in all {
        assert_eq!(one["backend"], "ndarray");
        assert_eq!((&one["passes"], &one["first_divergence"]), (&true.into(), &().into()));
        for number in ["forward_ms", "backward_ms", "peak_heap_bytes"] {
            assert!(one[number].as_f64().unwrap() > 0.0, "{number} of {one}");
        }
        let measures = one["measures"].as_array().unwrap();
        assert_eq!(measures[0]["name"], "output");
        for measure in measures {
            let [error, allowed, times] = ["error", "allowed", "times_textbook"]
                .map(|number| measure[number].as_f64().expect("a number"));
            assert!(error <= allowed && times <= 2.0, "{measure}");
        }
    }
    let gradients = |configuration: &str| -> Vec<&str> {
        let one = all.iter().find(|one| one["configuration"] == configuration).unwrap();
        let measures = one["measures"].as_array().unwrap().iter();
        measures
            .filter_map(|measure| measure["name"].as_str()?.strip_prefix("gradient of "))
            .collect()
    };
    for name in ["query.weight", "output.bias", "the input value"] {
        assert!(gradients("no mask").contains(&name), "{name}");
    }
    for (configuration, name) in [
        ("bias with gradient", "the input bias"),
        ("T5 buckets", "relative_bias"),
        ("learned sink, causal", "sinks"),
        ("gate, RMS norm", "gate.weight"),
        ("gate, RMS norm", "key_norm.gamma"),
    ] {
        assert!(gradients(configuration).contains(&name), "{configuration}, {name}");
    }
}

#[test]
fn markdown_is_a_table_of_its_own() {
    let file = empty_dir("markdown").join("small.json");
    std::fs::write(&file, r#"{"module": {"d_model": 8, "n_heads": 2}, "batch": 1, "seq_q": 3}"#)
        .unwrap();
    let stdout = succeed(command(&["--markdown", "--config", file.to_str().unwrap()]));
    let table: Vec<_> = stdout.lines().take_while(|line| line.starts_with("| ")).collect();
    assert_eq!(table.len(), 2 + 2); // head and rule; plain and fused
    let columns = |line: &str| line.matches(" |").count();
    assert!(table.iter().all(|line| columns(line) == columns(table[0])), "{stdout}");
    assert!(table[3].starts_with("| small, 1×3×3 | ndarray | fused |"), "{stdout}");
    assert_eq!(last_line(&stdout)[2..], [2.0, 1.0]);
}

/// Scores that only f64 can hold are wrong in f32, by kernels, operations and textbook alike.
#[test]
fn what_overflows_in_f32_alone_is_status_1_and_names_the_step() {
    let file = empty_dir("overflow").join("large.json");
    let json =
        r#"{"module": {"d_model": 32, "n_heads": 2, "scale": 3e38}, "batch": 1, "seq_q": 9}"#;
    std::fs::write(&file, json).unwrap();
    let output = command(&["--config", file.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stdout = stdout(&output);
    let wrong: Vec<_> = stdout.lines().filter(|line| line.starts_with("WRONG: large")).collect();
    assert_eq!(wrong.len(), 2, "{stdout}"); // plain and fused
    assert!(wrong.iter().all(|line| line.ends_with("diverges first: step scale S")), "{stdout}");
}
