//! What each mask rule and position bias means, said once more and independently of the library.

use mha::oracle::Sizes;
use mha::{Offset, Rule};

/// Whether a rule lets query `i` of entry `b` see key `j`.
pub fn sees(rule: &Rule, sizes: &Sizes, [b, i, j]: [usize; 3]) -> bool {
    let stands = |offset: &Offset| {
        let offset = match offset {
            Offset::BottomRight => sizes.seq_k as i64 - sizes.seq_q as i64,
            Offset::At(offset) => *offset,
            Offset::PerEntry(offsets) => *of(offsets, b),
        };
        (i as i64).saturating_add(offset)
    };
    let key = j as i64;
    match rule {
        Rule::Causal { offset } => key <= stands(offset),
        Rule::Window { left, right, sinks, offset } => {
            let query = stands(offset);
            let within = |distance: i64, most: Option<usize>| {
                most.is_none_or(|most| distance <= count(most))
            };
            let left = within(query.saturating_sub(key), *left) || j < *sinks;
            left && within(key.saturating_sub(query), *right)
        }
        Rule::Lengths { lengths } => j < *of(lengths, b),
        Rule::LeftPadding { padding } => j >= *of(padding, b),
        Rule::Segments { query, key } => of(query, b)[i] == of(key, b)[j],
        Rule::Prefix { lengths, offset } => key <= stands(offset) || j < *of(lengths, b),
        Rule::Chunked { size, offset } => {
            let size = count(*size);
            stands(offset).div_euclid(size) == key.div_euclid(size)
        }
        other => panic!("the tests do not know {other:?}"),
    }
}

/// A number of keys to compare distances with, however large.
fn count(keys: usize) -> i64 {
    i64::try_from(keys).unwrap_or(i64::MAX)
}

fn of<T>(items: &[T], entry: usize) -> &T {
    if items.len() == 1 { &items[0] } else { &items[entry] }
}

/// The slopes of `ALiBi` as its paper's code defines them, by recursion.
pub fn slopes(n_heads: usize) -> Vec<f64> {
    if n_heads.is_power_of_two() {
        let start = 2f64.powf(-8.0 / n_heads as f64);
        return (1..=n_heads).map(|head| start.powi(head as i32)).collect();
    }
    let closest = n_heads.next_power_of_two() / 2;
    let more = slopes(2 * closest).into_iter().step_by(2).take(n_heads - closest);
    slopes(closest).into_iter().chain(more).collect()
}
