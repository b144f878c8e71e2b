//! The lines of a transcript as text (LIVE-2, LIVE-3): time, role, and everything else on one line.
//!
//! Credentials are masked and control characters dropped here, so no line is written without that.

use super::entry::Cut;
use crate::redact::redact;
use jiff::tz::TimeZone;
use legwork_core::letters::reorders_or_hides;
use legwork_core::time::Timestamp;
use std::fmt::Write;

/// Who or what a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Start,
    User,
    Assistant,
    Think,
    Tool,
    Result,
    Note,
    Final,
}

impl Role {
    const ALL: [Role; 8] = [
        Role::Start,
        Role::User,
        Role::Assistant,
        Role::Think,
        Role::Tool,
        Role::Result,
        Role::Note,
        Role::Final,
    ];

    fn word(self) -> &'static str {
        match self {
            Role::Start => "start",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Think => "think",
            Role::Tool => "tool",
            Role::Result => "result",
            Role::Note => "note",
            Role::Final => FINAL,
        }
    }

    /// How many characters of the text are kept.
    pub(super) fn width(self) -> usize {
        match self {
            Role::Start | Role::User => 500,
            Role::Assistant => 600,
            Role::Think => 300,
            Role::Tool => 220,
            Role::Result | Role::Note | Role::Final => 400,
        }
    }
}

/// The role of the last line of a transcript.
pub(super) const FINAL: &str = "final";

/// Appends one line to `out`.
pub(super) fn push(out: &mut String, at: Timestamp, role: Role, cut: &Cut) {
    let time = clock(at);
    let text = one_line(&redact(&cut.text), role.width(), cut.omitted);
    // Writing to a String cannot fail.
    writeln!(out, "{time} {:<9}| {text}", role.word()).ok();
}

/// Whether a line is the end mark.
pub(super) fn is_final(line: &str) -> bool {
    line.get(9..).is_some_and(|rest| rest.starts_with(FINAL) && rest.get(9..10) == Some("|"))
}

/// Whether a line is one that is written here, or belongs to the head of a transcript.
pub(super) fn is_one(line: &str) -> bool {
    let is_time = |time: &str| {
        time == NO_TIME
            || time.bytes().enumerate().all(|(place, byte)| match place {
                2 | 5 => byte == b':',
                _digit => byte.is_ascii_digit(),
            })
    };
    let role = |rest: &str| Role::ALL.iter().any(|role| rest.starts_with(&format!(" {:<9}| ", role.word())));
    line.starts_with("# ") || line.split_at_checked(8).is_some_and(|(time, rest)| is_time(time) && role(rest))
}

/// What stands for a time that cannot be told.
const NO_TIME: &str = "--:--:--";

/// `HH:MM:SS` in the time zone of the system.
fn clock(at: Timestamp) -> String {
    local(at).map_or_else(|| NO_TIME.to_owned(), |time| time.strftime("%H:%M:%S").to_string())
}

/// Date, time and offset in the time zone of the system.
pub(super) fn date(at: Timestamp) -> String {
    local(at).map_or_else(|| "unknown".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S %z").to_string())
}

fn local(at: Timestamp) -> Option<jiff::Zoned> {
    Some(jiff::Timestamp::from_millisecond(at.0).ok()?.to_zoned(TimeZone::system()))
}

/// The text on one line, without control characters and what reorders or hides letters, cut to `width` characters with
/// a note of what is left out there and was left out before.
pub(super) fn one_line(text: &str, width: usize, omitted_before: usize) -> String {
    let mut line = String::with_capacity(text.len().min(width * 2));
    let (mut kept, mut omitted, mut gap) = (0, omitted_before, false);
    for character in text.chars() {
        if character.is_whitespace() || character.is_control() {
            gap = kept > 0;
            continue;
        }
        if reorders_or_hides(character) {
            continue;
        }
        if kept >= width {
            omitted += 1;
            continue;
        }
        if std::mem::take(&mut gap) {
            line.push(' ');
            kept += 1;
        }
        line.push(character);
        kept += 1;
    }
    if omitted > 0 {
        write!(line, " … ({omitted} more characters)").ok();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_02_a_line_has_time_role_and_one_line_of_text() {
        let mut out = String::new();
        push(&mut out, Timestamp(0), Role::Tool, &Cut::of("read_file\n\t", "{\"path\": \"a\x1b[2J\"}"));
        let (time, rest) = out.split_at(8);
        assert_eq!(time.chars().filter(|c| *c == ':').count(), 2);
        assert_eq!(rest, " tool     | read_file {\"path\": \"a [2J\"}\n");
    }

    #[test]
    fn live_03_cuts_say_how_much_is_left_out() {
        assert_eq!(one_line("äöü äöü", 5, 0), "äöü ä … (2 more characters)");
        assert_eq!(one_line("  a \n b  ", 5, 0), "a b");
        assert_eq!(one_line("short", 50, 7), "short … (7 more characters)");
    }

    #[test]
    fn live_03_each_role_keeps_so_many_characters() {
        for (role, width) in [
            (Role::User, 500),
            (Role::Assistant, 600),
            (Role::Think, 300),
            (Role::Tool, 220),
            (Role::Result, 400),
        ] {
            let mut out = String::new();
            push(&mut out, Timestamp(0), role, &Cut::of("", &"é".repeat(width + 3)));
            let (_, text) = out.trim_end().split_once("| ").expect("a bar");
            assert_eq!(text, format!("{} … (3 more characters)", "é".repeat(width)), "{role:?}");
        }
    }

    #[test]
    fn the_end_mark_is_known_by_its_role_not_by_its_text() {
        let (mut end, mut other) = (String::new(), String::new());
        push(&mut end, Timestamp(0), Role::Final, &Cut::of("", "completed"));
        push(&mut other, Timestamp(0), Role::Result, &Cut::of("", "final    | no"));
        assert!(is_final(end.trim_end()) && !is_final(other.trim_end()));
    }
}
