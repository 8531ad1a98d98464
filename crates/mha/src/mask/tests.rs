//! Every rule against a predicate of one line, over all pairs; all else against the rules.

use burn::backend::NdArray;
use burn::tensor::{Bool, Tensor};

use super::hidden::hides;
use super::visible::entries;
use super::visible::visible;
use super::*;

type B = NdArray;

const BATCH: usize = 2;
const N_HEADS: usize = 3;

/// A pair, and where query and key stand.
struct Pair {
    b: usize,
    /// The query, and its position.
    i: usize,
    query: i64,
    /// The column, and its position.
    j: usize,
    key: i64,
}

/// A rule said once more: whether the query sees the key.
type Sees = fn(&Pair) -> bool;

/// More queries than keys and fewer, with and without a gap, and with chosen rows.
fn frames() -> Vec<Frame> {
    let mut frames = Vec::new();
    for (seq_q, seq_k) in [(5, 7), (11, 7)] {
        for gap in [Gap::default(), Gap { after: 3, length: 13 }] {
            for offset in [Offset::BottomRight, Offset::At(4), vec![-3, 2].into()] {
                for rows in [None, Some(vec![4, 0, 3])] {
                    let offset = offset.clone();
                    frames.push(Frame { offset, gap, rows, ..Frame::new(BATCH, seq_q, seq_k) });
                }
            }
        }
    }
    frames
}

fn offsets() -> [Offset; 4] {
    [Offset::BottomRight, Offset::At(1), vec![-2, 5].into(), vec![3].into()]
}

/// Where a query stands for a rule with this offset: written without the frame's own functions.
fn stands_at(offset: &Offset, frame: &Frame, b: usize, i: usize) -> i64 {
    let of = |offset: &Offset| match offset {
        Offset::BottomRight => None,
        Offset::At(at) => Some(*at),
        Offset::PerEntry(at) => Some(at[b % at.len()]),
    };
    let last = position(frame, frame.seq_k - 1);
    let bottom_right = last + 1 - frame.seq_q as i64;
    i as i64 + of(offset).or(of(&frame.offset)).unwrap_or(bottom_right)
}

fn position(frame: &Frame, j: usize) -> i64 {
    let dropped = if j < frame.gap.after { 0 } else { frame.gap.length };
    (j + dropped) as i64
}

/// Every rule with its predicate; the rules that have an offset get this one.
fn rules(offset: &Offset, frame: &Frame) -> Vec<(Rule, Sees)> {
    const QUERY: [u32; 11] = [0, 0, 3, 3, 1, 0, 4, 4, 2, 2, 9];
    const KEY: [[u32; 7]; 2] = [[0, 3, 0, 0, 1, 2, 2], [3, 3, 3, 8, 0, 0, 4]];
    let offset = || offset.clone();
    let window = |left, right, sinks| Rule::Window { left, right, sinks, offset: offset() };
    let query = vec![QUERY[..frame.seq_q].to_vec()];
    let key = KEY.map(Vec::from).to_vec();
    let mut rules: Vec<(Rule, Sees)> = vec![
        (Rule::Causal { offset: offset() }, |p| p.key <= p.query),
        (window(Some(2), Some(0), 0), |p| (0..=2).contains(&(p.query - p.key))),
        (window(Some(0), Some(3), 0), |p| (0..=3).contains(&(p.key - p.query))),
        (window(None, Some(1), 0), |p| p.key - p.query <= 1),
        (window(Some(1), None, 0), |p| p.query - p.key <= 1),
        (window(None, None, 0), |_| true),
        (window(Some(1), Some(0), 2), |p| (p.query - p.key <= 1 || p.key < 2) && p.key <= p.query),
        (window(Some(1), None, 2), |p| p.query - p.key <= 1 || p.key < 2),
        (window(Some(usize::MAX), Some(usize::MAX), usize::MAX), |_| true),
        (Rule::Lengths { lengths: vec![3, 0] }, |p| p.key < [3, 0][p.b]),
        (Rule::Lengths { lengths: vec![7] }, |p| p.key < 7),
        (Rule::LeftPadding { padding: vec![0, 3] }, |p| p.key >= [0, 3][p.b]),
        (Rule::LeftPadding { padding: vec![2] }, |p| p.key >= 2),
        (Rule::Segments { query, key }, |p| QUERY[p.i] == KEY[p.b][p.j]),
        (Rule::Prefix { lengths: vec![2, 4], offset: offset() }, |p| {
            p.key <= p.query || p.key < [2, 4][p.b]
        }),
    ];
    let chunked = |size| Rule::Chunked { size, offset: offset() };
    rules.push((chunked(1), |p| p.key == p.query));
    rules.push((chunked(3), |p| p.key.div_euclid(3) == p.query.div_euclid(3)));
    rules.push((chunked(usize::MAX), |p| p.query >= 0 && p.key >= 0));
    rules
}

/// Every rule alone in every frame, and each with the one after it: what it is, the frame, the mask
/// and whether entry `b`, row `i` sees column `j`.
fn each_case(mut test: impl FnMut(&str, &Frame, &Mask<B>, &dyn Fn(usize, usize, usize) -> bool)) {
    for frame in frames() {
        for offset in offsets() {
            let rules = rules(&offset, &frame);
            for (n, (rule, sees)) in rules.iter().enumerate() {
                let (next, next_sees) = &rules[(n + 1) % rules.len()];
                let pair = |b: usize, row: usize, j: usize| {
                    let i = frame.rows.as_ref().map_or(row, |rows| rows[row]);
                    let query = stands_at(&offset, &frame, b, i);
                    Pair { b, i, query, j, key: position(&frame, j) }
                };
                let name = format!("{rule:?} in {frame:?}");
                let alone = |b, i, j| sees(&pair(b, i, j));
                test(&name, &frame, &Mask::from(rule.clone()), &alone);
                let both = |b, i, j| alone(b, i, j) && next_sees(&pair(b, i, j));
                let mask = Mask::from(rule.clone()).and(next.clone().into());
                test(&format!("{next:?} and {name}"), &frame, &mask, &both);
            }
        }
    }
}

