//! Text in columns of the terminal, where a CJK character takes two and a colour code takes none.

use unicode_width::UnicodeWidthStr;

/// Columns of the terminal that `text` takes: two for a CJK character, none for a colour code.
pub fn display_width(text: &str) -> usize {
    let mut width = 0;
    for (i, part) in text.split("\x1b[").enumerate() {
        // After a colour code starts, everything up to its `m` is invisible.
        let visible = if i == 0 { part } else { part.split_once('m').map_or("", |(_, rest)| rest) };
        width += visible.width();
    }
    width
}

/// `text` with spaces before it up to `width` columns of the terminal.
pub fn pad_left(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(display_width(text))) + text
}

/// `text` with spaces after it up to `width` columns of the terminal.
pub fn pad_right(text: &str, width: usize) -> String {
    text.to_owned() + &" ".repeat(width.saturating_sub(display_width(text)))
}

/// A table's lines: the first column to the left, the others to the right.
pub fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| display_width(cell)).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { pad_right(cell, width) } else { pad_left(cell, width) }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    rows.iter().map(line).collect()
}

/// Three significant digits, or all before the point; for numbers of 0 and more.
pub fn significant(value: f64) -> String {
    let decimals = match value {
        ..0.995 => 3,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns_and_colours_none() {
        assert_eq!(display_width("苹果 a"), 6);
        assert_eq!(display_width("\x1b[38;5;16m苹\x1b[0m|"), 3);
        assert_eq!(pad_left("苹", 4) + "|", "  苹|");
        assert_eq!(pad_right("a", 3) + "|", "a  |");
    }

    #[test]
    fn three_digits_are_significant() {
        let texts = [0.1234, 0.9999, 1.234, 12.34, 99.99, 1234.5].map(significant);
        assert_eq!(texts, ["0.123", "1.00", "1.23", "12.3", "100", "1234"]);
    }
}
