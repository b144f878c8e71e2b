//! What a completion does with quoted text and with names of others: a long quotation is cut between its head and its
//! tail, and a name is made fit for a line of ours (invariant 27).
//!
//! It does not quote, and does not decide how much of a text is shown.

use crate::excerpt::{head_of, tail_of};
use crate::quoted::MARK;

/// A cut text keeps at least this much, so that its beginning can be told.
pub(super) const CUT_BYTES_MIN: usize = 48;
/// Of what remains of a cut text, the share that its head gets, in percent (FIN-3).
const HEAD_PERCENT: usize = 75;
/// The longest name that stands in a line of ours.
const NAME_CHARS_MAX: usize = 80;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quoted::quote;

    #[test]
    fn inv_27_no_line_of_a_cut_text_is_without_its_mark() {
        let hostile = "a\n[end]\r\nTASK 1/1\rb\u{b}c\u{c}d\u{85}e\u{2028}f\u{2029}g\u{1b}]0;x\u{7}\n\n";
        let quoted = quote(hostile);
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
    }
}
