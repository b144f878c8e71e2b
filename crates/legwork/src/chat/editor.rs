//! The text that is being typed: moves, deletions and how it lies on the screen. It sees no keys and no terminal, and has no
//! memory of earlier lines.
//!
//! Places are counted in bytes and always lie between two visible characters.

use std::ops::Range;

use legwork_core::letters::{reorders_or_hides, separates_lines};
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

use super::rows::{Frame, Look, cells, columns_of};

/// More than anybody types; a longer paste is refused whole.
pub const BYTES_MAX: usize = 1 << 20;

/// A text and the place at which typing goes on.
#[derive(Debug, Default)]
pub struct Editor {
    text: String,
    at: usize,
    /// What was cut last and can be put back.
    killed: String,
}

/// How the text lies on a screen.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The bytes of each row.
    pub rows: Vec<Range<usize>>,
    /// Row and column of the place.
    pub cursor: (usize, usize),
}

impl Editor {
    /// What is typed so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether nothing is typed.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The text before the place.
    pub fn before(&self) -> &str {
        &self.text[..self.at]
    }

    /// Replaces everything; the place is at the end.
    pub fn set(&mut self, text: &str) {
        text.clone_into(&mut self.text);
        self.at = self.text.len();
    }

    /// Takes the text out and leaves nothing.
    pub fn take(&mut self) -> String {
        self.at = 0;
        std::mem::take(&mut self.text)
    }

    /// Puts text at the place. Line ends of all kinds become one kind, and what cannot be seen is left out; only lines and
    /// tabs are kept. `false` when there would be too much; nothing changes then.
    pub fn insert(&mut self, text: &str) -> bool {
        let text = text.replace("\r\n", "\n").replace('\r', "\n").replace(separates_lines, "\n");
        let is_seen = |c: &char| !reorders_or_hides(*c) && (!c.is_control() || matches!(c, '\n' | '\t'));
        let seen: String = text.chars().filter(is_seen).collect();
        if self.text.len() + seen.len() > BYTES_MAX {
            return false;
        }
        self.text.insert_str(self.at, &seen);
        self.at += seen.len();
        // What was put in may have joined its neighbour, as an accent does.
        self.at = self.boundary_from(self.at);
        true
    }

    /// One character back.
    pub fn left(&mut self) {
        self.at = self.previous(self.at);
    }

    /// One character on.
    pub fn right(&mut self) {
        self.at = self.next(self.at);
    }

    /// To the beginning of this word, or of the one before.
    pub fn word_left(&mut self) {
        self.at = self.word_before();
    }

    /// Behind this word, or behind the next.
    pub fn word_right(&mut self) {
        self.at = self.word_after();
    }

    /// To the beginning of the line.
    pub fn home(&mut self) {
        self.at = self.line().start;
    }

    /// To the end of the line.
    pub fn end(&mut self) {
        self.at = self.line().end;
    }

    /// A row up, as the text lies on a screen. `false` when it is in the first already.
    pub fn up(&mut self, frame: &Frame) -> bool {
        let Layout { rows, cursor: (row, column) } = self.layout(frame);
        row.checked_sub(1).is_some_and(|row| self.go(&rows[row], column))
    }

    /// A row down. `false` when it is in the last already.
    pub fn down(&mut self, frame: &Frame) -> bool {
        let Layout { rows, cursor: (row, column) } = self.layout(frame);
        rows.get(row + 1).is_some_and(|row| self.go(row, column))
    }

    /// Deletes the character before the place.
    pub fn backspace(&mut self) {
        self.remove(self.previous(self.at)..self.at);
    }

    /// Deletes the character behind the place.
    pub fn delete(&mut self) {
        self.remove(self.at..self.next(self.at));
    }

    /// Cuts up to the end of the line; at the end, the line end itself.
    pub fn kill_to_end(&mut self) {
        let end = self.line().end;
        let end = if end == self.at { self.next(end) } else { end };
        self.kill(self.at..end);
    }

    /// Cuts from the beginning of the line; at the beginning, the line end before it.
    pub fn kill_to_start(&mut self) {
        let start = self.line().start;
        let start = if start == self.at { self.previous(start) } else { start };
        self.kill(start..self.at);
    }

    /// Cuts back to the last space.
    pub fn kill_back_to_space(&mut self) {
        let before = self.before().trim_end();
        let start = before.rfind(char::is_whitespace).map_or(0, |space| self.next(space));
        self.kill(start..self.at);
    }

    /// Cuts from the beginning of the word.
    pub fn kill_word_left(&mut self) {
        self.kill(self.word_before()..self.at);
    }

    /// Cuts to the end of the word.
    pub fn kill_word_right(&mut self) {
        self.kill(self.at..self.word_after());
    }

    /// Puts back what was cut last.
    pub fn yank(&mut self) -> bool {
        let killed = self.killed.clone();
        self.insert(&killed)
    }

