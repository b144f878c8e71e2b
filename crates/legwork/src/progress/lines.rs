//! The lines of progress as text (PROG-2, PROG-4 to PROG-6, PROG-9, PROG-11).

use super::reason::reason;
use super::sets::{Ended, Place};
use crate::wording;

const GOAL_WIDTH: usize = 40;
const WARNING_GOAL_WIDTH: usize = 60;
/// Marks what is said of a delegation as a whole.
pub const SET: &str = "🔀";

/// A delegation of several tasks was seen for the first time.
pub fn head(set: usize, tasks: usize) -> String {
    format!("{SET} [set {set}] {tasks} tasks")
}

/// A child began to run.
pub fn began(place: Place, goal: &str) -> String {
    format!("▶ {}{}", at(place), wording::one_line(goal, GOAL_WIDTH))
}

/// A child has ended: icon, place, goal, duration, and why where it did not give a whole answer.
pub fn ended(ended: &Ended) -> String {
    let reason = reason(ended.outcome, &ended.facts);
    format!(
        "{} {}{}  ({}){}",
        ended.outcome.status().icon(ended.facts.flaw(ended.outcome)),
        at(ended.place),
        wording::one_line(&ended.goal, GOAL_WIDTH),
        wording::duration(ended.elapsed),
        reason.map(|reason| format!(" — {reason}")).unwrap_or_default(),
    )
}

/// A child has failed.
pub fn failed(ended: &Ended) -> String {
    format!(
        "⚠ subagent failed: {}  ({}) — {}",
        wording::one_line(&ended.goal, WARNING_GOAL_WIDTH),
        wording::duration(ended.elapsed),
        reason(ended.outcome, &ended.facts).unwrap_or_default(),
    )
}

/// How much of a unit is left; nothing is said when nothing is.
pub fn left(set: usize, tasks: usize) -> Option<String> {
    match tasks {
        0 => None,
        1 => Some(format!("{SET} set {set} · 1 task remaining")),
        tasks => Some(format!("{SET} set {set} · {tasks} tasks remaining")),
    }
}

/// `[set 1 · 2/3] `, or nothing for the only task of a call.
pub fn at(place: Place) -> String {
    let Place { set, task_index, task_count } = place;
    if task_count < 2 {
        return String::new();
    }
    format!("[set {set} · {}/{task_count}] ", task_index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::outcome::{FailureKind, Limit, Outcome, StopReason};
    use legwork_core::ports::EndFacts;
    use legwork_core::report::Conformance;
    use std::sync::Arc;
    use std::time::Duration;

    fn child(outcome: Outcome, error: Option<&str>) -> Ended {
        let facts = EndFacts { error: error.map(str::to_owned), ..EndFacts::default() };
        let place = Place { set: 4, task_index: 1, task_count: 3 };
        let goal = format!("count\nthe words {}", "and more ".repeat(20));
        Ended { place, goal, outcome, facts: Arc::new(facts), elapsed: Duration::from_millis(3240) }
    }

    /// Proves PROG-5, PROG-6.
    #[test]
    fn prog_04_a_line_has_icon_place_goal_and_duration() {
        let table = [
            (Outcome::Succeeded, None, "✓", ""),
            (Outcome::Failed(FailureKind::Model), Some("HTTP 401: bad key"), "✗", " — HTTP 401: bad key"),
            (Outcome::Failed(FailureKind::Setup), Some("no folder\nx"), "✗", " — no folder"),
            (Outcome::Stopped(StopReason::TimedOut), None, "✗", " — timeout"),
            (Outcome::Partial(Limit::Steps), None, "⚠", " — cut short by the step limit"),
        ];
        for (outcome, error, icon, why) in table {
            let line = ended(&child(outcome, error));
            let goal = line.split("] ").nth(1).and_then(|rest| rest.split("  (").next()).expect("a goal");
            assert_eq!(goal.chars().count(), 40, "{line}");
            assert_eq!(line, format!("{icon} [set 4 · 2/3] {goal}  (3.2s){why}"));
        }
    }

    #[test]
    fn prog_05_prog_06_an_answer_that_misses_its_schema_has_a_mark_and_a_remark() {
        let missed = Conformance { errors: vec!["$: no".to_owned()], ..Conformance::default() };
        let facts = Arc::new(EndFacts { conformance: Some(missed), ..EndFacts::default() });
        let line = ended(&Ended { facts, ..child(Outcome::Succeeded, None) });
        assert!(line.starts_with("⚠ [set 4 · 2/3] count the words"), "{line}");
        assert!(line.ends_with("(3.2s) — the schema was not met; its raw text came back"), "{line}");
    }

    /// Proves PROG-2, PROG-9, PROG-11.
    #[test]
    fn heads_warnings_and_what_is_left_are_one_line_each() {
        assert_eq!(head(2, 5), "🔀 [set 2] 5 tasks");
        assert_eq!(
            [left(2, 4), left(2, 1), left(2, 0)].map(Option::unwrap_or_default),
            ["🔀 set 2 · 4 tasks remaining", "🔀 set 2 · 1 task remaining", ""]
        );
        let warning = failed(&child(Outcome::Failed(FailureKind::Tool), Some("it broke")));
        let goal = warning.strip_prefix("⚠ subagent failed: ").and_then(|rest| rest.split("  (").next());
        assert!(goal.is_some_and(|goal| goal.chars().count() <= 60 && goal.ends_with('…')), "{warning}");
        assert!(warning.ends_with("  (3.2s) — it broke"), "{warning}");
    }

    /// Proves EVTC-6.
    #[test]
    fn the_only_task_of_a_call_has_no_place_before_its_goal() {
        let place = |task_count| Place { set: 1, task_index: 0, task_count };
        assert_eq!(began(place(1), "look"), "▶ look");
        assert_eq!(began(place(2), "look"), "▶ [set 1 · 1/2] look");
    }
}
