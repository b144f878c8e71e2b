//! Rows of styled text: what a screen consists of. It knows widths and looks, and not what the text means.
//!
//! Whatever becomes part of a row loses everything that could move a cursor, change a colour or turn the direction of the
//! text (K24): a model, a tool or a child may have written it.

use std::borrow::Cow;
use std::ops::Range;

use legwork_core::letters::reorders_or_hides;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// What stands for a tab.
const TAB: &str = "    ";

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Look {
    /// As the terminal shows text.
    #[default]
    Plain,
    /// Stressed.
    Strong,
    /// Stressed a little.
    Slanted,
    /// Beside the point.
    Faint,
    /// Code, and names of things.
    Code,
    /// The person's own words, and what works now.
    Accent,
    /// It went well.
    Good,
    /// It wants attention.
    Warning,
    /// It went wrong.
    Bad,
}

impl Look {
    /// What switches it on; what switches it off is always the same.
    fn code(self) -> Option<&'static str> {
        match self {
            Look::Plain => None,
            Look::Strong => Some("\u{1b}[1m"),
            Look::Slanted => Some("\u{1b}[3m"),
            Look::Faint => Some("\u{1b}[2m"),
            Look::Code => Some("\u{1b}[36m"),
            Look::Accent => Some("\u{1b}[1;36m"),
            Look::Good => Some("\u{1b}[32m"),
            Look::Warning => Some("\u{1b}[33m"),
            Look::Bad => Some("\u{1b}[31m"),
        }
    }
}

/// Whether looks are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// They are.
    On,
    /// Text is shown as it is, without any code for the terminal.
    Off,
}

/// One row of a screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    spans: Vec<(String, Look)>,
}

impl Row {
    /// A row with nothing on it.
    pub fn blank() -> Row {
        Row::default()
    }

    /// A row of one look.
    pub fn of(text: &str, look: Look) -> Row {
        Row::blank().and(text, look)
    }

    /// The row with more text at its end.
    #[must_use]
    pub fn and(mut self, text: &str, look: Look) -> Row {
        self.push(text, look);
        self
    }

    /// Appends text.
    pub fn push(&mut self, text: &str, look: Look) {
        let text = clean(text);
        if text.is_empty() {
            return;
        }
        match self.spans.last_mut() {
            Some((last, same)) if *same == look => last.push_str(&text),
            _ => self.spans.push((text.into_owned(), look)),
        }
    }

    /// The text without its looks.
    pub fn text(&self) -> String {
        self.spans.iter().map(|(text, _)| text.as_str()).collect()
    }

    /// Columns that it takes.
    pub fn columns(&self) -> usize {
        self.spans.iter().map(|(text, _)| text.width()).sum()
    }

    /// The bytes that show it.
    pub fn painted(&self, colours: Colours) -> String {
        let mut painted = String::new();
        for (text, look) in &self.spans {
            match (colours, look.code()) {
                (Colours::On, Some(code)) => {
                    painted.push_str(code);
                    painted.push_str(text);
                    painted.push_str("\u{1b}[0m");
                }
                (Colours::On, None) | (Colours::Off, _) => painted.push_str(text),
            }
        }
        painted
    }

    /// The row cut to so many columns; what is missing is marked.
    #[must_use]
    pub fn cut(self, columns: usize) -> Row {
        if self.columns() <= columns {
            return self;
        }
        let mut room = columns.saturating_sub(1);
        let mut cut = Row::blank();
        for (text, look) in &self.spans {
            for grapheme in text.graphemes(true) {
                let Some(left) = room.checked_sub(grapheme.width()) else {
                    cut.push("…", *look);
                    return cut;
                };
                room = left;
                cut.push(grapheme, *look);
            }
        }
        cut
    }

    /// The row broken into as many as are needed, between words where that is possible. Further rows begin with so many
    /// spaces.
    pub fn wrapped(&self, columns: usize, indent: usize) -> Vec<Row> {
        let cells: Vec<Cell<'_>> = self.spans.iter().flat_map(|(text, look)| cells(text, *look)).collect();
        let indent = indent.min(columns / 2);
        rows_of(&cells, &Frame { first: columns, further: columns.saturating_sub(indent) })
            .into_iter()
            .enumerate()
            .map(|(place, range)| {
                let begin = if place == 0 { String::new() } else { " ".repeat(indent) };
                row_of(&begin, &cells[range])
            })
            .collect()
    }
}

