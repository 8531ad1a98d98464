//! A run that was killed goes on and ends with the weights of one that was not.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::support::{fail, fresh_dir, names, succeed, tiny, weights};

/// A run without a break, which the others are compared to.
fn unbroken() -> &'static Path {
    static RUN: OnceLock<PathBuf> = OnceLock::new();
    RUN.get_or_init(|| {
        let dir = fresh_dir("unbroken");
        succeed(tiny(&dir, &[]));
        dir
    })
}

/// Starts a run, kills it as soon as it prints `step`, and returns the last step that it took.
fn kill_at(dir: &Path, more: &[&str], step: usize) -> usize {
    let mut child = tiny(dir, more).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut steps = lines
        .filter_map(|line| line.strip_prefix("step ")?.split_once('/')?.0.parse::<usize>().ok());
    assert!(steps.any(|taken| taken == step), "the run never came to step {step}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!dir.join("model.mpk").exists(), "the run ended before it was killed");
    // What it printed between the line and the kill is still in the pipe.
    steps.last().unwrap_or(step)
}

/// The epoch that `output` says the run goes on after, and the training steps it then took.
fn resumed_after(output: &str) -> (usize, usize) {
    let line = output.lines().find(|line| line.starts_with("resuming the run in ")).expect(output);
    let epoch = line.rsplit_once(' ').unwrap().1.parse().unwrap();
    (epoch, output.lines().filter(|line| line.starts_with("step ")).count())
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() { copy_dir(&from, &to) } else { fs::copy(from, to).map(drop).unwrap() }
    }
}

/// How a kill in the middle of a write can leave a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Missing,
    Empty,
    Half,
    LastByte,
}

impl Damage {
    fn apply(self, file: &Path) {
        let length = fs::metadata(file).unwrap().len();
        let keep = match self {
            Self::Missing => return fs::remove_file(file).unwrap(),
            Self::Empty => 0,
            Self::Half => length / 2,
            Self::LastByte => length - 1,
        };
        fs::File::options().write(true).open(file).unwrap().set_len(keep).unwrap();
    }
}

#[test]
fn the_same_run_twice_gives_the_same_weights_and_another_seed_others() {
    let [again, other] = ["again", "other_seed"].map(fresh_dir);
    succeed(tiny(&again, &[]));
    succeed(tiny(&other, &["--seed=8"]));
    assert_eq!(weights(&again), weights(unbroken()));
    assert_ne!(weights(&other), weights(unbroken()));
}

#[test]
fn killed_in_the_middle_of_an_epoch() {
    let plan = ["--steps=450", "--steps-per-epoch=150"];
    let [whole, killed] = ["killed_whole", "killed"].map(fresh_dir);
    succeed(tiny(&whole, &plan));
    let last_step = kill_at(&killed, &plan, 200);

    let output = succeed(tiny(&killed, &[&plan[..], &["--resume"]].concat()));
    // On a busy machine the kill may come late.
    let epoch = last_step / 150;
    assert!(epoch == 1 || epoch == 2, "killed at step {last_step}");
    assert_eq!(resumed_after(&output), (epoch, 450 - 150 * epoch), "{last_step}: {output}");
    assert_eq!(weights(&killed), weights(&whole));
    for epoch in 1..=3 {
        let log = |dir: &Path| {
            fs::read_to_string(dir.join(format!("train/epoch-{epoch}/Loss.log"))).unwrap()
        };
        assert_eq!(log(&killed).lines().count(), 150);
        assert_eq!(log(&killed), log(&whole));
    }
}

#[test]
fn killed_before_the_first_checkpoint() {
    let plan = ["--steps=160", "--steps-per-epoch=150"];
    let [whole, killed] = ["early_whole", "early"].map(fresh_dir);
    succeed(tiny(&whole, &plan));
    kill_at(&killed, &plan, 5);

    let output = succeed(tiny(&killed, &[&plan[..], &["--resume"]].concat()));
    assert!(output.contains("no complete checkpoint in "), "{output}");
    assert_eq!(weights(&killed), weights(&whole));
}

/// One epoch is repeated, whichever file of the newest checkpoint the write had come to.
#[test]
fn killed_in_the_middle_of_a_write() {
    for part in ["model", "optim", "scheduler"] {
        for damage in [Damage::Missing, Damage::Empty, Damage::Half, Damage::LastByte] {
            let dir = fresh_dir(&format!("write_{part}_{damage:?}"));
            copy_dir(unbroken(), &dir);
            damage.apply(&dir.join(format!("checkpoint/{part}-4.mpk")));

            let output = succeed(tiny(&dir, &["--resume"]));
            assert_eq!(resumed_after(&output), (3, 5), "{part} {damage:?}: {output}");
            assert_eq!(weights(&dir), weights(unbroken()), "{part} {damage:?}");
        }
    }
}

#[test]
fn without_a_complete_checkpoint_the_run_begins_again() {
    let dir = fresh_dir("none_complete");
    copy_dir(unbroken(), &dir);
    Damage::Half.apply(&dir.join("checkpoint/model-3.mpk"));
    Damage::Missing.apply(&dir.join("checkpoint/optim-4.mpk"));

    let output = succeed(tiny(&dir, &["--resume"]));
    assert!(output.contains("no complete checkpoint in "), "{output}");
    assert_eq!(output.lines().filter(|line| line.starts_with("step ")).count(), 20);
    assert_eq!(weights(&dir), weights(unbroken()));
}

#[test]
fn a_finished_run_has_nothing_left_to_train() {
    let dir = fresh_dir("finished");
    copy_dir(unbroken(), &dir);
    let output = succeed(tiny(&dir, &["--resume"]));
    assert_eq!(resumed_after(&output), (4, 0), "{output}");
    assert_eq!(weights(&dir), weights(unbroken()));
}

#[test]
fn with_nothing_to_resume_the_run_begins() {
    let dir = fresh_dir("nothing");
    let output = succeed(tiny(&dir, &["--resume"]));
    assert!(output.starts_with("nothing to resume in "), "{output}");
    assert_eq!(weights(&dir), weights(unbroken()));
}

#[test]
fn other_flags_than_the_run_began_with_are_refused() {
    let dir = fresh_dir("other_flags");
    copy_dir(unbroken(), &dir);
    let stderr = fail(tiny(&dir, &["--resume", "--heads=4", "--steps-per-epoch=6"]), 1);
    assert!(
        stderr.contains("it began with heads 2 (not 4), steps-per-epoch 5 (not 6)"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert_eq!(weights(&dir), weights(unbroken()));
}
