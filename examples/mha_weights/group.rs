//! Layers that differ in their number alone, as one.

use std::collections::HashMap;
use std::hash::Hash;

/// A layer's prefix around its number, which is the first in it: `h.`, 3 and `.attn`.
type Parts = (String, Option<u64>, String);

/// Layers with the same contents.
#[derive(Debug)]
pub(crate) struct Group<T> {
    before: String,
    numbers: Vec<u64>,
    after: String,
    /// What they have in common.
    pub(crate) contents: T,
}

impl<T> Group<T> {
    /// The prefix of all of them: `model.layers.{0-31}.self_attn`.
    pub(crate) fn prefix(&self) -> String {
        let Self { before, numbers, after, .. } = self;
        let prefix = match numbers.as_slice() {
            [] => format!("{before}{after}"),
            [number] => format!("{before}{number}{after}"),
            numbers => format!("{before}{{{}}}{after}", ranges(numbers)),
        };
        if prefix.is_empty() { "(no prefix)".to_string() } else { prefix }
    }
}

/// Groups the layers by what lies around their number and by their contents, in the order of the first
/// of each.
pub(crate) fn groups<T: Clone + Eq + Hash>(
    layers: impl IntoIterator<Item = (String, T)>,
) -> Vec<Group<T>> {
    let mut groups: Vec<Group<T>> = Vec::new();
    let mut places = HashMap::new();
    for (prefix, contents) in layers {
        let (before, number, after) = parts(&prefix);
        let key = (before.clone(), number.is_some(), after.clone(), contents.clone());
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Group { before, numbers: Vec::new(), after, contents });
        }
        groups[place].numbers.extend(number);
    }
    groups
}

fn parts(prefix: &str) -> Parts {
    let mut start = 0;
    for name in prefix.split('.') {
        let end = start + name.len();
        // Not one that is written otherwise than it would be printed.
        if let Some(number) = name.parse::<u64>().ok().filter(|number| number.to_string() == name) {
            return (prefix[..start].to_string(), Some(number), prefix[end..].to_string());
        }
        start = end + 1;
    }
    (prefix.to_string(), None, String::new())
}

/// `0-31`, `0,2..30` or `0-4,6`: numbers in rising order.
fn ranges(numbers: &[u64]) -> String {
    if let [first, second, .., last] = numbers
        && let step = second - first
        && step > 1
        && numbers.len() > 3
        && numbers.windows(2).all(|pair| pair[1] - pair[0] == step)
    {
        return format!("{first},{second}..{last}");
    }
    let runs = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b)).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        other => other.iter().map(u64::to_string).collect(),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixes(layers: &[(&str, char)]) -> Vec<String> {
        let layers = layers.iter().map(|(prefix, contents)| (prefix.to_string(), *contents));
        groups(layers).iter().map(Group::prefix).collect()
    }

    #[test]
    fn equal_layers_are_one() {
        let layers = [("h.0.attn", 'a'), ("h.1.attn", 'a'), ("h.2.attn", 'b'), ("h.3.attn", 'a')];
        assert_eq!(prefixes(&layers), ["h.{0-1,3}.attn", "h.2.attn"]);
        assert_eq!(prefixes(&[("0", 'a'), ("1", 'a')]), ["{0-1}"]);
        // The first number counts, and what lies around it.
        let layers = [("a.0.1", 'a'), ("a.1.1", 'a'), ("a.1.2", 'a'), ("b.0.1", 'a')];
        assert_eq!(prefixes(&layers), ["a.{0-1}.1", "a.1.2", "b.0.1"]);
    }

    #[test]
    fn layers_without_a_number_stand_alone() {
        assert_eq!(prefixes(&[("", 'a')]), ["(no prefix)"]);
        assert_eq!(prefixes(&[("encoder", 'a'), ("decoder", 'a')]), ["encoder", "decoder"]);
        assert_eq!(prefixes(&[("h.01.attn", 'a'), ("h.1.attn", 'a')]), ["h.01.attn", "h.1.attn"]);
        let huge = "h.99999999999999999999.attn";
        assert_eq!(prefixes(&[(huge, 'a')]), [huge]);
    }

    #[test]
    fn every_other_number_is_a_step() {
        assert_eq!(ranges(&[0, 2, 4, 6]), "0,2..6");
        assert_eq!(ranges(&[3, 7, 11, 15, 19]), "3,7..19");
        assert_eq!(ranges(&[0, 2, 4]), "0,2,4");
        assert_eq!(ranges(&[0, 1, 2, 3]), "0-3");
        assert_eq!(
            ranges(&[0, 1, 5, u64::MAX - 1, u64::MAX]),
            format!("0-1,5,{}-{}", u64::MAX - 1, u64::MAX)
        );
    }
}