#[test]
fn rules_hide_what_their_predicates_say() {
    each_case(|name, frame, mask, sees| {
        mask.check(frame, N_HEADS).unwrap();
        for (b, i) in (0..BATCH).flat_map(|b| (0..frame.n_rows()).map(move |i| (b, i))) {
            let row = visible(mask.rules(), frame, b, 0..frame.seq_k)(i);
            for j in 0..frame.seq_k {
                assert_eq!(row.contains(j), sees(b, i, j), "{name}: {b} {i} {j}");
                assert_eq!(hides(mask.rules(), frame, b, i, j), !sees(b, i, j), "{name}");
                let words = mask.hiding_rule(frame, b, 1, i, j);
                assert_eq!(words.is_none(), sees(b, i, j), "{name}");
            }
        }
    });
}

#[test]
fn tiles_are_exact_for_rules() {
    let dense = Mask::block(Tensor::<B, 2>::zeros([1, 1], &Default::default()).bool());
    each_case(|name, frame, mask, sees| {
        let (rows, columns) = (frame.n_rows(), frame.seq_k);
        for (b, start, left) in [(0, 0, 0), (1, 0, 0), (0, 1, 2), (1, 2, 3)] {
            for (end, right) in (start..=rows).flat_map(|e| (left..=columns).map(move |r| (e, r))) {
                let pairs = || (start..end).flat_map(|i| (left..right).map(move |j| (i, j)));
                let expected = if !pairs().any(|(i, j)| sees(b, i, j)) {
                    Tile::Empty
                } else if pairs().all(|(i, j)| sees(b, i, j)) {
                    Tile::Full
                } else {
                    Tile::Partial
                };
                let tile = mask.tile_in(frame, b, start..end, left..right);
                assert_eq!(tile, expected, "{name}: {b} {start}..{end} {left}..{right}");
                let dense = mask.clone().and(dense.clone());
                let dense = dense.tile_in(frame, b, start..end, left..right);
                assert_eq!(dense == Tile::Empty, expected == Tile::Empty, "{name}");
                assert_ne!(dense, Tile::Full, "{name}");
            }
        }
    });
}

/// The tensors of a call, `hidden` of `[batch or 1, n_heads or 1, rows, seq_k]` spread out.
fn spread(hidden: Option<Tensor<B, 4, Bool>>, dims: [usize; 4]) -> Vec<bool> {
    match hidden {
        Some(hidden) => hidden.expand(dims).into_data().iter().collect(),
        None => vec![false; dims.iter().product()],
    }
}

#[test]
fn tensors_hold_what_the_rules_say() {
    let device = Default::default();
    each_case(|name, frame, mask, sees| {
        let (rows, seq_k) = (frame.n_rows(), frame.seq_k);
        let pairs = |b| (0..rows).flat_map(move |i| (0..seq_k).map(move |j| (b, i, j)));
        let expected: Vec<bool> =
            (0..BATCH).flat_map(pairs).map(|(b, i, j)| !sees(b, i, j)).collect();
        let hidden = mask.hidden_pairs(frame, &device);
        assert_eq!(hidden.is_some(), expected.contains(&true), "{name}");
        if let Some(hidden) = &hidden {
            let dims = [entries(mask.rules(), frame), 1, rows, seq_k];
            assert_eq!(hidden.dims(), dims, "{name}");
        }
        assert_eq!(spread(hidden, [BATCH, 1, rows, seq_k]), expected, "{name}");

        let keys = |b| (0..seq_k).map(move |j| !(0..rows).any(|i| sees(b, i, j)));
        let expected: Vec<bool> = (0..BATCH).flat_map(keys).collect();
        let hidden = mask.hidden_keys(frame, &device);
        assert_eq!(hidden.is_some(), expected.contains(&true), "{name}");
        let hidden = hidden.map(|keys| keys.unsqueeze_dims(&[1, 2]));
        assert_eq!(spread(hidden, [BATCH, 1, 1, seq_k]), expected, "{name}");
    });
}

/// A window of four tokens over values 1 to 10, in steps through a cache that drops what no window
/// reaches any more: each query averages what it would in one pass.
#[test]
fn a_window_in_steps_is_the_window_in_one() {
    let window = Mask::<B>::window(3, 0);
    let expected = [1.0, 1.5, 2.0, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5];
    for steps in [vec![10], vec![7, 1, 1, 1], vec![3, 6, 1], vec![1; 10]] {
        for sinks in [0, 1] {
            let (mut past, mut averages) = (0, Vec::new());
            for seq_q in steps.clone() {
                let dropped = past.max(3 + sinks) - (3 + sinks);
                let gap = Gap { after: sinks, length: dropped };
                let frame = Frame { gap, ..Frame::new(1, seq_q, past - dropped + seq_q) };
                let visible = visible(window.rules(), &frame, 0, 0..frame.seq_k);
                averages.extend((0..seq_q).map(|i| {
                    let keys: Vec<usize> = visible(i).iter().flatten().collect();
                    let sum: usize = keys.iter().map(|&j| 1 + frame.key_position(j)).sum();
                    assert_eq!(frame.query_position(0, i), (past + i) as i64);
                    sum as f64 / keys.len() as f64
                }));
                past += seq_q;
            }
            assert_eq!(averages, expected, "{steps:?}");
        }
    }
}
