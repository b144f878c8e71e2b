//! Turns rows into the bytes that change a terminal: rows for the scrollback go up, and of the block at the bottom only what
//! has changed is written again. It remembers what the terminal shows, and writes nothing itself.

use super::draw::Block;
use super::rows::{Colours, Row};
use super::view::Size;

/// The terminal shows what follows all at once, if it knows how to.
const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?25l";
const END: &str = "\u{1b}[?25h\u{1b}[?2026l";
const CLEAR_BELOW: &str = "\u{1b}[J";
const CLEAR_LINE: &str = "\u{1b}[2K";

/// What a terminal does with rows that have become too long when it is made narrower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Narrowing {
    /// It breaks them into several.
    Rewraps,
    /// It cuts them off.
    Cuts,
}

/// What the terminal shows below the scrollback.
#[derive(Debug)]
pub struct Painter {
    colours: Colours,
    narrowing: Narrowing,
    size: Size,
    /// Bytes and columns of each row.
    shown: Vec<(String, usize)>,
    cursor: (usize, usize),
}

impl Painter {
    /// A terminal whose cursor stands at the beginning of an empty row.
    pub fn new(colours: Colours, narrowing: Narrowing, size: Size) -> Painter {
        Painter { colours, narrowing, size, shown: Vec::new(), cursor: (0, 0) }
    }

    /// The bytes that put `above` into the scrollback and `block` below it; none when that changes nothing.
    pub fn paint(&mut self, above: &[Row], block: &Block, size: Size) -> String {
        let rows: Vec<(String, usize)> =
            block.rows.iter().map(|row| (row.painted(self.colours), row.columns())).collect();
        let mut bytes = String::from(BEGIN);
        if size != self.size || !above.is_empty() || self.shown.is_empty() {
            bytes.push_str(&self.to_top(size));
            bytes.push_str(CLEAR_BELOW);
            for row in above {
                bytes.push_str(&row.painted(self.colours));
                bytes.push_str("\r\n");
            }
            let all: Vec<&str> = rows.iter().map(|(row, _)| row.as_str()).collect();
            bytes.push_str(&all.join("\r\n"));
            self.cursor.0 = rows.len().saturating_sub(1);
        } else if rows == self.shown && block.cursor == self.cursor {
            return String::new();
        } else {
            self.change(&rows, &mut bytes);
        }
        bytes.push_str(&vertically(self.cursor.0, block.cursor.0));
        bytes.push_str(&format!("\u{1b}[{}G", block.cursor.1 + 1));
        bytes.push_str(END);
        (self.shown, self.cursor, self.size) = (rows, block.cursor, size);
        bytes
    }

    /// The bytes that take the block away, if there is one; the cursor stands where it began.
    pub fn clear(&mut self) -> String {
        if self.shown.is_empty() {
            return String::new();
        }
        let bytes = format!("{BEGIN}{}{CLEAR_BELOW}{END}", self.to_top(self.size));
        self.shown.clear();
        self.cursor = (0, 0);
        bytes
    }

    /// The bytes that empty the whole screen; the next block is painted at its top.
    pub fn clear_screen(&mut self) -> String {
        self.shown.clear();
        self.cursor = (0, 0);
        "\u{1b}[H\u{1b}[2J".to_owned()
    }

    /// Writes the rows that differ.
    fn change(&mut self, rows: &[(String, usize)], bytes: &mut String) {
        for (place, row) in rows.iter().enumerate() {
            match self.shown.get(place) {
                Some(same) if same == row => {}
                Some(_) => {
                    bytes.push_str(&vertically(self.cursor.0, place));
                    bytes.push_str(&format!("\r{CLEAR_LINE}{}", row.0));
                    self.cursor.0 = place;
                }
                None => {
                    let last = place.saturating_sub(1);
                    bytes.push_str(&vertically(self.cursor.0, last));
                    // A line end makes room at the bottom of the screen; a move would not.
                    bytes.push_str(&format!("\r\n{}", row.0));
                    self.cursor.0 = place;
                }
            }
        }
        if rows.len() < self.shown.len() {
            bytes.push_str(&vertically(self.cursor.0, rows.len()));
            bytes.push_str(&format!("\r{CLEAR_BELOW}"));
            self.cursor.0 = rows.len();
        }
    }

