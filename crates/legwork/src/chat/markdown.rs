//! Shows the text of a model while it arrives: rows that are whole go into the scrollback for good, and only what may still
//! change is drawn again.
//!
//! It knows the marks that models use most (headings, lists, quotations, fences, stress, code) line by line. Tables, links and
//! everything else are shown as they are written, and without looks all of it is, so that nothing is hidden.

use std::ops::Range;

use super::rows::{Cell, Colours, Frame, Look, Row, cells, rows_of};

/// A text that is arriving.
#[derive(Debug)]
pub struct Markdown {
    colours: Colours,
    /// The line that is not whole yet; without its beginning if that was given out.
    line: String,
    /// What the given out beginning of the line leaves to its rest.
    begun: Option<Begun>,
    /// The mark that ends the block of code.
    fence: Option<String>,
}

/// How a line goes on whose first rows were given out already.
#[derive(Debug, Clone, Copy)]
struct Begun {
    /// Spaces before every further row.
    indent: usize,
    /// How its text looks by itself.
    base: Look,
    /// How it looked where it was broken, until the mark that ends it.
    open: Look,
}

/// What follows a row of the line.
#[derive(Debug, Clone, Copy)]
struct Rest {
    /// Its place in the line.
    at: usize,
    /// How it looks there.
    open: Look,
}

/// One line taken apart. The text is the end of the line.
struct Parts<'a> {
    /// What stands before the text.
    lead: String,
    lead_look: Look,
    text: &'a str,
    base: Look,
    /// Whether marks within the text are heeded.
    marks: bool,
}

impl Markdown {
    /// An empty text.
    pub fn new(colours: Colours) -> Markdown {
        Markdown { colours, line: String::new(), begun: None, fence: None }
    }

    /// Takes a piece in and gives the rows that are whole. At most `rows_max` rows of an unfinished line stay behind; what
    /// comes before them is whole too.
    pub fn push(&mut self, text: &str, columns: usize, rows_max: usize) -> Vec<Row> {
        let mut whole = Vec::new();
        for piece in text.split_inclusive('\n') {
            self.line.push_str(piece.trim_end_matches(['\n', '\r']));
            if piece.ends_with('\n') {
                whole.extend(self.end_line(columns));
            }
        }
        whole.extend(self.overflow(columns, rows_max));
        whole
    }

    /// The rows of what is not whole yet; none when there is nothing.
    pub fn unfinished(&self, columns: usize) -> Vec<Row> {
        if self.line.is_empty() {
            return Vec::new();
        }
        self.broken(columns).into_iter().map(|(row, _)| row).collect()
    }

    /// The text ends: the rows of what was not whole. The next text begins anew.
    pub fn finish(&mut self, columns: usize) -> Vec<Row> {
        let rows = self.unfinished(columns);
        *self = Markdown::new(self.colours);
        rows
    }

    fn end_line(&mut self, columns: usize) -> Vec<Row> {
        let rows = if self.line.is_empty() && self.begun.is_some() {
            Vec::new()
        } else {
            self.broken(columns).into_iter().map(|(row, _)| row).collect()
        };
        let line = std::mem::take(&mut self.line);
        if self.begun.take().is_none() {
            self.fence = match self.fence.take() {
                Some(open) if closes(&line, &open) => None,
                Some(open) => Some(open),
                None => opens(&line),
            };
        }
        rows
    }

    /// The first rows of an unfinished line, if it has more than `rows_max`.
    fn overflow(&mut self, columns: usize, rows_max: usize) -> Vec<Row> {
        let mut rows = self.broken(columns);
        let Some(given) = rows.len().checked_sub(rows_max.max(1)).filter(|given| *given > 0) else {
            return Vec::new();
        };
        rows.truncate(given);
        let Some((_, rest)) = rows.last() else { return Vec::new() };
        let Rest { at, open } = *rest;
        let parts = self.parts();
        self.begun = Some(Begun { indent: self.indent(&parts), base: parts.base, open });
        self.line.drain(..at);
        rows.into_iter().map(|(row, _)| row).collect()
    }

