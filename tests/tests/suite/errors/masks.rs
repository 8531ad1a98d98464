//! Masks that do not fit, by rule and field.

use mha::oracle::Sizes;
use mha::{Mask, MhaInput, MultiHeadAttentionConfig, Offset, Rule, Tile};
use mha_tests::AnyBackend;

use super::{assert_refuses, assert_says, mask, panic_text, zeros};

type M = Mask<AnyBackend>;

/// Two entries of five queries over seven keys, in three heads.
const SIZES: Sizes = Sizes { batch: 2, n_heads: 3, seq_q: 5, seq_k: 7, ..Sizes::ONE };

/// Every way to use a mask refuses it in these words.
#[track_caller]
fn refused(mask: M, said: &str) {
    assert_says(mask.visible_pairs(&SIZES), said);
    assert_says(mask.draw(&SIZES, 0, 0), said);
    assert_says(mask.try_tile(&SIZES, 0, 0..1, 0..1), said);
    assert_eq!(panic_text(|| mask.tile(&SIZES, 0, 0..1, 0..1)), said);
    let module = MultiHeadAttentionConfig::new(12, 3).init(&Default::default());
    let input = MhaInput::new(zeros([2, 5, 12]), zeros([2, 7, 12]), zeros([2, 7, 12]));
    assert_refuses(&module, input.mask(mask), said);
}

#[test]
fn rules() {
    let offset = || Offset::from(vec![0; 3]);
    let entries = |mask, name| {
        refused(mask, &format!("{name} must have 1 or 2 (batch) entries, got 3"));
    };
    entries(M::causal_at(offset()), "mask.causal.offset");
    let window = Rule::Window { left: None, right: None, sinks: 0, offset: offset() };
    entries(window.into(), "mask.window.offset");
    entries(Rule::Prefix { lengths: vec![1], offset: offset() }.into(), "mask.prefix.offset");
    entries(Rule::Chunked { size: 2, offset: offset() }.into(), "mask.chunked.offset");
    entries(M::lengths(vec![1; 3]), "mask.lengths");
    entries(M::left_padding(vec![1; 3]), "mask.left_padding");
    entries(M::prefix(vec![1; 3]), "mask.prefix.lengths");
    entries(M::cross_segments(vec![vec![]; 3], vec![vec![0; 7]]), "mask.segments.query");
    entries(M::cross_segments(vec![vec![0; 5]], vec![vec![]; 3]), "mask.segments.key");

    refused(M::lengths(vec![7, 8]), "mask.lengths must be at most 7 (seq_k), got 8");
    refused(M::left_padding(vec![8]), "mask.left_padding must be at most 7 (seq_k), got 8");
    refused(
        M::cross_segments(vec![vec![0; 4]], vec![vec![0; 7]]),
        "mask.segments.query must have 5 (seq_q) ids in each entry, got 4",
    );
    refused(
        M::segments(vec![vec![0; 5]]),
        "mask.segments.key must have 7 (seq_k) ids in each entry, got 5",
    );
    refused(M::chunked(0), "mask.chunked.size must be at least 1, got 0");
    let one = Sizes { batch: 1, ..SIZES };
    let said = "mask.lengths must have 1 entry, got 2";
    assert_says(M::lengths(vec![1, 2]).visible_pairs(&one), said);
}

#[test]
fn dense() {
    let or_one = "each axis may also be 1, got";
    let four = "expected shape [2, 3, 5, 7] (batch, n_heads, seq_q, seq_k)";
    let three = "expected shape [2, 5, 7] (batch, seq_q, seq_k)";
    let two = "expected shape [5, 7] (seq_q, seq_k)";
    let keys = "expected shape [2, 7] (batch, seq_k)";
    refused(
        M::block(mask::<AnyBackend, 4>([2, 2, 5, 7])),
        &format!("mask.block: {four}, {or_one} [2, 2, 5, 7]"),
    );
    refused(
        M::keep(mask::<AnyBackend, 3>([3, 5, 7])),
        &format!("mask.keep: {three}, {or_one} [3, 5, 7]"),
    );
    refused(M::keep(mask::<AnyBackend, 2>([7, 5])), &format!("mask.keep: {two}, {or_one} [7, 5]"));
    refused(M::block_keys(mask([2, 5])), &format!("mask.block_keys: {keys}, {or_one} [2, 5]"));
    refused(M::keep_keys(mask([3, 7])), &format!("mask.keep_keys: {keys}, {or_one} [3, 7]"));
    let odd = M::from_fn([1, 1, 5, 6], &Default::default(), |_, _, _, _| true);
    refused(odd, &format!("mask.from_fn: {four}, {or_one} [1, 1, 5, 6]"));
}

#[test]
fn places() {
    let causal = M::causal();
    let tile = |entry, queries, keys, said: &str| {
        assert_says(causal.try_tile(&SIZES, entry, queries, keys), said);
    };
    tile(2, 0..1, 0..1, "entry must be below 2 (batch), got 2");
    tile(0, 0..6, 0..1, "queries must lie in 0..5 (seq_q), got 0..6");
    tile(0, 0..1, 7..8, "keys must lie in 0..7 (seq_k), got 7..8");
    let said = "queries must lie in 0..5 (seq_q), got 0..6";
    assert_eq!(panic_text(|| causal.tile(&SIZES, 0, 0..6, 0..1)), said);
    assert_eq!(causal.tile(&SIZES, 0, 5..5, 7..7), Tile::Empty);
    assert_says(causal.draw(&SIZES, 2, 0), "entry must be below 2 (batch), got 2");
    assert_says(causal.draw(&SIZES, 0, 3), "head must be below 3 (n_heads), got 3");
}
