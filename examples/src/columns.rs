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
}