    /// The rows of the line so far, each with what follows it.
    fn broken(&self, columns: usize) -> Vec<(Row, Rest)> {
        let parts = self.parts();
        let indent = self.indent(&parts).min(columns / 2);
        let cells = match self.begun {
            _ if !parts.marks => cells(parts.text, parts.base).collect(),
            Some(begun) => inline(parts.text, parts.base, begun.open),
            None => inline(parts.text, parts.base, parts.base),
        };
        let lead = Row::of(&parts.lead, parts.lead_look);
        let first = columns.saturating_sub(lead.columns());
        let ranges = rows_of(&cells, &Frame { first, further: columns.saturating_sub(indent) });
        let text_at = self.line.len() - parts.text.len();
        let behind = |place: usize| match cells.get(place) {
            Some(cell) => Rest { at: text_at + cell.at, open: cell.look },
            None => Rest { at: self.line.len(), open: parts.base },
        };
        let begins: Vec<usize> =
            ranges.iter().map(|range| range.start).skip(1).chain([cells.len()]).collect();
        let rows = ranges.into_iter().enumerate().map(|(place, range)| {
            let mut row = if place == 0 { lead.clone() } else { Row::of(&" ".repeat(indent), Look::Plain) };
            for cell in &cells[range] {
                row.push(cell.text, cell.look);
            }
            row
        });
        rows.zip(begins).map(|(row, next)| (row, behind(next))).collect()
    }

    fn indent(&self, parts: &Parts<'_>) -> usize {
        self.begun.map_or_else(|| Row::of(&parts.lead, Look::Plain).columns(), |begun| begun.indent)
    }

    fn parts(&self) -> Parts<'_> {
        let plain = |base, marks| Parts {
            lead: String::new(),
            lead_look: Look::Plain,
            text: &self.line,
            base,
            marks,
        };
        if let Some(begun) = self.begun {
            let lead = " ".repeat(begun.indent);
            let marks = self.fence.is_none() && self.colours == Colours::On;
            return Parts { lead, ..plain(begun.base, marks) };
        }
        match (&self.fence, self.colours) {
            (Some(open), Colours::On) if closes(&self.line, open) => plain(Look::Faint, false),
            (Some(_), Colours::On) => plain(Look::Code, false),
            (None, Colours::On) if opens(&self.line).is_some() => plain(Look::Faint, false),
            (None, _) => block(&self.line, self.colours),
            (Some(_), Colours::Off) => plain(Look::Plain, false),
        }
    }
}

/// The mark with which a block of code begins here, if one does.
fn opens(line: &str) -> Option<String> {
    let line = line.trim_start();
    let mark = ['`', '~'].into_iter().find(|mark| line.starts_with(&mark.to_string().repeat(3)))?;
    let length = line.chars().take_while(|character| *character == mark).count();
    let mark = mark.to_string().repeat(length);
    (!line[length..].contains('`')).then_some(mark)
}

/// Whether the block of code that began with `open` ends here.
fn closes(line: &str, open: &str) -> bool {
    let line = line.trim();
    line.starts_with(open) && line.chars().all(|character| open.starts_with(character))
}

/// A line outside of code.
fn block(line: &str, colours: Colours) -> Parts<'_> {
    let marks = colours == Colours::On;
    let stressed = |look| if marks { look } else { Look::Plain };
    let spaces = line.len() - line.trim_start_matches(' ').len();
    let (space, rest) = line.split_at(spaces);
    let parts = |lead: String, lead_look, text, base| Parts {
        lead,
        lead_look: stressed(lead_look),
        text,
        base: stressed(base),
        marks,
    };
    let word = rest.split(' ').next().unwrap_or_default();
    let text = rest.get(word.len() + 1..).unwrap_or_default();
    let lead = |mark: &str| format!("{space}{mark} ");
    if rest.len() <= word.len() {
        let rule = rest.len() >= 3 && ["-", "*", "_"].iter().any(|mark| rest.replace(mark, "").is_empty());
        return parts(String::new(), Look::Plain, line, if rule { Look::Faint } else { Look::Plain });
    }
    match word {
        "#" | "##" | "###" | "####" | "#####" | "######" => {
            parts(lead(word), Look::Faint, text, Look::Strong)
        }
        "-" | "*" | "+" if marks => parts(lead("•"), Look::Plain, text, Look::Plain),
        "-" | "*" | "+" => parts(lead(word), Look::Plain, text, Look::Plain),
        ">" if marks => parts(lead("│"), Look::Faint, text, Look::Slanted),
        ">" => parts(lead(word), Look::Plain, text, Look::Plain),
        word if is_number(word) => parts(lead(word), Look::Plain, text, Look::Plain),
        _ => parts(String::new(), Look::Plain, line, Look::Plain),
    }
}

