//! The lines of progress as text (PROG-4 to PROG-7).

use legwork_core::outcome::Outcome;

use super::screen::Ended;
use crate::wording;

const GOAL_WIDTH: usize = 40;
const REASON_WIDTH: usize = 120;

/// A child began to run.
pub fn started(task_index: usize, of: usize, goal: &str) -> String {
    format!("▶ {}/{of}  {}", task_index + 1, wording::one_line(goal, GOAL_WIDTH))
}

/// A child has ended: icon, place, goal, duration, and for a failure why.
pub fn ended(ended: &Ended<'_>) -> String {
    let reason = ended.error.map(|error| wording::one_line(error, REASON_WIDTH));
    let reason = reason.filter(|_| !ended.outcome.is_success()).or_else(|| mark(ended.outcome));
    let reason = reason.map(|reason| format!(" — {reason}")).unwrap_or_default();
    format!(
        "{} {}/{}  {}  ({}){reason}",
        wording::icon(ended.outcome.status(), ended.outcome.is_truncated()),
        ended.task_index + 1,
        ended.of,
        wording::one_line(ended.goal, GOAL_WIDTH),
        wording::duration(ended.elapsed),
    )
}

fn mark(outcome: Outcome) -> Option<String> {
    if outcome.is_success() {
        None
    } else if outcome.is_truncated() {
        Some("cut short by the step limit".to_owned())
    } else {
        Some(outcome.status().as_str().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::outcome::{FailureKind, Limit};
    use std::time::Duration;

    fn line(outcome: Outcome, error: Option<&str>) -> String {
        let elapsed = Duration::from_millis(3240);
        ended(&Ended { task_index: 1, of: 3, goal: "count\nthe words", outcome, error, elapsed })
    }

    #[test]
    fn prog_04_a_line_has_icon_place_goal_and_duration() {
        assert_eq!(line(Outcome::Succeeded, None), "✓ 2/3  count the words  (3.2s)");
        assert_eq!(
            line(Outcome::Failed(FailureKind::Model), Some("HTTP 401: bad\nkey")),
            "✗ 2/3  count the words  (3.2s) — HTTP 401: bad key"
        );
        assert_eq!(
            line(Outcome::Partial(Limit::Steps), None),
            "⚠ 2/3  count the words  (3.2s) — cut short by the step limit"
        );
    }
}
