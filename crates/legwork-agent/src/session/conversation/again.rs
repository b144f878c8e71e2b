//! When a turn that failed in a way that may pass is tried again (invariant 3: a wake is retried).

use super::rows::Row;
use legwork_core::batch::Reach;
use legwork_core::message::Message;
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::report::{FailureReason, Report};
use std::time::Duration;
use tokio::time::Instant;

/// The gap before the second try. Each later one is twice as long.
pub const GAP_FIRST: Duration = Duration::from_secs(5);
/// Where the gaps stop growing.
pub const GAP_LONGEST: Duration = Duration::from_secs(300);
/// How often a turn is tried at most, the first time included, where somebody waits for the end of the conversation. One that
/// stays open is idle until something wakes it, so it tries at the longest gap for as long as it is open (invariant 3).
pub const TRIES_MAX: u32 = 10;

/// A turn that waits for its next try.
pub(super) struct Again {
    /// Tries so far.
    pub(super) tries: u32,
    /// When the next one comes.
    pub(super) due: Instant,
    /// A message that could not be stored before the turn; it comes first then.
    pub(super) unstored: Option<Unstored>,
}

/// What a person said and could not be stored, as far as is known.
pub(super) struct Unstored {
    pub(super) text: String,
    pub(super) message: Message,
    /// The results that tries which failed were to store with it. Their claims were given back.
    pub(super) rows: Vec<Row>,
}

impl Again {
    /// The next try after `tries` that failed; `None` when there were enough in a conversation of this reach.
    pub(super) fn after(tries: u32, reach: Reach, unstored: Option<Unstored>) -> Option<Again> {
        let goes_on = match reach {
            Reach::Push => true,
            Reach::History | Reach::Joined => tries < TRIES_MAX,
        };
        goes_on.then(|| Again { tries, due: Instant::now() + gap(tries), unstored })
    }
}

/// The gap after so many tries.
pub(super) fn gap(tries: u32) -> Duration {
    let doubled = 2u32.saturating_pow(tries.saturating_sub(1).min(16));
    GAP_FIRST.saturating_mul(doubled).min(GAP_LONGEST)
}

/// Whether a turn that ended like this may go better later on, without anybody doing anything about it.
pub(super) fn may_pass(report: &Report) -> bool {
    match report.ending {
        Ending::Failed(FailureKind::Model) => report.failure_reason.is_some_and(FailureReason::may_pass),
        Ending::Failed(FailureKind::Store) => true,
        Ending::Answered
        | Ending::CutShort(_)
        | Ending::Failed(
            FailureKind::Setup | FailureKind::Tool | FailureKind::EmptyAnswer | FailureKind::Panicked,
        )
        | Ending::Interrupted => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_03_gaps_double_up_to_the_longest_and_the_tries_end() {
        let gaps: Vec<u64> = (1..TRIES_MAX).map(|tries| gap(tries).as_secs()).collect();
        assert_eq!(gaps, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(gap(u32::MAX), GAP_LONGEST);
    }

    #[test]
    fn inv_25_a_refused_key_is_never_tried_again() {
        let failed = |reason| Report {
            failure_reason: Some(reason),
            ..Report::bare(Ending::Failed(FailureKind::Model))
        };
        assert!(may_pass(&failed(FailureReason::RateLimit)) && may_pass(&failed(FailureReason::Network)));
        assert!(!may_pass(&failed(FailureReason::Auth)) && !may_pass(&failed(FailureReason::Billing)));
        assert!(!may_pass(&Report::bare(Ending::Interrupted)) && !may_pass(&Report::bare(Ending::Answered)));
    }
}
