//! Bytes that a program wrote for a terminal, made into plain text: valid Unicode without escape sequences and control
//! characters, whatever the bytes were.
//!
//! It works on pieces as they arrive and keeps what a piece left unfinished. It does not bound anything.

/// Where in an escape sequence the bytes are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// In text.
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and bytes that announce one more.
    Designation,
    /// In a control sequence: `ESC [ …` up to a letter.
    Control,
    /// In a string for the terminal: up to BEL, `ESC \` or the end of the line.
    String,
    /// After an ESC inside such a string.
    StringEscape,
}

/// Turns bytes into plain text, piece by piece.
///
/// A carriage return that does not belong to a line end becomes a line end, so that no text overwrites other text.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    place: Place,
    carriage_return: bool,
    /// Text bytes that are not decoded yet; between pieces at most an unfinished character.
    bytes: Vec<u8>,
    invalid: u64,
}

impl Cleaner {
    /// Cleans a whole text at once.
    pub(crate) fn clean(bytes: &[u8]) -> String {
        let mut cleaner = Cleaner::default();
        let mut text = String::with_capacity(bytes.len());
        cleaner.push(bytes, &mut text);
        cleaner.finish(&mut text);
        text
    }

    /// Appends the text of one more piece to `text`.
    pub(crate) fn push(&mut self, piece: &[u8], text: &mut String) {
        let mut rest = piece;
        while !rest.is_empty() {
            rest = if self.place == Place::Text && !self.carriage_return { self.run(rest) } else { rest };
            let Some((byte, after)) = rest.split_first() else { break };
            self.step(*byte);
            rest = after;
        }
        self.decode(text);
    }

    /// Appends what an unfinished character at the very end stands for.
    pub(crate) fn finish(&mut self, text: &mut String) {
        if !self.bytes.is_empty() {
            self.invalid += 1;
            text.push(char::REPLACEMENT_CHARACTER);
            self.bytes.clear();
        }
    }

    /// How many times something was not UTF-8 and was replaced.
    pub(crate) fn invalid(&self) -> u64 {
        self.invalid
    }

    /// Takes bytes up to the next one that needs a look, and returns the rest.
    fn run<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let end = bytes.iter().position(|byte| is_control(*byte)).unwrap_or(bytes.len());
        self.bytes.extend_from_slice(&bytes[..end]);
        &bytes[end..]
    }

    fn step(&mut self, byte: u8) {
        self.place = match (self.place, byte) {
            (Place::Text, _) => self.text(byte),
            (Place::Escape, b'[') => Place::Control,
            (Place::Escape, b']' | b'P' | b'X' | b'^' | b'_') => Place::String,
            (Place::Escape | Place::Designation, b' '..=b'/') => Place::Designation,
            (Place::Escape | Place::Designation, 0x30..=0x7e) => Place::Text,
            (Place::Control, b' '..=b'?') => Place::Control,
            (Place::Control, 0x40..=0x7e) => Place::Text,
            (Place::String, 0x07) | (Place::StringEscape, b'\\') => Place::Text,
            (Place::String | Place::StringEscape, 0x1b) => Place::StringEscape,
            (Place::String | Place::StringEscape, b'\n') => self.text(byte),
            (Place::String | Place::StringEscape, _) => Place::String,
            // A sequence that breaks off is dropped, and the byte that broke it is looked at anew.
            (Place::Escape | Place::Designation | Place::Control, _) => self.text(byte),
        };
    }

    fn text(&mut self, byte: u8) -> Place {
        if self.carriage_return && byte != b'\r' {
            self.carriage_return = false;
            if byte != b'\n' {
                self.bytes.push(b'\n');
            }
        }
        match byte {
            0x1b => return Place::Escape,
            b'\r' => self.carriage_return = true,
            _ if is_control(byte) => {}
            _ => self.bytes.push(byte),
        }
        Place::Text
    }

    fn decode(&mut self, text: &mut String) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut left = bytes.len();
        for chunk in bytes.utf8_chunks() {
            push_visible(chunk.valid(), text);
            left -= chunk.valid().len() + chunk.invalid().len();
            let unfinished = left == 0 && is_unfinished(chunk.invalid());
            if unfinished {
                self.bytes.extend_from_slice(chunk.invalid());
            } else if !chunk.invalid().is_empty() {
                self.invalid += 1;
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }
}

/// Whether the bytes may be the start of a character that goes on in the next piece.
fn is_unfinished(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\n' && byte != b'\t') || byte == 0x7f
}

/// The upper control characters mean the same to some terminals as the escape sequences.
fn push_visible(valid: &str, text: &mut String) {
    if valid.as_bytes().contains(&0xc2) {
        text.extend(valid.chars().filter(|character| !matches!(*character, '\u{80}'..='\u{9f}')));
    } else {
        text.push_str(valid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], expected: &str) {
        assert_eq!(Cleaner::clean(input), expected);
        let mut cleaner = Cleaner::default();
        let mut text = String::new();
        input.iter().for_each(|byte| cleaner.push(&[*byte], &mut text));
        cleaner.finish(&mut text);
        assert_eq!(text, expected, "byte by byte");
    }

    #[test]
    fn k24_escape_sequences_and_controls_vanish() {
        check(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain\x1b(B", "red plain");
        check(b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link");
        check("a\u{9b}31mb".as_bytes(), "a31mb");
        check(b"bell\x07 null\0 back\x08 del\x7f", "bell null back del");
    }

    #[test]
    fn an_unfinished_sequence_does_not_swallow_the_next_line() {
        check(b"\x1b]0;never ended\nnext", "\nnext");
        check(b"\x1b[12\nnext", "\nnext");
        check(b"end\x1b", "end");
    }

    #[test]
    fn carriage_returns_never_overwrite() {
        check(b"one\r\ntwo\r\r\n10%\r20%\n", "one\ntwo\n10%\n20%\n");
    }

    #[test]
    fn k24_bytes_that_are_not_unicode_are_replaced_and_counted() {
        check("ü 👩‍👩‍👧 \u{feff}".as_bytes(), "ü 👩‍👩‍👧 \u{feff}");
        check(b"a\xff\xfeb\xf0\x9f\x98", "a\u{fffd}\u{fffd}b\u{fffd}");
        let mut cleaner = Cleaner::default();
        let mut text = String::new();
        cleaner.push(b"\xff\xf0\x9f", &mut text);
        cleaner.push(b"\x98\x80", &mut text);
        cleaner.finish(&mut text);
        assert_eq!((text.as_str(), cleaner.invalid()), ("\u{fffd}😀", 1));
    }
}
