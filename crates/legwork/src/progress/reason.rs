//! Why a child ended as it did, in one line for people (PROG-6, PROG-7).

use legwork_core::outcome::{Limit, Outcome};
use legwork_core::ports::EndFacts;
use legwork_core::report::{FailureReason, NetworkFault};

use crate::wording;

/// Characters of a reason.
const REASON_WIDTH: usize = 120;
/// Begins the errors of programs whose last line says what happened.
const TRACEBACK: &str = "Traceback (most recent call last)";

/// The reason; none for a whole answer.
pub fn reason(outcome: Outcome, facts: &EndFacts) -> Option<String> {
    if let Some(flaw) = facts.flaw(outcome) {
        return Some(flaw.words().to_owned());
    }
    let word = outcome.status().as_str();
    let told = match outcome {
        Outcome::Succeeded => return None,
        Outcome::Partial(Limit::Spend) => return Some("cut short by the spending limit".to_owned()),
        Outcome::Partial(Limit::Steps | Limit::Output) => None,
        Outcome::Failed(_) => {
            let gloss = facts.failure_reason.and_then(|reason| gloss(reason, facts.error.as_deref()));
            gloss.map(str::to_owned).or_else(|| error(facts))
        }
        Outcome::Stopped(_) | Outcome::Lost => error(facts),
    };
    Some(told.unwrap_or_else(|| word.to_owned()))
}

fn error(facts: &EndFacts) -> Option<String> {
    let error = facts.error.as_deref()?;
    let mut lines = error.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = if error.contains(TRACEBACK) { lines.next_back() } else { lines.next() };
    line.map(|line| wording::one_line(line, REASON_WIDTH))
}

/// What a class of failures means. A request that was malformed is told best by the provider's own words.
fn gloss(reason: FailureReason, error: Option<&str>) -> Option<&'static str> {
    match reason {
        FailureReason::Auth => Some("the provider refused the key"),
        FailureReason::Billing => Some("the account has no credit"),
        FailureReason::RateLimit => Some("the provider's rate limit was reached"),
        FailureReason::Overloaded => Some("the provider is overloaded"),
        FailureReason::ServerError => Some("the provider failed"),
        FailureReason::Network => Some(match error.and_then(NetworkFault::told_in) {
            Some(NetworkFault::CutOff) => "the provider's answer broke off",
            Some(NetworkFault::Broken) => "the provider broke the connection",
            Some(NetworkFault::Unreachable) | None => "the provider could not be reached",
        }),
        FailureReason::Timeout => Some("the provider was silent for too long"),
        FailureReason::ModelNotFound => Some("the provider knows no such model"),
        FailureReason::ContentPolicy => Some("the provider refused the content"),
        FailureReason::ContextOverflow => Some("the conversation is larger than the model's window"),
        FailureReason::BadRequest => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::outcome::{FailureKind, StopReason};

    fn failed(error: &str, failure_reason: Option<FailureReason>) -> String {
        let facts = EndFacts { error: Some(error.to_owned()), failure_reason, ..EndFacts::default() };
        reason(Outcome::Failed(FailureKind::Model), &facts).expect("a failure has one")
    }

    /// Proves PROG-6, PROG-7.
    #[test]
    fn a_reason_is_a_gloss_or_one_cleaned_line() {
        assert_eq!(
            failed("HTTP 429\nslow down", Some(FailureReason::RateLimit)),
            "the provider's rate limit was reached"
        );
        assert_eq!(
            failed("\n\n  HTTP 400: no\u{1b}[2J\tsuch field \nmore", Some(FailureReason::BadRequest)),
            "HTTP 400: no [2J such field"
        );
        let traceback = "Traceback (most recent call last):\n  File \"a\", line 1\nValueError: no\n\n";
        assert_eq!(failed(traceback, None), "ValueError: no");
        let long = failed(&"word ".repeat(100), None);
        assert!(long.chars().count() <= 120 && long.chars().count() > 110 && long.ends_with('…'), "{long}");
        assert_eq!(failed(" \n ", None), "failed");
    }

    /// Proves PROG-7.
    #[test]
    fn prog_07_each_class_of_failures_has_its_gloss() {
        for (class, gloss) in [
            (FailureReason::Auth, "the provider refused the key"),
            (FailureReason::Billing, "the account has no credit"),
            (FailureReason::RateLimit, "the provider's rate limit was reached"),
            (FailureReason::Overloaded, "the provider is overloaded"),
            (FailureReason::ServerError, "the provider failed"),
            (FailureReason::Network, "the provider could not be reached"),
            (FailureReason::Timeout, "the provider was silent for too long"),
            (FailureReason::ModelNotFound, "the provider knows no such model"),
            (FailureReason::ContentPolicy, "the provider refused the content"),
            (FailureReason::ContextOverflow, "the conversation is larger than the model's window"),
            (FailureReason::BadRequest, "its own words"),
        ] {
            assert_eq!(failed("its own words", Some(class)), gloss, "{class:?}");
        }
    }

    #[test]
    fn prog_07_a_connection_that_never_was_is_told_apart_from_one_that_broke_and_from_a_half_answer() {
        for (error, gloss) in [
            ("cannot connect to http://a: refused", "the provider could not be reached"),
            ("http://a broke the connection: reset", "the provider broke the connection"),
            (
                "the answer broke off, the connection to http://a ended: reset",
                "the provider's answer broke off",
            ),
            (
                "a/b: cannot connect to http://a: refused; c/d: the answer broke off: it ended",
                "the provider's answer broke off",
            ),
        ] {
            assert_eq!(failed(error, Some(FailureReason::Network)), gloss);
        }
    }

    #[test]
    fn only_a_whole_answer_has_no_reason() {
        let none = EndFacts::default();
        assert_eq!(reason(Outcome::Succeeded, &none), None);
        for (outcome, told) in [
            (Outcome::Partial(Limit::Steps), "cut short by the step limit"),
            (Outcome::Stopped(StopReason::TimedOut), "timeout"),
            (Outcome::Lost, "unknown"),
        ] {
            assert_eq!(reason(outcome, &none).as_deref(), Some(told));
        }
    }
}
