//! What a store gives back: rows folded from the recorded facts. Views are computed from these (invariant 34).

use crate::child::{ChildEvent, ChildState, IllegalTransition};
use crate::delivery::{DeliveryState, LedgerLine};
use crate::fact::Accepted;
use crate::ids::{ChildId, Epoch, OwnerId};
use crate::outcome::Outcome;
use crate::ports::{Liveness, Processes};
use crate::pulse::{Deaths, Pulse};
use crate::report::Report;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Identity of a process that owns work, good enough to tell whether it still lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The boot of the machine it runs under.
    pub boot_id: String,
    /// Its process id.
    pub pid: u32,
    /// Its start time in clock ticks since boot: a process id alone may be used again.
    pub start_ticks: u64,
}

/// One process that owns or owned work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// Its id.
    pub id: OwnerId,
    /// Which process it is.
    pub process: Process,
    /// Whether it was declared gone because its lease had run out; nothing that it writes is taken then.
    #[serde(default)]
    pub gone: bool,
}

/// The lease of a process, as it was renewed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// How often it was renewed.
    pub beats: u64,
    /// For how long.
    pub period: Duration,
    /// When; for people and hints, never for a decision.
    pub renewed_at: Timestamp,
}

impl OwnerRecord {
    /// A process of which nothing else is known.
    pub fn new(id: OwnerId, process: Process) -> Self {
        OwnerRecord { id, process, gone: false }
    }

    /// Whether it lives: one that was declared gone counts as dead, whatever its process does.
    pub fn liveness(&self, processes: &dyn Processes) -> Liveness {
        if self.gone { Liveness::Dead } else { processes.liveness(&self.process) }
    }

    /// How this process signs a claim: its id first, then what a person recognises it by.
    pub fn claimant(&self) -> String {
        format!("{} (pid {})", self.id, self.process.pid)
    }

    /// The id in such a signature.
    pub fn id_of_claimant(claimant: &str) -> OwnerId {
        OwnerId::from_stored(claimant.split_whitespace().next().unwrap_or_default())
    }
}

/// The group of a command that a child started. It is stored before the command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessGroup {
    /// The process group id, which is the process id of its leader.
    pub pgid: u32,
    /// The leader's start time in clock ticks since boot.
    pub start_ticks: u64,
    /// The boot of the machine it runs under, and the database that it was started for where that is known.
    pub boot_id: String,
}

/// One delegation as the store holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct DelegationRecord {
    /// What was fixed at the start.
    pub accepted: Accepted,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// The process that owns it.
    pub owner: OwnerRecord,
    /// That owner's generation.
    pub epoch: Epoch,
    /// How many facts are recorded.
    pub seq: u64,
    /// Its children by task index.
    pub children: Vec<ChildRecord>,
    /// Its units' deliveries, in the order of `accepted.units`.
    pub deliveries: Vec<DeliveryRecord>,
    /// The notices of children that failed before their unit had settled, in the order of their tasks.
    pub notices: Vec<NoticeRecord>,
}

/// The notice of an early failure as the store holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct NoticeRecord {
    /// The position of the task that failed.
    pub task_index: usize,
    /// Where the notice is.
    pub delivery: DeliveryRecord,
}

/// One child as the store holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildRecord {
    /// Its id.
    pub id: ChildId,
    /// Where it stands.
    pub state: ChildState,
    /// When its first run began.
    pub started_at: Option<Timestamp>,
    /// When it settled.
    pub ended_at: Option<Timestamp>,
    /// What its run handed in.
    pub report: Option<Report>,
    /// Its last stored pulse and when that was stored.
    pub pulse: Option<(Pulse, Timestamp)>,
}

/// One unit's delivery as the store holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryRecord {
    /// Where the results are.
    pub state: DeliveryState,
    /// How they got there.
    pub ledger: Vec<LedgerLine>,
}

impl DeliveryRecord {
    /// Who moved it last, for a claim and what followed from one.
    pub fn claimant(&self) -> Option<&str> {
        self.ledger.last().and_then(|line| line.claimant.as_deref())
    }
}

impl DelegationRecord {
    /// Notes of the processes that children have handed over which run no longer, so that nobody is told that they go on
    /// (PROC-8).
    pub fn note_ended_processes(&mut self, runs: impl Fn(&ProcessGroup) -> bool) {
        self.children.iter_mut().for_each(|child| child.note_ended_processes(&runs));
    }
}

impl ChildRecord {
    /// The same of the processes of one child.
    pub fn note_ended_processes(&mut self, runs: impl Fn(&ProcessGroup) -> bool) {
        self.report.iter_mut().for_each(|report| report.processes.note_ended(&runs));
    }

    /// Notes that the process has died which owned it, and under which these ran (PROC-8).
    pub fn note_left_processes(&mut self) {
        self.report.iter_mut().for_each(|report| report.processes.note_left());
    }

    /// A child that was just accepted.
    pub fn new(id: ChildId) -> Self {
        ChildRecord {
            id,
            state: ChildState::NEW,
            started_at: None,
            ended_at: None,
            report: None,
            pulse: None,
        }
    }

    /// Folds one event into the row.
    ///
    /// # Errors
    /// [`IllegalTransition`] when the child cannot take it; the row is unchanged then.
    pub fn apply(&mut self, event: ChildEvent, at: Timestamp) -> Result<(), IllegalTransition> {
        self.state = self.state.apply(event)?;
        if matches!(event, ChildEvent::Started) && self.started_at.is_none() {
            self.started_at = Some(at);
        }
        if self.state.outcome().is_some() {
            self.ended_at = Some(at);
        }
        Ok(())
    }

    /// How attempts of it ended with their processes.
    pub fn deaths(&self) -> Deaths {
        self.pulse.as_ref().map(|(pulse, _)| pulse.deaths).unwrap_or_default()
    }

    /// How the child ended, if it has.
    pub fn outcome(&self) -> Option<Outcome> {
        self.state.outcome()
    }
}

impl DelegationRecord {
    /// Whether its parts belong together: a sound acceptance, a child for each of its tasks, a delivery for each of its
    /// units, and notices of tasks that it has. Everybody relies on that, and no store gives anything else.
    pub fn is_whole(&self) -> bool {
        let accepted = &self.accepted;
        accepted.has_sound_shape()
            && self.children.iter().map(|child| &child.id).eq(&accepted.children)
            && self.deliveries.len() == accepted.units.len()
            && self.notices.iter().all(|notice| notice.task_index < accepted.tasks.len())
    }

    /// Whether every child has settled.
    pub fn is_settled(&self) -> bool {
        self.children.iter().all(|child| child.outcome().is_some())
    }

    /// The word for the whole: a fold over the children.
    pub fn state_text(&self) -> &'static str {
        if self.is_settled() {
            return "settled";
        }
        let begun = self.children.iter().any(|child| child.started_at.is_some());
        if begun { "running" } else { "queued" }
    }
}