fn is_number(word: &str) -> bool {
    let digits = word.strip_suffix(['.', ')']).unwrap_or_default();
    (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The visible characters of a text with marks in it. `open` is how it looks at its beginning, when that is not `base`.
fn inline(text: &str, base: Look, open: Look) -> Vec<Cell<'_>> {
    let mut found = Inline { text, cells: Vec::new() };
    let mut begin = 0;
    if open != base {
        let marks: &[&str] = match open {
            Look::Strong => &["**", "__"],
            Look::Slanted => &["*", "_"],
            Look::Code => &["`"],
            Look::Plain | Look::Faint | Look::Accent | Look::Good | Look::Warning | Look::Bad => &[],
        };
        let ends = marks.iter().filter_map(|mark| Some((text.find(mark)?, mark.len())));
        let (end, mark) = ends.min().unwrap_or((text.len(), 0));
        found.show(0..end, open);
        begin = end + mark;
    }
    found.passage(begin..text.len(), base);
    found.cells
}

/// A text whose marks are being looked for.
struct Inline<'a> {
    text: &'a str,
    cells: Vec<Cell<'a>>,
}

impl Inline<'_> {
    fn show(&mut self, range: Range<usize>, look: Look) {
        let start = range.start;
        let shown = cells(&self.text[range], look).map(|cell| Cell { at: start + cell.at, ..cell });
        self.cells.extend(shown);
    }

    /// Shows a range in a look, with the stressed passages and the code in it. A mark without its end is shown as it is.
    fn passage(&mut self, range: Range<usize>, look: Look) {
        let (mut shown, mut at) = (range.start, range.start);
        while let Some(character) = self.text[at..range.end].chars().next() {
            let length = match character {
                '`' | '*' | '_' => {
                    let rest = &self.text[at..range.end];
                    rest.len() - rest.trim_start_matches(character).len()
                }
                _ => character.len_utf8(),
            };
            let behind = at + length;
            let escaped = self.text[behind..range.end].chars().next().filter(char::is_ascii_punctuation);
            match (character, self.end_of(at..behind, range.end)) {
                ('\\', _) if escaped.is_some() => {
                    self.show(shown..at, look);
                    shown = behind;
                    at = behind + 1;
                }
                ('`', Some(end)) => {
                    self.show(shown..at, look);
                    self.show(behind..end, Look::Code);
                    at = end + length;
                    shown = at;
                }
                ('*' | '_', Some(end)) => {
                    self.show(shown..at, look);
                    let stress = if length == 1 { Look::Slanted } else { Look::Strong };
                    self.passage(behind..end, stress);
                    at = end + length;
                    shown = at;
                }
                _ => at = behind,
            }
        }
        self.show(shown..range.end, look);
    }

    /// Where the mark that begins at `mark` ends, before `limit`.
    fn end_of(&self, mark: Range<usize>, limit: usize) -> Option<usize> {
        let text = self.text;
        let (before, behind) = (&text[..mark.start], &text[mark.end..limit]);
        let sign = &text[mark.clone()];
        let character = sign.chars().next().filter(|character| matches!(character, '`' | '*' | '_'))?;
        let code = character == '`';
        let within_word = |text: Option<char>| character == '_' && text.is_some_and(char::is_alphanumeric);
        let space = |text: Option<char>| text.is_none_or(char::is_whitespace);
        if !code
            && (sign.len() > 3 || space(behind.chars().next()) || within_word(before.chars().next_back()))
        {
            return None;
        }
        let ends = behind.match_indices(sign).map(|(place, _)| mark.end + place);
        ends.into_iter().find(|&end| {
            let (before, after) = (&text[..end], &text[end + sign.len()..limit]);
            let alone = !before.ends_with(character) && !after.starts_with(character);
            let inside = code || !space(before.chars().next_back());
            alone && inside && end > mark.end && !within_word(after.chars().next())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows with looks as marks: `<b>` strong, `<i>` slanted, `<c>` code, `<f>` faint.
    fn shown(rows: &[Row]) -> Vec<String> {
        let show = |row: &Row| {
            let painted = row.painted(Colours::On).replace("\u{1b}[0m", ">");
            let looks =
                [("\u{1b}[1m", "<b "), ("\u{1b}[3m", "<i "), ("\u{1b}[36m", "<c "), ("\u{1b}[2m", "<f ")];
            looks.iter().fold(painted, |text, (code, mark)| text.replace(code, mark))
        };
        rows.iter().map(show).collect()
    }

    fn whole(text: &str, columns: usize) -> Vec<String> {
        let mut markdown = Markdown::new(Colours::On);
        let mut rows = markdown.push(text, columns, 100);
        rows.extend(markdown.finish(columns));
        shown(&rows)
    }

    #[test]
    fn marks_become_looks() {
        let table = [
            ("# A *title*", "<f # ><b A ><i title>"),
            ("- **a**: b", "• <b a>: b"),
            ("  2. b", "  2. b"),
            ("> said", "<f │ ><i said>"),
            ("call `a *b*` now", "call <c a *b*> now"),
            ("a * b * c, snake_case_name, 2**3", "a * b * c, snake_case_name, 2**3"),
            ("**open and *closed*", "**open and <i closed>"),
            (r"\*not\*", "*not*"),
            ("***very***", "<b very>"),
            ("---", "<f --->"),
            ("| a | b |", "| a | b |"),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(whole(&format!("{text}\n"), 80), [expected], "{text}");
        }
    }

    #[test]
    fn code_is_shown_as_it_is() {
        let text = "```rust\nlet **a** = 1;\n    // `b`\n``\n```\nafter *it*";
        let expected =
            ["<f ```rust>", "<c let **a** = 1;>", "<c     // `b`>", "<c ``>", "<f ```>", "after <i it>"];
        assert_eq!(whole(text, 80), expected);
    }

    #[test]
    fn without_looks_nothing_is_hidden() {
        let text = "# A **b**\n- `c` and more\n> d\n```\ne\n```\n";
        let mut markdown = Markdown::new(Colours::Off);
        let rows: Vec<String> =
            markdown.push(text, 10, 9).iter().map(|row| row.painted(Colours::Off)).collect();
        assert_eq!(rows, ["# A **b**", "- `c` and", "  more", "> d", "```", "e", "```"]);
    }

    #[test]
    fn lists_go_on_under_their_text() {
        assert_eq!(whole("- one two three", 9), ["• one two", "  three"]);
    }

    /// However the text is cut into pieces, the same rows come out.
    #[test]
    fn pieces_make_the_whole() {
        let text = "# T\n\nA **bold word** and `code` in a long line of *many words*.\n- item one goes on\n```\nx\n```\nend";
        for columns in [7, 20, 80] {
            for size in [1, 2, 3, 7, 1000] {
                let mut markdown = Markdown::new(Colours::On);
                let mut rows = Vec::new();
                let characters: Vec<char> = text.chars().collect();
                for piece in characters.chunks(size) {
                    rows.extend(markdown.push(&piece.iter().collect::<String>(), columns, 1000));
                }
                rows.extend(markdown.finish(columns));
                assert_eq!(shown(&rows), whole(text, columns), "pieces of {size}, {columns} columns");
            }
        }
    }

    #[test]
    fn a_long_line_goes_up_while_it_arrives() {
        let mut markdown = Markdown::new(Colours::On);
        let mut rows = Vec::new();
        for word in "- one **two three four five** six seven".split_inclusive(' ') {
            rows.extend(markdown.push(word, 10, 2));
            assert!(markdown.unfinished(10).len() <= 2);
        }
        rows.extend(markdown.push("\n\nx", 10, 2));
        rows.extend(markdown.finish(10));
        // When the first rows went up, no end of the stress was known.
        let expected = ["• one", "  **two", "  three", "  four", "  five**", "  six", "  seven", "", "x"];
        assert_eq!(shown(&rows), expected);
    }

    #[test]
    fn a_stress_goes_on_behind_what_went_up() {
        let mut markdown = Markdown::new(Colours::On);
        let mut rows = markdown.push("**one two three four** five", 9, 1);
        rows.extend(markdown.finish(9));
        assert_eq!(shown(&rows), ["<b one two>", "<b three>", "<b four> five"]);
    }
}
