//! A whole run: what it prints, what it leaves, when it fails.

use std::fs;

use crate::support::{command, fail, fresh_dir, names, stdout, succeed, tiny};

#[test]
fn the_model_learns_to_copy() {
    let dir = fresh_dir("learns");
    let sizes = ["--steps=150", "--sequence-length=5", "--vocabulary=8", "--d-model=32"];
    let rest = ["--backend=ndarray", "--min-accuracy=100", "--out", dir.to_str().unwrap()];
    let output = succeed(command(&[&sizes[..], &rest].concat()));

    let last = output.lines().last().unwrap();
    let expected = "copy accuracy: 100.00 % on 512 unseen sequences (ndarray, 150 steps, ";
    assert!(last.starts_with(expected) && last.ends_with(" s)"), "{last}");
    assert!(output.contains("step 150/150  epoch 3/3  loss "), "{output}");
    assert!(output.contains("validation after epoch 3  loss "), "{output}");
}

#[test]
fn a_run_leaves_config_checkpoints_metrics_model_and_pictures() {
    let dir = fresh_dir("leaves");
    succeed(tiny(&dir, &[]));
    let expected = [
        "attention.png",
        "attention.svg",
        "checkpoint",
        "config.json",
        "experiment.log",
        "loss.png",
        "loss.svg",
        "model.mpk",
        "train",
        "valid",
    ];
    assert_eq!(names(&dir), expected);
    assert_eq!(names(&dir.join("train/epoch-4")).len(), 4);
    assert_eq!(names(&dir.join("checkpoint")).len(), 6, "the newest two, three files each");
    let svg = fs::read_to_string(dir.join("loss.svg")).unwrap();
    assert!(svg.contains("training step") && svg.contains("cross-entropy loss"));
    let png = fs::read(dir.join("attention.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG") && png.len() > 5_000);
}

#[test]
fn too_low_an_accuracy_is_status_1_and_a_sentence() {
    let dir = fresh_dir("too_low");
    let output = tiny(&dir, &["--min-accuracy=100"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).lines().last().unwrap().starts_with("copy accuracy: "));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("is below the 100 % that --min-accuracy asks for"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn a_new_run_replaces_the_earlier_one_in_its_directory() {
    let dir = fresh_dir("replaces");
    succeed(tiny(&dir, &[]));
    let output = succeed(tiny(&dir, &["--steps=10"]));
    assert!(output.contains("replacing the earlier run in"), "{output}");
    assert_eq!(names(&dir.join("train")), ["epoch-1", "epoch-2"]);
    assert_eq!(names(&dir.join("valid")), ["epoch-1", "epoch-2"]);
    let expected = [
        "model-1.mpk",
        "model-2.mpk",
        "optim-1.mpk",
        "optim-2.mpk",
        "scheduler-1.mpk",
        "scheduler-2.mpk",
    ];
    assert_eq!(names(&dir.join("checkpoint")), expected);
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    for name in ["notes.txt", "config.json"] {
        let dir = fresh_dir("foreign");
        fs::create_dir_all(dir.join("train")).unwrap();
        fs::write(dir.join(name), "{}").unwrap();
        for more in [&[][..], &["--resume"]] {
            let stderr = fail(tiny(&dir, more), 1);
            assert!(stderr.contains("give another directory with --out"), "{stderr}");
        }
        assert_eq!(names(&dir), [name, "train"]);
    }
}
