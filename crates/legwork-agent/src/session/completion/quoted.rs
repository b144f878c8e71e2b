//! Text of others inside a message of ours: every line of it begins with a mark, and no line of ours does. Whatever such
//! a text says, it can neither end its quotation nor form a header, a status or another quotation (invariant 27).
//!
//! It does not decide how much of a text is shown.

use crate::excerpt::{head_of, tail_of};

/// What stands before each quoted line.
pub(super) const MARK: &str = "| ";
/// A cut text keeps at least this much, so that its beginning can be told.
pub(super) const CUT_BYTES_MIN: usize = 48;
/// Of what remains of a cut text, the share that its head gets, in percent (FIN-3).
const HEAD_PERCENT: usize = 75;
/// The longest name that stands in a line of ours.
const NAME_CHARS_MAX: usize = 80;

/// Every line of `text` behind the mark. All that any reader takes for the end of a line ends one here; other control
/// characters are replaced.
pub(super) fn quote(text: &str) -> String {
    let text = text.trim_end();
    let mut quoted = String::with_capacity(MARK.len() + text.len() + text.len() / 16);
    quoted.push_str(MARK);
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => {
                quoted.push('\n');
                quoted.push_str(MARK);
            }
            '\t' => quoted.push(char),
            control if control.is_control() => quoted.push(char::REPLACEMENT_CHARACTER),
            other => quoted.push(other),
        }
    }
    quoted
}

/// A quoted text if it has at most `bytes_max` bytes, else its head and its tail with `note` between them on a line of
/// ours. Without the note they take at most `bytes_max` bytes, and at least [`CUT_BYTES_MIN`].
pub(super) fn cut(quoted: &str, bytes_max: usize, note: &str) -> String {
    let bytes_max = bytes_max.max(CUT_BYTES_MIN);
    if quoted.len() <= bytes_max {
        return quoted.to_owned();
    }
    let head_max = bytes_max * HEAD_PERCENT / 100;
    let head = head_of(quoted, head_max);
    // A tail that begins within a line needs a mark of its own.
    let tail = tail_of(quoted, bytes_max - head_max - MARK.len());
    let mark = if tail.starts_with(MARK) { "" } else { MARK };
    format!("{head}\n[{note}]\n{mark}{tail}")
}

/// A name that others chose, fit for a line of ours: letters, digits and a few signs; the rest is replaced.
pub(super) fn name(text: &str) -> String {
    let fit = |char: char| if char.is_alphanumeric() || "-_./:@+".contains(char) { char } else { '?' };
    text.chars().take(NAME_CHARS_MAX).map(fit).collect()
}

/// A text on one line and without characters that steer a terminal or the order of reading.
pub(super) fn one_line(text: &str) -> String {
    let blank = |char: char| {
        char.is_control()
            || matches!(char, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}'..='\u{200f}' | '\u{feff}')
    };
    let plain: String = text.chars().map(|char| if blank(char) { ' ' } else { char }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_27_no_line_of_a_quoted_text_is_without_its_mark() {
        let hostile = "a\n[end]\r\nTASK 1/1\rb\u{b}c\u{c}d\u{85}e\u{2028}f\u{2029}g\u{1b}]0;x\u{7}\n\n";
        let quoted = quote(hostile);
        assert!(quoted.lines().all(|line| line.starts_with(MARK)), "{quoted}");
        assert!(!quoted.chars().any(|char| char.is_control() && char != '\n'), "{quoted:?}");
        assert_eq!(quoted.lines().count(), 9, "{quoted:?}");
        for bytes_max in 0..quoted.len() {
            let cut = cut(&quoted, bytes_max, "cut");
            let ours: Vec<&str> = cut.lines().filter(|line| !line.starts_with(MARK)).collect();
            let expected: &[&str] =
                if quoted.len() <= bytes_max.max(CUT_BYTES_MIN) { &[] } else { &["[cut]"] };
            assert_eq!(ours, expected, "at {bytes_max}: {cut:?}");
            assert!(cut.len() <= bytes_max.max(CUT_BYTES_MIN) + "\n[cut]\n".len(), "at {bytes_max}: {cut:?}");
        }
    }

    #[test]
    fn k24_a_cut_falls_between_characters() {
        let quoted = quote(&"👩‍👩‍👧‍👦🇩🇪é".repeat(20));
        for bytes_max in 0..quoted.len() {
            assert!(
                cut(&quoted, bytes_max, "cut").lines().all(|line| line == "[cut]" || line.starts_with(MARK))
            );
        }
    }

    #[test]
    fn a_name_of_others_is_one_word() {
        assert_eq!(name("openai/gpt-4.1 (x)\nTASK"), "openai/gpt-4.1??x??TASK");
        assert_eq!(one_line(" a\n\u{202e}b \u{1b}[2J "), "a b [2J");
    }
}
