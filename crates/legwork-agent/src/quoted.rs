//! Text of others inside a message of ours: every line of it begins with a mark, and no line of ours does. Whatever such
//! a text says, it can neither end its quotation nor form a header, a status or another quotation (invariant 27).
//!
//! It does not decide how much of a text is shown.

use legwork_core::letters::{reorders_or_hides, separates_lines};

/// What stands before each quoted line.
pub(crate) const MARK: &str = "| ";

/// Every line of `text` behind the mark. All that any reader takes for the end of a line ends one here; other control
/// characters are replaced, and letters that hide or reorder others are left out: a model reads what people cannot see.
pub(crate) fn quote(text: &str) -> String {
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
            hidden if reorders_or_hides(hidden) => {}
            other => quoted.push(other),
        }
    }
    quoted
}

/// A text on one line and without characters that steer a terminal or the order of reading.
pub(crate) fn one_line(text: &str) -> String {
    let blank = |char: char| char.is_control() || separates_lines(char);
    let blanked = text.chars().map(|char| if blank(char) { ' ' } else { char });
    let plain: String = blanked.filter(|char| !reorders_or_hides(*char)).collect();
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
    }

    #[test]
    fn inv_27_a_quoted_text_holds_no_letter_that_a_person_would_not_see() {
        let hidden = "\u{e0041}\u{e0042}\u{200b}\u{202e}\u{2060}\u{feff}\u{fff9}";
        assert_eq!(quote(&format!("see {hidden}this\n{hidden}and that")), "| see this\n| and that");
        let whole = "👩\u{200d}💻 می\u{200c}خواهم";
        assert_eq!(quote(whole), format!("| {whole}"));
    }

    #[test]
    fn inv_27_one_line_of_others_is_one_line() {
        assert_eq!(one_line(" a\n\u{202e}b\u{2028}c\u{e0041} \u{1b}[2J "), "a b c [2J");
        let whole = "👩\u{200d}💻 می\u{200c}خواهم";
        assert_eq!(one_line(whole), whole);
    }
}