/// One visible character with everything that belongs to it.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    /// The bytes.
    pub text: &'a str,
    /// The place of the first of them in the text.
    pub at: usize,
    /// How it looks.
    pub look: Look,
    /// Columns that it takes.
    pub columns: usize,
}

/// The visible characters of a text.
pub fn cells(text: &str, look: Look) -> impl Iterator<Item = Cell<'_>> {
    let graphemes = text.grapheme_indices(true);
    graphemes.map(move |(at, text)| Cell { text, at, look, columns: columns_of(text) })
}

/// The row that cells make behind a beginning.
pub fn row_of(begin: &str, cells: &[Cell<'_>]) -> Row {
    let mut row = Row::of(begin, Look::Plain);
    for cell in cells {
        row.push(cell.text, cell.look);
    }
    row
}

/// The columns that there are for the cells of a text.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// In its first row.
    pub first: usize,
    /// In every further one.
    pub further: usize,
}

/// Breaks cells into rows: after a space where there is one, else within a word. The space at a break is shown nowhere.
/// There is always at least one row, and no text is lost, however narrow the frame is.
pub fn rows_of(cells: &[Cell<'_>], frame: &Frame) -> Vec<Range<usize>> {
    let mut rows = Vec::new();
    let mut begin = 0;
    loop {
        let room = if rows.is_empty() { frame.first } else { frame.further };
        let Some(over) = first_beyond(&cells[begin..], room.max(1)) else {
            rows.push(begin..cells.len());
            return rows;
        };
        let over = begin + over.max(1);
        let space = cells[begin..=over.min(cells.len() - 1)].iter().rposition(|cell| cell.text == " ");
        match space.filter(|space| *space > 0) {
            Some(space) => {
                rows.push(begin..begin + space);
                begin += space + 1;
            }
            None => {
                rows.push(begin..over);
                begin = over;
            }
        }
        if begin >= cells.len() {
            return rows;
        }
    }
}

/// The first cell that does not fit into so many columns.
fn first_beyond(cells: &[Cell<'_>], room: usize) -> Option<usize> {
    let mut used = 0;
    cells.iter().position(|cell| {
        used += cell.columns;
        used > room
    })
}

/// Columns that a visible character takes when it is shown.
pub fn columns_of(grapheme: &str) -> usize {
    match grapheme.as_bytes() {
        b"\t" => TAB.len(),
        [b' '..=b'~'] => 1,
        _ => clean(grapheme).width(),
    }
}

/// The text without anything that does more than to be seen.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\t' => clean.push_str(TAB),
            character if character.is_control() || reorders_or_hides(character) => {}
            character => clean.push(character),
        }
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, columns: usize, indent: usize) -> Vec<String> {
        Row::of(text, Look::Plain).wrapped(columns, indent).iter().map(Row::text).collect()
    }

    #[test]
    fn rows_break_between_words_and_within_long_ones() {
        assert_eq!(wrapped("one two three", 8, 0), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 7, 2), ["one two", "  three"]);
        assert_eq!(wrapped("abcdefgh", 3, 0), ["abc", "def", "gh"]);
        assert_eq!(wrapped("", 3, 0), [""]);
        assert_eq!(wrapped("ab ", 2, 0), ["ab"]);
        assert_eq!(wrapped("漢字漢字", 5, 0), ["漢字", "漢字"]);
        assert_eq!(wrapped("漢字", 1, 0), ["漢", "字"]);
    }

    #[test]
    fn k24_a_row_shows_text_and_does_nothing() {
        let row = Row::of("a\u{1b}[2Jb\r\n\u{202e}c\u{9b}d\u{e0041}\te", Look::Bad);
        assert_eq!(row.text(), "a[2Jbcd    e");
        assert_eq!(row.painted(Colours::Off), "a[2Jbcd    e");
        assert_eq!(row.painted(Colours::On), "\u{1b}[31ma[2Jbcd    e\u{1b}[0m");
    }

    #[test]
    fn k24_a_family_is_cut_whole() {
        let family = "👨\u{200d}👩\u{200d}👧";
        let row = Row::of(&family.repeat(3), Look::Plain);
        assert_eq!(row.columns(), 6);
        assert_eq!(row.clone().cut(5).text(), format!("{}…", family.repeat(2)));
        assert_eq!(row.cut(6).text(), family.repeat(3));
    }
}
