//! The facts that the owner of a delegation records. They are the events of the state machines, so replaying them gives
//! the live state again.

use crate::batch::{self, Fallback, Lineage, OnCrash, Reach, Setting, Task, Ticket, Unit};
use crate::child::ChildEvent;
use crate::ids::{CallKey, ChildId, DelegationId, Epoch, OwnerId, UnitId};
use crate::report::Report;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One recorded fact about a delegation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The delegation exists, with its units, children and held deliveries.
    Accepted(Box<Accepted>),
    /// A child moved.
    Moved {
        /// Which.
        child: ChildId,
        /// How.
        event: ChildEvent,
        /// What is known of its work, when the move ends its run: it is stored in the same commit.
        report: Option<Box<Report>>,
    },
    /// A child has failed while others of its unit go on: that is told at once, under an id of its own. The notice becomes
    /// ready in the commit of the child's end, and is dismissed with the settling of the unit if nobody has taken it.
    Noticed {
        /// Which.
        child: ChildId,
    },
    /// All children of a unit have settled: its delivery becomes ready, in the commit of the last child's fact.
    UnitSettled {
        /// Which.
        unit: UnitId,
    },
}

/// Everything that is fixed when a delegation is accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// Its id.
    pub delegation: DelegationId,
    /// Who asked.
    pub lineage: Lineage,
    /// What makes the dispatch idempotent.
    pub call_key: Option<CallKey>,
    /// How results reach the session.
    pub reach: Reach,
    /// The tasks.
    pub tasks: Vec<Task>,
    /// The children by task index.
    pub children: Vec<ChildId>,
    /// The units.
    pub units: Vec<Unit>,
    /// What the children run with.
    pub setting: Setting,
    /// The paths of the live transcripts by task index; empty where there is none.
    pub transcripts: Vec<String>,
    /// Why the caller waits although its session could be told later.
    #[serde(default)]
    pub fallback: Option<Fallback>,
    /// What the call says about all of its tasks; no child is told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

/// Facts of one delegation that are recorded together or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct Append {
    /// The delegation.
    pub delegation: DelegationId,
    /// How many facts of it the writer knows of. Any other number in the store refuses the append.
    pub expected_seq: u64,
    /// The process that writes.
    pub owner: OwnerId,
    /// Its generation; an older one than the store's is refused.
    pub epoch: Epoch,
    /// When they happened.
    pub at: Timestamp,
    /// The facts, in order.
    pub facts: Vec<Fact>,
}

impl Fact {
    /// The child that the fact moves, and the event it moves it by.
    pub fn child_event(&self) -> Option<(&ChildId, ChildEvent)> {
        match self {
            Fact::Moved { child, event, .. } => Some((child, *event)),
            Fact::Accepted(_) | Fact::Noticed { .. } | Fact::UnitSettled { .. } => None,
        }
    }
}

impl Accepted {
    /// Whether every task has one child of its own and is in exactly one unit, and there is a task at all. No store takes or
    /// gives anything else.
    pub fn has_sound_shape(&self) -> bool {
        let tasks = self.tasks.len();
        let mut indexes: Vec<usize> =
            self.units.iter().flat_map(|unit| unit.task_indexes.iter().copied()).collect();
        indexes.sort_unstable();
        let children: BTreeSet<_> = self.children.iter().collect();
        let units: BTreeSet<_> = self.units.iter().map(|unit| &unit.id).collect();
        tasks > 0
            && indexes.into_iter().eq(0..tasks)
            && (children.len(), self.children.len()) == (tasks, tasks)
            && units.len() == self.units.len()
    }

    /// What one child runs with: the setting of the call, with the route of its task where that has one.
    pub fn setting_of(&self, task_index: usize) -> Setting {
        let mut setting = self.setting.clone();
        if let Some(route) = self.tasks.get(task_index).and_then(|task| task.route.as_ref()) {
            setting.route = route.clone();
        }
        setting
    }

    /// The model that one child was given, as `provider/name`.
    pub fn model_of(&self, task_index: usize) -> &str {
        self.tasks
            .get(task_index)
            .map_or(&self.setting.route, |task| task.route_within(&self.setting))
            .model
            .as_str()
    }

    /// What is shown as the context of one task (TASK-6).
    pub fn context_of(&self, task_index: usize) -> Option<&str> {
        batch::shown_context(&self.tasks, &self.context, task_index)
    }

    /// What becomes of one child when its process dies.
    pub fn on_crash(&self, task_index: usize) -> OnCrash {
        self.tasks.get(task_index).map(|task| task.on_crash).unwrap_or_default()
    }

    /// The handle that the caller gets once the acceptance is durable.
    pub fn ticket(&self) -> Ticket {
        Ticket {
            delegation: self.delegation.clone(),
            units: self.units.clone(),
            children: self.children.clone(),
            transcripts: self.transcripts.clone(),
            reach: self.reach,
            fallback: self.fallback,
        }
    }
}
