//! What came back, in one line for people (EVT-15). The model reads something else.

use crate::quoted::one_line;
use legwork_core::completion::Entry;
use legwork_core::outcome::{Outcome, StopReason, WireStatus};

/// Characters of one goal when it stands alone, and of each of several.
const GOAL_CHARS_MAX: usize = 70;
const GOAL_OF_SEVERAL_CHARS_MAX: usize = 40;
/// Goals that are named when there are several.
const GOALS_MAX: usize = 3;

/// One task that came back.
pub(super) struct Line<'a> {
    pub(super) entry: &'a Entry,
    pub(super) outcome: Outcome,
    pub(super) goal: &'a str,
}

/// The title of these tasks, which are a unit of such a group.
pub(super) fn title(group: Option<&str>, lines: &[Line<'_>]) -> String {
    let words: Vec<&str> = lines.iter().map(word).collect();
    match (lines, words.as_slice()) {
        ([line], [word]) => format!("Subagent: {word} · {}", short(line.goal, GOAL_CHARS_MAX)),
        (_, words) => {
            let whole = lines.iter().filter(|line| line.entry.is_whole()).count();
            let outcome = match words.first() {
                Some(first) if words.iter().all(|word| word == first) => (*first).to_owned(),
                Some(_) | None => format!("finished with issues, {whole} completed"),
            };
            let named = group.map_or_else(|| goals(lines), |group| short(group, GOAL_OF_SEVERAL_CHARS_MAX));
            format!("{} subagents: {outcome} · {named}", lines.len())
        }
    }
}

fn goals(lines: &[Line<'_>]) -> String {
    let named = lines.iter().take(GOALS_MAX).map(|line| short(line.goal, GOAL_OF_SEVERAL_CHARS_MAX));
    let mut text = named.collect::<Vec<_>>().join("; ");
    if lines.len() > GOALS_MAX {
        text.push_str("; …");
    }
    text
}

fn word(line: &Line<'_>) -> &'static str {
    match line.entry.status {
        WireStatus::Completed if line.entry.truncated => "Incomplete",
        WireStatus::Completed if line.entry.flaw().is_some() => "Completed, schema not met",
        WireStatus::Completed => "Completed",
        WireStatus::BudgetExhausted => "Incomplete",
        WireStatus::Error | WireStatus::Failed => "Failed",
        WireStatus::Interrupted if line.outcome == Outcome::Stopped(StopReason::Cancelled) => "Cancelled",
        WireStatus::Interrupted => "Interrupted",
        WireStatus::Stalled => "Stalled",
        WireStatus::Timeout => "Timed Out",
        WireStatus::Unknown => "Unknown",
    }
}

fn short(goal: &str, chars_max: usize) -> String {
    let line = one_line(goal);
    if line.chars().count() <= chars_max {
        return line;
    }
    let head: String = line.chars().take(chars_max - 1).collect();
    format!("{}…", head.trim_end())
}