    /// From the cursor to the beginning of the first row of the block, on a terminal that may have another size now.
    fn to_top(&self, size: Size) -> String {
        let rows_of = |columns: usize| match self.narrowing {
            Narrowing::Rewraps => columns.div_ceil(size.columns.max(1)).max(1),
            Narrowing::Cuts => 1,
        };
        let before = self.shown.iter().take(self.cursor.0).map(|(_, columns)| rows_of(*columns));
        let within = match self.narrowing {
            Narrowing::Rewraps => self.cursor.1 / size.columns.max(1),
            Narrowing::Cuts => 0,
        };
        format!("{}\r", vertically(before.sum::<usize>() + within, 0))
    }
}

fn vertically(from: usize, to: usize) -> String {
    match (from.checked_sub(to), to.checked_sub(from)) {
        (Some(0), _) | (None, None) => String::new(),
        (Some(up), _) => format!("\u{1b}[{up}A"),
        (None, Some(down)) => format!("\u{1b}[{down}B"),
    }
}

#[cfg(test)]
mod tests {
    use avt::Terminal;

    use super::super::rows::Look;
    use super::*;

    /// Numbers that look like chance and are the same every time.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).expect("it is small") % limit
        }
    }

    fn rows(chance: &mut Chance, count: usize, columns: usize) -> Vec<Row> {
        let row = |chance: &mut Chance| {
            let wide = chance.below(3) == 0;
            let text: String =
                (0..1 + chance.below(columns)).map(|_| char::from(b'a' + chance.below(26) as u8)).collect();
            let text = if wide { format!("漢{}", text.chars().skip(2).collect::<String>()) } else { text };
            Row::of(&text, [Look::Plain, Look::Faint][chance.below(2)]).cut(columns)
        };
        (0..count).map(|_| row(chance)).collect()
    }

    /// Whatever is painted in whatever order, on a terminal that breaks rows anew when its size changes, the terminal holds
    /// all rows that went up, in order and once, and below them the block.
    #[test]
    fn k39_no_row_is_lost_doubled_or_overwritten() {
        for seed in 0..60 {
            let mut chance = Chance(seed);
            let mut size = Size { columns: 60, rows: 20 };
            let mut terminal =
                Terminal::with_scrollback(size.columns, size.rows, None).expect("it has a size");
            let mut painter = Painter::new(Colours::On, Narrowing::Rewraps, size);
            let mut expected: Vec<String> = Vec::new();
            for step in 0..40 {
                if chance.below(6) == 0 {
                    size = Size { columns: 30 + chance.below(60), rows: 18 + chance.below(10) };
                    terminal.resize(size.columns, size.rows);
                }
                // The first frame fills the screen: some terminals that become lower drop rows at their top rather than
                // empty ones at their bottom.
                let above = if step == 0 { 30 } else { chance.below(10).saturating_sub(5) };
                let above = rows(&mut chance, above, size.columns);
                let count = 1 + chance.below(6);
                let block = rows(&mut chance, count, size.columns);
                let row = chance.below(count);
                // The cursor stands on a character or right behind the last one.
                let column = chance.below(block[row].columns() + 1).min(size.columns - 1);
                let cursor = (row, column);
                let block = Block { rows: block, cursor };
                terminal.feed(painter.paint(&above, &block, size).as_str());
                expected.extend(above.iter().map(Row::text));
                let mut screen = terminal.screen().text();
                while screen.last().is_some_and(String::is_empty) {
                    screen.pop();
                }
                let mut whole = expected.clone();
                whole.extend(block.rows.iter().map(Row::text));
                assert_eq!(screen, whole, "seed {seed}, step {step}");
                assert_eq!(terminal.cursor().col, cursor.1, "seed {seed}, step {step}");
                assert!(painter.paint(&[], &block, size).is_empty(), "nothing changed");
            }
            terminal.feed(painter.clear().as_str());
            let screen = terminal.screen().text();
            assert_eq!(screen[..expected.len()], expected[..], "seed {seed}");
            assert!(screen[expected.len()..].iter().all(String::is_empty), "seed {seed}");
        }
    }

    #[test]
    fn only_what_changed_is_written() {
        let size = Size { columns: 60, rows: 20 };
        let mut painter = Painter::new(Colours::Off, Narrowing::Rewraps, size);
        let block = |time: &str| Block {
            rows: ["first", time, "› typed"].map(|text| Row::of(text, Look::Plain)).to_vec(),
            cursor: (2, 4),
        };
        painter.paint(&[], &block("1s"), size);
        let bytes = painter.paint(&[], &block("2s"), size);
        assert!(bytes.contains("2s") && !bytes.contains("first") && !bytes.contains("typed"), "{bytes:?}");
    }
}
