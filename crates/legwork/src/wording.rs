//! Small pieces of text that several verbs show: durations, cut goals, token counts. Text that a child wrote is made
//! plain here before it can reach a terminal.

use std::time::Duration;

use legwork_core::letters::{reorders_or_hides, separates_lines};
use legwork_core::pulse::Pulse;
use legwork_core::report::{Cost, FailureReason};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// `45s`, `18m`, `3m5s`, `2h3m`; below ten seconds with one decimal.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, rest) = (seconds / 60, seconds % 60);
    match (minutes / 60, minutes, rest) {
        (0, 0, _) if seconds < 10 => format!("{:.1}s", duration.as_secs_f64()),
        (0, 0, rest) => format!("{rest}s"),
        (0, minutes, 0) => format!("{minutes}m"),
        (0, minutes, rest) => format!("{minutes}m{rest}s"),
        (hours, minutes, _) => format!("{hours}h{}m", minutes % 60),
    }
}

/// The text on one line of at most `width` characters, without anything that moves a cursor or reorders letters.
pub fn one_line(text: &str, width: usize) -> String {
    let blank = |letter: char| letter.is_control() || separates_lines(letter);
    let blanked = text.chars().map(|letter| if blank(letter) { ' ' } else { letter });
    let plain: String = blanked.filter(|letter| !reorders_or_hides(*letter)).collect();
    let joined = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    if joined.chars().count() <= width {
        return joined;
    }
    let kept: String = joined.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// As [`one_line`], with the width counted in columns of a terminal.
pub fn one_line_of_columns(text: &str, columns: usize) -> String {
    let line = one_line(text, usize::MAX);
    if line.width() <= columns {
        return line;
    }
    let mut cut = String::new();
    for character in line.chars() {
        if cut.width() + character.width().unwrap_or(0) >= columns {
            break;
        }
        cut.push(character);
    }
    format!("{}…", cut.trim_end())
}

/// The text with its lines, without anything that moves a cursor or changes how the terminal shows text.
pub fn plain(text: &str) -> String {
    let lines = text.chars().map(|letter| if separates_lines(letter) { '\n' } else { letter });
    lines.filter(|c| !reorders_or_hides(*c) && (!c.is_control() || matches!(c, '\n' | '\t'))).collect()
}

/// What a subagent waits for that is to ask its model again, when nothing of it has moved for `quiet`.
pub fn pause(pulse: &Pulse, quiet: Duration) -> Option<String> {
    let (reason, left) = pulse.pausing(quiet)?;
    Some(format!("the model: {}, next try in {}", failing(reason), duration(left)))
}

/// How it is with a model that could not answer, in a word.
pub fn failing(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::RateLimit => "throttled",
        FailureReason::Overloaded => "overloaded",
        FailureReason::Network => "out of reach",
        FailureReason::Timeout => "silent",
        FailureReason::ServerError
        | FailureReason::Auth
        | FailureReason::Billing
        | FailureReason::ModelNotFound
        | FailureReason::ContentPolicy
        | FailureReason::ContextOverflow
        | FailureReason::BadRequest => "failing",
    }
}

/// `812`, `4.2k`, `1.3M`.
pub fn count(number: u64) -> String {
    match number {
        0..=999 => number.to_string(),
        1_000..=999_949 => format!("{:.1}k", number as f64 / 1e3),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// Dollars, or nothing when no price is known.
pub fn cost(cost: Cost) -> Option<String> {
    match cost {
        Cost::Unknown => None,
        Cost::MicroUsd(_) => Some(format!("${:.4}", cost.usd())),
    }
}

/// Seconds with one decimal, for JSON.
pub fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10.0).round() / 10.0
}

/// A wall-clock instant in the time zone of the system, to the second.
pub fn instant(millis: i64) -> String {
    let instant = jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
    instant.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evt_06_ages_are_short() {
        let table = [(0.3, "0.3s"), (45.0, "45s"), (1080.0, "18m"), (185.0, "3m5s"), (7380.0, "2h3m")];
        for (seconds, text) in table {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), text);
        }
    }

    #[test]
    fn k30_nothing_that_reorders_or_hides_letters_reaches_a_terminal() {
        let evil = "a\u{202e}b\u{2066}c\u{200b}d\u{e0041}\u{feff}e\u{2028}f";
        assert_eq!((plain(evil).as_str(), one_line(evil, 20).as_str()), ("abcde\nf", "abcde f"));
        let joined = "👩\u{200d}💻 \u{5d0}\u{200f}";
        assert_eq!((plain(joined).as_str(), one_line(joined, 20).as_str()), (joined, joined));
    }

    #[test]
    fn k24_a_childs_text_never_moves_the_cursor() {
        assert_eq!(one_line("a\x1b[2Jb\r\nc\u{9b}d", 20), "a [2Jb c d");
        assert_eq!(plain("a\x1b[2Jb\nc"), "a[2Jb\nc");
        assert_eq!(one_line("äöü äöü", 4), "äöü…");
        assert_eq!(one_line_of_columns("漢字漢字", 5), "漢字…");
    }
}
