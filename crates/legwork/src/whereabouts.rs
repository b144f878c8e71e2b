//! "Where is my result?" in one sentence: where a unit's results are, since when, why, and how to get at them.
//!
//! It is computed from the store alone and changes nothing.

use legwork_core::batch::Reach;
use legwork_core::below::Receiver;
use legwork_core::delivery::{DeliveryState, ParkReason};
use legwork_core::ports::{Conversations, Facts, SessionRecord, StoreError};
use legwork_core::record::{DelegationRecord, OwnerRecord};
use legwork_sqlite::SqliteStore;

use crate::failure::CliError;
use crate::invocation::Invocation;
use crate::owner::is_dead;
use crate::{outliving, session_choice, wording};

/// Where the results of one unit are.
pub struct Whereabouts<'a> {
    record: &'a DelegationRecord,
    place: usize,
    session: Option<SessionRecord>,
    /// What is stored of the session cannot be read.
    is_unreadable: bool,
    /// Who takes the results.
    receiver: Receiver,
    /// Who has claimed the results, if that can be told.
    taker: Option<OwnerRecord>,
    /// A worker that was started for the work has not begun yet.
    has_worker: bool,
}

impl<'a> Whereabouts<'a> {
    /// Finds out about the unit at `place`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn of(
        invocation: &Invocation,
        store: &SqliteStore,
        record: &'a DelegationRecord,
        place: usize,
    ) -> Result<Whereabouts<'a>, CliError> {
        let (session, is_unreadable) = match store.session(&record.accepted.lineage.session).await {
            Ok(session) => (session, false),
            Err(StoreError::Corrupt(_)) => (None, true),
            Err(error) => return Err(error.into()),
        };
        let claimant = record.deliveries[place].claimant();
        let taker = match claimant {
            Some(claimant) => store.owner(&OwnerRecord::id_of_claimant(claimant)).await?,
            None => None,
        };
        let has_worker = outliving::has_worker(invocation, record);
        let receiver = Receiver::of(store, record).await?;
        Ok(Whereabouts { record, place, session, is_unreadable, receiver, taker, has_worker })
    }

    /// The sentence.
    pub fn sentence(&self) -> String {
        let state = &self.record.deliveries[self.place].state;
        if !state.is_final()
            && *state != DeliveryState::Held
            && let Receiver::With(caller, unit) = &self.receiver
        {
            return format!(
                "kept since {}: the subagent {caller}, which asked for it, had ended before it had read it; it is told with the results of {unit}",
                self.since()
            );
        }
        match state {
            DeliveryState::Held => self.held(),
            DeliveryState::Ready { .. } => format!("ready since {}; {}", self.since(), self.taken_by()),
            DeliveryState::Claimed { .. } => self.claimed(),
            DeliveryState::Parked(reason) => self.parked(*reason),
            DeliveryState::Delivered => format!("delivered {} {}", self.since(), self.receiver()),
            DeliveryState::Dismissed => format!("given up {}{}", self.since(), self.why()),
        }
    }

    fn held(&self) -> String {
        let unit = &self.record.accepted.units[self.place];
        let open = unit.task_indexes.iter().filter(|task| self.record.children[**task].outcome().is_none());
        let (open, of, pid) = (open.count(), unit.task_indexes.len(), self.record.owner.process.pid);
        let id = &self.record.accepted.delegation;
        if self.has_worker {
            return format!(
                "not there yet: {open} of its {of} subagents are left to a worker, which has not begun yet"
            );
        }
        if self.record.owner.gone {
            return format!(
                "not there yet: process {pid} does not go on with {open} of its {of} subagents; `legwork results {id} --wait` does"
            );
        }
        if is_dead(&self.record.owner) {
            return format!(
                "not there yet: process {pid}, which ran {open} of its {of} subagents, has died; `legwork results {id} --wait` \
                 goes on with it"
            );
        }
        format!("not there yet: {open} of its {of} subagents are still at work in process {pid}")
    }

    fn claimed(&self) -> String {
        let taker = match &self.taker {
            Some(taker) if is_dead(taker) => {
                return format!(
                    "taken {} by process {}, which died before it had arrived; {}",
                    self.since(),
                    taker.process.pid,
                    self.next()
                );
            }
            Some(taker) => format!("process {}", taker.process.pid),
            None => "somebody".to_owned(),
        };
        format!("taken {} by {taker}, which has not confirmed yet that it arrived", self.since())
    }

    fn parked(&self, reason: ParkReason) -> String {
        format!("kept since {}: {}; {}", self.since(), reason.as_str(), self.next())
    }

    /// Who takes results that are ready.
    fn taken_by(&self) -> String {
        let lineage = &self.record.accepted.lineage;
        match &self.receiver {
            Receiver::Caller(caller) => {
                return format!("the subagent {caller}, which asked for it, takes it");
            }
            // It comes in like what wakes nobody.
            Receiver::Session | Receiver::With(..) if lineage.parent.is_some() => return self.next(),
            Receiver::Session | Receiver::With(..) => {}
        }
        let holder = self.session.as_ref().and_then(session_choice::holder_alive);
        match holder {
            Some(holder) => {
                let when = if self.wakes() {
                    "as soon as the conversation is idle"
                } else {
                    "with the next message of the conversation"
                };
                format!("process {}, which has {} open, takes it {when}", holder.process.pid, lineage.session)
            }
            None => self.next(),
        }
    }

    /// Whether it begins a turn of its own in an open conversation, as what a call waits for does not.
    fn wakes(&self) -> bool {
        let accepted = &self.record.accepted;
        accepted.reach != Reach::Joined && !accepted.units[self.place].inline
    }

    /// How to get at results that nobody is about to take.
    fn next(&self) -> String {
        let accepted = &self.record.accepted;
        let (session, id) = (&accepted.lineage.session, &accepted.delegation);
        if self.is_unreadable {
            format!(
                "the session {session} cannot be read, so that nobody takes it there; `legwork results {id}` prints it, `legwork doctor` says more"
            )
        } else if self.session.as_ref().is_some_and(session_choice::is_conversation) {
            format!(
                "it comes in when {session} is opened again (`legwork chat --resume {session}`); `legwork results {id}` shows it now"
            )
        } else {
            format!("`legwork results {id}` prints and delivers it")
        }
    }

    fn receiver(&self) -> String {
        let lineage = &self.record.accepted.lineage;
        if let Some(unit) = self.record.deliveries[self.place].told_with() {
            return format!("with the results of {unit}");
        }
        match (&lineage.parent, &self.session) {
            (Some(parent), _) => format!("to the subagent {parent}, which asked for it"),
            (_, Some(session)) if session_choice::is_conversation(session) => {
                format!("to the conversation {}", lineage.session)
            }
            (_, None) if self.is_unreadable => {
                format!("to the session {}, which cannot be read", lineage.session)
            }
            (_, Some(_) | None) => "by being printed".to_owned(),
        }
    }

    /// When it came to be where it is.
    fn since(&self) -> String {
        let line = self.record.deliveries[self.place].ledger.last();
        let at = line.map_or(self.record.accepted_at, |line| line.at);
        wording::instant(at.0)
    }

    fn why(&self) -> String {
        let line = self.record.deliveries[self.place].ledger.last();
        let reason = line.and_then(|line| line.reason.as_deref());
        reason.map(|reason| format!(": {reason}")).unwrap_or_default()
    }
}
