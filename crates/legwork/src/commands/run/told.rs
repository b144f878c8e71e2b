//! What is told of a prompt that was answered, stopped or let go of, with all that was delegated for it.
//!
//! It gathers and words; it stores and prints nothing of the answer.

use legwork_agent::session::{NOT_ASKED, RunOutcome};
use legwork_core::below::Below;
use legwork_core::completion::BatchResult;
use legwork_core::ids::{DelegationId, SessionId};
use legwork_core::outcome::Ending;
use legwork_core::ports::{Facts, Filter, Listed, SessionRecord, StoreError};
use legwork_core::record::DelegationRecord;
use legwork_core::report::Report;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::totals::Totals;
use crate::signals::{Attention, EndedBy};
use crate::stderr;
use crate::wire::Workplace;

/// Said of an answer that did not come in time.
const RELEASED: &str = "the program was told to end before the answer was there; it goes on from the last finished step when the \
     session is opened again";

/// A prompt, and where it was asked.
#[derive(Clone, Copy)]
pub struct Prompted<'a> {
    pub workplace: &'a Workplace,
    pub session: &'a SessionId,
    /// What could not be read of the session before it was asked, and so is none of its work.
    pub damaged: &'a [DelegationId],
}

/// What is said of a prompt.
pub struct Told {
    pub report: Report,
    pub delegations: Vec<Value>,
    pub totals: Totals,
    /// Everything ended with a whole answer.
    pub whole: bool,
}

impl Told {
    /// Waits a bounded time for what a stop cut off, and gathers what was delegated. What cannot be read of it is said
    /// apart: the answer is there, and no start has failed.
    pub async fn of(prompted: Prompted<'_>, outcome: RunOutcome) -> Told {
        let RunOutcome { mut report, delegations, arrivals_answered } = outcome;
        if report.ending == Ending::Interrupted && report.error.is_none() && report.answer.is_none() {
            report.error = Some("it was stopped before there was an answer".to_owned());
        }
        let mut gathered =
            Gathered { printed: Vec::new(), whole: report.ending == Ending::Answered && arrivals_answered };
        let delegated = delegations.unwrap_or_else(|error| {
            gathered.lacks(&format!("what was delegated cannot be read: {error}"));
            Vec::new()
        });
        gathered.batches(prompted.workplace, &delegated).await;
        if report.ending == Ending::Answered {
            gathered.untold(prompted, &delegated).await;
        }
        let records = gathered.records(prompted, &delegated).await;
        let totals = Totals::of(&report, &delegated, &records);
        Told { report, delegations: gathered.printed, totals, whole: gathered.whole }
    }

    /// What is said of a prompt that was not asked, because the program was told to end before.
    pub async fn not_asked(workplace: &Workplace, session: &SessionId) -> Told {
        Told::of(Prompted { workplace, session, damaged: &[] }, without_answer(NOT_ASKED)).await
    }

    /// A turn that was let go of has no answer yet: its last words are none.
    pub fn ended_by(mut self, ended_by: EndedBy) -> Told {
        if ended_by == EndedBy::Release && self.report.ending == Ending::Interrupted {
            self.report.answer = None;
            self.report.error = Some(RELEASED.to_owned());
        }
        self
    }
}

/// The delegations of a prompt as far as they were read.
struct Gathered {
    printed: Vec<Value>,
    /// Nothing is missing so far, and everything is a success.
    whole: bool,
}

impl Gathered {
    fn lacks(&mut self, what: &str) {
        stderr::tell(&format!("error: {what}"));
        self.whole = false;
    }

    async fn batches(&mut self, workplace: &Workplace, delegated: &[DelegationId]) {
        // Deadline: a stop ends every subagent within its grace; an answered prompt has joined all of them.
        let until = Instant::now() + workplace.stop_max();
        for id in delegated {
            tokio::time::timeout_at(until, workplace.handle.settled(id)).await.ok();
            match batch_of(workplace, id).await {
                Ok(Some((batch, is_success))) => {
                    self.whole &= is_success;
                    self.printed.push(json!(batch));
                }
                Ok(None) => {}
                Err(error) => self.lacks(&format!("what became of {id} cannot be read: {error}")),
            }
        }
    }

    /// What has ended and was not told to the agent: its answer is not about that (invariant 4).
    async fn untold(&mut self, prompted: Prompted<'_>, delegated: &[DelegationId]) {
        if delegated.is_empty() {
            return;
        }
        let waiting = match prompted.workplace.store.undelivered(prompted.session).await {
            Ok(waiting) => waiting.rows,
            Err(error) => {
                self.lacks(&format!("whether all results were told to the agent cannot be read: {error}"));
                return;
            }
        };
        for id in delegated {
            if waiting.iter().any(|unit| unit.delegation == *id && unit.notice.is_none()) {
                self.lacks(&format!(
                    "results of {id} were not told to the agent; they are kept, and `legwork results {id}` prints them"
                ));
            }
        }
    }

    /// All of the session, for what it took: those who were sent out may have sent out others.
    async fn records(&mut self, prompted: Prompted<'_>, delegated: &[DelegationId]) -> Vec<DelegationRecord> {
        let Prompted { workplace, session, damaged } = prompted;
        if delegated.is_empty() {
            return Vec::new();
        }
        let read = workplace.store.delegations(Filter::Of(session.clone())).await;
        let Listed { rows, unreadable } = read.unwrap_or_else(|error| {
            self.lacks(&format!("what subagents took cannot be read, and is not counted: {error}"));
            Listed::default()
        });
        for id in unreadable.iter().filter(|id| !damaged.contains(id)) {
            self.lacks(&format!("what {id} took cannot be read, and is not counted"));
        }
        rows
    }
}

/// What is said where the agent has not ended in time.
pub fn unanswered(attention: &Attention) -> RunOutcome {
    let error = if attention.is_interrupted() {
        "stopped, and its end could not be stored in time; `legwork ps --all` shows what is left"
    } else {
        RELEASED
    };
    without_answer(error)
}

/// The outcome of a prompt that has no answer, and why.
fn without_answer(error: &str) -> RunOutcome {
    let report = Report { error: Some(error.to_owned()), ..Report::bare(Ending::Interrupted) };
    RunOutcome { report, delegations: Ok(Vec::new()), arrivals_answered: false }
}

/// The delegations of a stored session that could not be read before the prompt was asked.
pub async fn damaged_before(workplace: &Workplace, stored: Option<&SessionRecord>) -> Vec<DelegationId> {
    let Some(record) = stored else { return Vec::new() };
    match workplace.store.delegations(Filter::Of(record.session.id.clone())).await {
        Ok(listed) => listed.unreadable,
        Err(error) => {
            tracing::debug!(%error, "what cannot be read of earlier turns cannot be told; it is named after this one");
            Vec::new()
        }
    }
}

/// What became of a delegation, and whether that is a success; `None` when it is not stored any more.
async fn batch_of(
    workplace: &Workplace,
    id: &DelegationId,
) -> Result<Option<(BatchResult, bool)>, StoreError> {
    let Some(mut record) = workplace.store.delegation(id).await? else { return Ok(None) };
    // What was handed over to the agent of this prompt ends with it, before anybody reads this.
    record.note_ended_processes(|_| false);
    let below = Below::of(workplace.store.as_ref(), &record).await?;
    let batch = BatchResult::of(&record).with_below(&record, &below);
    let is_success = batch.is_success(record.children.len());
    Ok(Some((batch, is_success)))
}