    /// How the text lies in a frame. Rows are broken behind spaces where there are any; a single space may hang over the edge
    /// by one column.
    pub fn layout(&self, frame: &Frame) -> Layout {
        let mut rows = Rows { frame, rows: Vec::new(), start: 0, used: 0, space: None };
        let mut place = 0;
        for cell in cells(&self.text, Look::Plain) {
            match cell.text {
                "\n" => rows.end_line(place),
                text => rows.take(place..place + text.len(), cell.columns, text == " "),
            }
            place += cell.text.len();
        }
        let rows = rows.finish(place, self.at == place);
        let row = rows.iter().rposition(|row| row.start <= self.at).unwrap_or_default();
        let before = &self.text[rows.get(row).map_or(0, |row| row.start)..self.at];
        let column = before.graphemes(true).map(columns_of).sum();
        Layout { rows, cursor: (row, column) }
    }

    fn line(&self) -> Range<usize> {
        let start = self.before().rfind('\n').map_or(0, |end| end + 1);
        let rest = &self.text[self.at..];
        start..self.at + rest.find('\n').unwrap_or(rest.len())
    }

    fn go(&mut self, row: &Range<usize>, column: usize) -> bool {
        let mut left = column;
        self.at = row.start;
        for grapheme in self.text[row.clone()].graphemes(true) {
            let Some(rest) = left.checked_sub(columns_of(grapheme).max(1)) else { break };
            left = rest;
            self.at += grapheme.len();
        }
        true
    }

    fn remove(&mut self, range: Range<usize>) -> String {
        self.at = range.start;
        let removed = self.text.drain(range).collect();
        self.at = self.boundary_from(self.at);
        removed
    }

    fn kill(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.killed = self.remove(range);
        }
    }

    fn previous(&self, at: usize) -> usize {
        let mut cursor = GraphemeCursor::new(at, self.text.len(), true);
        cursor.prev_boundary(&self.text, 0).ok().flatten().unwrap_or(0)
    }

    fn next(&self, at: usize) -> usize {
        let mut cursor = GraphemeCursor::new(at, self.text.len(), true);
        cursor.next_boundary(&self.text, 0).ok().flatten().unwrap_or(self.text.len())
    }

    /// `at` if it lies between two characters, else the next place that does.
    fn boundary_from(&self, at: usize) -> usize {
        let mut cursor = GraphemeCursor::new(at, self.text.len(), true);
        if cursor.is_boundary(&self.text, 0).unwrap_or(true) { at } else { self.next(at) }
    }

    fn word_before(&self) -> usize {
        let words = self.before().split_word_bound_indices();
        let word = words.rev().find(|(_, piece)| piece.chars().any(char::is_alphanumeric));
        word.map_or(0, |(place, _)| place)
    }

    fn word_after(&self) -> usize {
        let mut words = self.text[self.at..].split_word_bound_indices();
        let word = words.find(|(_, piece)| piece.chars().any(char::is_alphanumeric));
        word.map_or(self.text.len(), |(place, piece)| self.at + place + piece.len())
    }
}

/// Rows that are being filled.
struct Rows<'a> {
    frame: &'a Frame,
    rows: Vec<Range<usize>>,
    /// Where the row begins that is being filled, and how much of it is.
    start: usize,
    used: usize,
    /// Behind the last space of the row: the place, and how much was used there.
    space: Option<(usize, usize)>,
}

