//! What can happen to the book, and what it wants done.

use super::supervision::Warning;
use legwork_core::batch::{NewBatch, Ticket};
use legwork_core::child::AfterLoss;
use legwork_core::fact::Append;
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::{Outcome, StopReason};
use legwork_core::ports::{Refusal, StopNotice};
use legwork_core::pulse::Pulse;
use legwork_core::record::DelegationRecord;
use legwork_core::report::Report;
use legwork_core::steering::Scope;
use std::collections::{BTreeMap, BTreeSet};

/// Which waiting caller an answer is for. The dispatcher draws the number; the book only carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyTo(pub u64);

/// Ids for a new delegation, drawn outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIds {
    /// The delegation's.
    pub delegation: DelegationId,
    /// One for each task.
    pub children: Vec<ChildId>,
    /// The paths of the live transcripts by task index, or none.
    pub transcripts: Vec<String>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A sound call wants to be accepted.
    Dispatch {
        /// The call.
        batch: Box<NewBatch>,
        /// Its ids.
        ids: NewIds,
        /// Who waits for the answer.
        reply: ReplyTo,
    },
    /// A child waits for its own children.
    Parked(ChildId),
    /// A child wants its slot again.
    Unparked(ChildId),
    /// A child's pulse was read.
    Heard(ChildId, Pulse),
    /// A child's runner is gone.
    Returned(ChildId, Box<Report>),
    /// Somebody wants work ended.
    Stop {
        /// Which.
        scope: Scope,
        /// Why, and how hard.
        notice: StopNotice,
        /// Who waits for the list of children, if anybody.
        reply: Option<ReplyTo>,
    },
    /// No new children may start.
    Paused,
    /// New children may start again.
    Resumed,
    /// The process must end: no new children, running ones are cut, nothing is concluded of them.
    Released,
    /// Time went by.
    Tick,
    /// The store refused to know the delegation, or to take more facts of it: it is not ours (any more).
    Withdrawn(DelegationId),
    /// Delegations of a dead process are this one's now: whole trees, parents first.
    Adopted(Vec<Adopted>),
}

/// A delegation that was taken over, as the store holds it then.
#[derive(Debug, Clone, PartialEq)]
pub struct Adopted {
    /// What is stored of it; its owner is this process.
    pub record: DelegationRecord,
    /// What becomes of its unsettled children by task index. One that is not named gets another attempt.
    pub losses: BTreeMap<usize, Loss>,
    /// Those of them, by task index, that do not begin in this process, because it lacks what they need.
    pub withheld: BTreeSet<usize>,
}

/// What becomes of a child whose process died.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// Whether it goes on.
    pub after: AfterLoss,
    /// What it is ended for, where that is more than the loss.
    pub stopped: Option<StopReason>,
    /// What is known of its run, when it had begun and does not go on.
    pub report: Option<Box<Report>>,
}

/// Something to do. `Record` comes first; what waits for it is performed only when it is durable.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Make these facts durable.
    Record(Append),
    /// Once durable: tell the caller.
    Accept(ReplyTo, Ticket),
    /// At once: tell the caller. Nothing exists.
    Refuse(ReplyTo, Refusal),
    /// Once durable: start the runner.
    Start(ChildId),
    /// Once durable: the child has its slot again.
    GrantSlot(ChildId),
    /// Once durable: the child has settled.
    Settled(ChildId, Outcome),
    /// Once durable: every child of the delegation has settled.
    AllSettled(DelegationId),
    /// Once durable: nothing of these delegations, which make a whole tree, can go on in this process; they are left to
    /// another one.
    LetGo(Vec<DelegationId>),
    /// At once: ask the child to end.
    Ask(ChildId, StopNotice),
    /// At once: tell the child that it will be ended unless it moves.
    Warn(ChildId, Warning),
    /// At once: drop the child's run where it is.
    Abort(ChildId),
    /// Once everything that was recorded so far is durable, or at once: tell the caller which children were told to end.
    Stopped(ReplyTo, Vec<ChildId>),
}

impl Effect {
    /// Whether the effect may not be performed before the facts recorded with it are durable.
    pub fn waits_for_record(&self) -> bool {
        match self {
            Effect::Accept(..)
            | Effect::Start(_)
            | Effect::GrantSlot(_)
            | Effect::Settled(..)
            | Effect::AllSettled(_)
            | Effect::LetGo(_) => true,
            Effect::Record(_)
            | Effect::Refuse(..)
            | Effect::Ask(..)
            | Effect::Warn(..)
            | Effect::Abort(_)
            | Effect::Stopped(..) => false,
        }
    }
}
