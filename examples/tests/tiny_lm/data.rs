//! Characters, the held-out part, and batches.

use burn::{
    backend::NdArray,
    tensor::{Int, Tensor},
};

use crate::{
    batches::{batch, random_starts, spread_starts},
    corpus::Corpus,
    support::{fresh_dir, text_file},
    vocabulary::Vocabulary,
};

fn values(tensor: Tensor<NdArray, 2, Int>) -> Vec<i64> {
    tensor.into_data().convert::<i64>().into_vec().unwrap()
}

#[test]
fn tokens_are_the_places_of_characters() {
    let vocabulary = Vocabulary::of("banana 苹果");
    assert_eq!(vocabulary.len(), 6);
    assert_eq!(vocabulary.encode("nab 果"), Ok(vec![3, 1, 2, 0, 4]));
    assert_eq!(vocabulary.decode(&[2, 1, 3, 5]), "ban苹");
    assert_eq!(vocabulary.encode("band"), Err('d'));
}

#[test]
fn the_last_tenth_is_held_out() {
    let file = fresh_dir("held_out").with_extension("txt");
    text_file(&file, "aaaaaaaaaaaaaaaaaaéé");
    let corpus = Corpus::read(Some(&file), 1).unwrap();
    assert_eq!((corpus.training, corpus.validation), (vec![0; 18], vec![1; 2]));
    let error = Corpus::read(Some(&file), 2).unwrap_err();
    assert!(error.contains("it has 20 characters, and a context of 2 needs 30 or more"), "{error}");
}

#[test]
fn the_default_text_is_plain_ascii_of_few_characters() {
    let corpus = Corpus::read(None, 64).unwrap();
    assert!(crate::corpus::FABLES.is_ascii());
    assert!(corpus.training.len() > 20_000 && corpus.vocabulary.len() < 60);
}

#[test]
fn the_target_of_a_token_is_the_next() {
    let text: Vec<i32> = (10..20).collect();
    let batch = batch::<NdArray>(&text, &[0, 6], 3, &Default::default());
    assert_eq!(values(batch.tokens), [10, 11, 12, 16, 17, 18]);
    assert_eq!(values(batch.targets), [11, 12, 13, 17, 18, 19]);
}

#[test]
fn seed_and_step_decide_where_stretches_begin_and_all_places_come() {
    let starts = |seed, step| random_starts(12, 4, 50, seed, step);
    assert_eq!(starts(1, 2), starts(1, 2));
    assert_ne!(starts(1, 2), starts(1, 3));
    assert_ne!(starts(1, 2), starts(2, 2));
    let mut all = starts(1, 2);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, (0..8).collect::<Vec<_>>(), "the last stretch ends a character before the end");
}

#[test]
fn validation_stretches_do_not_overlap_and_spread_over_the_text() {
    assert_eq!(spread_starts(13, 4, 10), [0, 4, 8]);
    assert_eq!(spread_starts(12, 4, 10), [0, 4]);
    assert_eq!(spread_starts(41, 4, 5), [0, 8, 16, 24, 32]);
    assert_eq!(spread_starts(5, 4, 1), [0]);
}