impl Rows<'_> {
    fn room(&self) -> usize {
        // The widest characters take two columns.
        if self.rows.is_empty() { self.frame.first.max(2) } else { self.frame.further.max(2) }
    }

    fn take(&mut self, range: Range<usize>, columns: usize, is_space: bool) {
        if self.used + columns > self.room() {
            match self.space {
                _ if is_space && self.used == self.room() => {
                    return self.break_at(range.end, self.used + columns);
                }
                Some((place, used)) => self.break_at(place, used),
                None => self.break_at(range.start, self.used),
            }
        }
        self.used += columns;
        if is_space {
            self.space = Some((range.end, self.used));
        }
    }

    /// The row ends before `place`, where so much of it was used; the rest goes into the next.
    fn break_at(&mut self, place: usize, used: usize) {
        self.rows.push(self.start..place);
        self.start = place;
        self.used = self.used.saturating_sub(used);
        self.space = None;
    }

    fn end_line(&mut self, place: usize) {
        self.break_at(place, self.used);
        self.start = place + 1;
    }

    /// Behind a full row there is another one to type in.
    fn finish(mut self, end: usize, typing_there: bool) -> Vec<Range<usize>> {
        if typing_there && self.used >= self.room() {
            self.break_at(end, self.used);
        }
        self.rows.push(self.start..end);
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: Frame = Frame { first: 80, further: 80 };

    /// An editor whose place is at `|`.
    fn at(marked: &str) -> Editor {
        let (before, behind) = marked.split_once('|').expect("the place is marked");
        let text = format!("{before}{behind}");
        Editor { text, at: before.len(), killed: String::new() }
    }

    fn marked(editor: &Editor) -> String {
        format!("{}|{}", editor.before(), &editor.text[editor.at..])
    }

    fn check(before: &str, act: impl Fn(&mut Editor), after: &str) {
        let mut editor = at(before);
        act(&mut editor);
        assert_eq!(marked(&editor), after);
    }

    #[test]
    fn moves() {
        check("ab|c", Editor::left, "a|bc");
        check("|abc", Editor::left, "|abc");
        check("abc|", Editor::right, "abc|");
        check("one two.rs  |three", Editor::word_left, "one |two.rs  three");
        check("one| two, three", Editor::word_right, "one two|, three");
        check("a\nbc|d\ne", Editor::home, "a\n|bcd\ne");
        check("a\nb|cd\ne", Editor::end, "a\nbcd|\ne");
    }

    #[test]
    fn deletions_and_what_comes_back() {
        check("ab|c", Editor::backspace, "a|c");
        check("ab|c", Editor::delete, "ab|");
        check("say it ag|ain", Editor::kill_to_end, "say it ag|");
        check("a|\nb", Editor::kill_to_end, "a|b");
        check("a\nbc|d", Editor::kill_to_start, "a\n|d");
        check("see src/a.rs |now", Editor::kill_back_to_space, "see |now");
        check("src/main.rs|", Editor::kill_word_left, "src/|");
        check("|one two", Editor::kill_word_right, "| two");
        let mut editor = at("one two| three");
        editor.kill_back_to_space();
        editor.home();
        assert!(editor.yank());
        assert_eq!(marked(&editor), "two|one  three");
    }

    #[test]
    fn k24_characters_of_several_code_points_are_one() {
        let family = "👨\u{200d}👩\u{200d}👧";
        check(&format!("{family}|x"), Editor::left, &format!("|{family}x"));
        check(&format!("a{family}|x"), Editor::backspace, "a|x");
        check("e\u{301}|", Editor::backspace, "|");
        let mut editor = at("|\u{301}x");
        editor.insert("e");
        assert_eq!(marked(&editor), "e\u{301}|x", "the accent has joined the letter");
    }

    #[test]
    fn a_paste_keeps_its_lines_and_nothing_that_cannot_be_seen() {
        let mut editor = at("a|b");
        assert!(editor.insert("1\r\n2\r3\n\t\u{1b}[31m4\u{7}\u{e0041}"));
        assert_eq!(marked(&editor), "a1\n2\n3\n\t[31m4|b");
        assert!(!editor.insert(&"x".repeat(BYTES_MAX)));
        assert_eq!(marked(&editor), "a1\n2\n3\n\t[31m4|b");
    }

    #[test]
    fn rows_and_the_place_in_them() {
        let frame = Frame { first: 4, further: 4 };
        let lies = |rows: &[(usize, usize)], cursor| Layout {
            rows: rows.iter().map(|&(start, end)| start..end).collect(),
            cursor,
        };
        let layout = |marked: &str| at(marked).layout(&frame);
        assert_eq!(layout("abc|"), lies(&[(0, 3)], (0, 3)));
        assert_eq!(layout("abcd|"), lies(&[(0, 4), (4, 4)], (1, 0)));
        assert_eq!(layout("abcd|e"), lies(&[(0, 4), (4, 5)], (1, 0)));
        assert_eq!(layout("a\n|b"), lies(&[(0, 1), (2, 3)], (1, 0)));
        assert_eq!(layout("a|\n"), lies(&[(0, 1), (2, 2)], (0, 1)));
        assert_eq!(layout("漢漢漢|").cursor, (1, 2));
        assert_eq!(layout("a bcd|"), lies(&[(0, 2), (2, 5)], (1, 3)));
        assert_eq!(layout("abcd |"), lies(&[(0, 5), (5, 5)], (1, 0)));
        assert_eq!(layout("abc  d|"), lies(&[(0, 5), (5, 6)], (1, 1)));
        assert_eq!(layout("ab| cd"), lies(&[(0, 3), (3, 5)], (0, 2)));
    }

    #[test]
    fn up_and_down_keep_the_column() {
        check("abc\nde|f", |editor| assert!(editor.up(&WIDE)), "ab|c\ndef");
        check("ab|c\nd", |editor| assert!(editor.down(&WIDE)), "abc\nd|");
        check("a|b", |editor| assert!(!editor.up(&WIDE) && !editor.down(&WIDE)), "a|b");
        let frame = Frame { first: 3, further: 3 };
        check("abcd|ef", |editor| assert!(editor.up(&frame)), "a|bcdef");
    }
}
