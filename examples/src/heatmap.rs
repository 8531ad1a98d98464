//! Attention weights drawn in the terminal: one row per query, one column per key, in percent.

use std::io::IsTerminal;

use crate::columns::{pad_left, pad_right};

/// How many rows and columns are drawn at most; more would not fit side by side in a terminal.
pub const MAX_TOKENS: usize = 16;

/// Columns of the terminal that the maps of one line may take together.
const LINE_WIDTH: usize = 78;

/// Columns of the terminal that one weight takes: two shades, two digits, a gap.
const CELL: usize = 5;

/// Space between two maps on one line.
const GAP: usize = 2;

/// Colours of the 256-colour palette from dark to bright; those from `FIRST_BRIGHT` take dark text.
const RAMP: [u8; 8] = [233, 53, 89, 125, 161, 203, 215, 229];
const FIRST_BRIGHT: usize = 5;

/// One head's weights with the tokens that its rows and columns stand for.
#[derive(Debug)]
pub struct Heatmap<'a> {
    title: String,
    labels: &'a [String],
    weights: Vec<f64>,
}

impl<'a> Heatmap<'a> {
    /// A square map; `weights` is `[seq_q, seq_k]` row by row, each a probability in `[0, 1]`.
    ///
    /// # Panics
    /// When `weights` does not have one value per pair of labels.
    pub fn new(title: impl Into<String>, labels: &'a [String], weights: Vec<f64>) -> Self {
        let (expected, actual) = (labels.len() * labels.len(), weights.len());
        assert!(actual == expected, "weights: expected {expected} (seq_q * seq_k), got {actual}");
        Self { title: title.into(), labels, weights }
    }

    /// The lines of the drawing: the title, the keys, then a line per query.
    fn lines(&self, colour: bool) -> Vec<String> {
        let drawn = self.labels.len().min(MAX_TOKENS);
        let keys = self.labels[..drawn].iter().map(|key| format!(" {} ", pad_left(key, CELL - 2)));
        let mut lines = vec![self.title.clone(), format!("   {}", keys.collect::<String>())];
        let rows = self.weights.chunks(self.labels.len());
        for (query, row) in self.labels.iter().zip(rows).take(drawn) {
            let cells = row[..drawn].iter().map(|&weight| cell(weight, colour));
            lines.push(format!("{} {}", pad_left(query, 2), cells.collect::<String>()));
        }
        lines
    }
}

/// How many maps of this many tokens fit beside each other.
pub fn beside(tokens: usize) -> usize {
    // The last map on a line needs no gap after it.
    ((LINE_WIDTH + GAP) / (width(tokens) + GAP)).max(1)
}

/// Columns of the terminal that a map takes.
fn width(tokens: usize) -> usize {
    3 + CELL * tokens.min(MAX_TOKENS)
}

/// Draws the maps from left to right and then downwards, as many beside each other as fit.
pub fn draw(maps: &[Heatmap], colour: bool) -> String {
    let per_line = maps.first().map_or(1, |map| beside(map.labels.len()));
    let mut drawing = String::new();
    for group in maps.chunks(per_line) {
        if !drawing.is_empty() {
            drawing.push('\n');
        }
        let group: Vec<_> =
            group.iter().map(|map| (width(map.labels.len()), map.lines(colour))).collect();
        let height = group.iter().map(|(_, lines)| lines.len()).max().unwrap_or(0);
        for i in 0..height {
            let parts = group.iter().map(|(width, lines)| {
                let line = lines.get(i).map_or("", String::as_str);
                pad_right(line, width + GAP)
            });
            drawing += parts.collect::<String>().trim_end();
            drawing.push('\n');
        }
    }
    drawing
}

/// Whether colour helps: standard output is a terminal, and `NO_COLOR` (<https://no-color.org>) is
/// not set.
pub fn colour_wanted() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !refused && !dumb
}

/// One weight in percent: on a coloured ground, or after two shade blocks that need no colour.
fn cell(weight: f64, colour: bool) -> String {
    let percent = (weight * 100.0).round();
    let digits = if percent < 1.0 { "·".into() } else { percent.to_string() };
    if colour {
        let step = ((weight * RAMP.len() as f64) as usize).min(RAMP.len() - 1);
        let text = if step < FIRST_BRIGHT { 255 } else { 16 };
        return format!("\x1b[38;5;{text};48;5;{}m{digits:>4} \x1b[0m", RAMP[step]);
    }
    let shade = match percent {
        ..10.0 => "  ",
        ..25.0 => "░░",
        ..50.0 => "▒▒",
        ..75.0 => "▓▓",
        _ => "██",
    };
    // Two digits stay under their label; 100 takes the gap too.
    format!("{shade}{:<3}", format!("{digits:>2}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::display_width;

    fn labels(text: &str) -> Vec<String> {
        text.chars().map(String::from).collect()
    }

    #[test]
    fn wide_and_narrow_labels_line_up() {
        let labels = labels("苹a");
        let map = Heatmap::new("head 1", &labels, vec![1.0, 0.0, 0.42, 0.08]);
        let expected = "head 1\n     苹    a\n苹 ██100   ·\n a ▒▒42    8\n";
        assert_eq!(draw(&[map], false), expected);
    }

    #[test]
    fn two_maps_of_seven_tokens_fit_side_by_side() {
        let labels = labels("远方有颗苹果树");
        let maps = [1, 2].map(|n| Heatmap::new(format!("head {n}"), &labels, vec![1.0 / 7.0; 49]));
        for colour in [false, true] {
            let drawing = draw(&maps, colour);
            assert_eq!(drawing.lines().count(), 9);
            assert!(drawing.lines().all(|line| display_width(line) <= LINE_WIDTH));
        }
    }

    #[test]
    fn colour_does_not_move_a_column() {
        let labels = labels("ab");
        let map = Heatmap::new("", &labels, vec![1.0, 0.0, 0.5, 0.5]);
        let [plain, coloured] = [false, true].map(|colour| map.lines(colour));
        let widths = |lines: &[String]| lines.iter().map(|l| display_width(l)).collect::<Vec<_>>();
        assert_eq!(widths(&plain), widths(&coloured));
    }

    #[test]
    fn a_long_sentence_shows_its_first_tokens() {
        let labels = labels(&"x".repeat(MAX_TOKENS + 4));
        let map = Heatmap::new("", &labels, vec![0.05; labels.len() * labels.len()]);
        assert_eq!(draw(&[map], false).lines().count(), 2 + MAX_TOKENS);
    }
}
