//! The work of owners that are proved dead: finding it, ending what is left of its processes, and taking it over. What
//! becomes of it then is decided in two places: `adoption` goes on with it in a running engine, `settling` concludes it
//! without one.
//!
//! Work is taken over in whole trees: a child and what it delegated have one owner.

mod adoption;
mod owners;
mod settling;
mod toll;
mod trees;

pub use settling::{Conclusion, may_go_on, settle, stop_children};
pub use toll::{DEATHS_IN_ALL_MAX, DEATHS_MAX};
pub(crate) use toll::{is_suspect, let_go};

use crate::wiring::Clock;
use legwork_core::ids::{ChildId, DelegationId, SessionId};
use legwork_core::ports::{AppendError, Filter, GroupEnd, Liveness, Processes, Store, StoreError, Takeover};
use legwork_core::record::{DelegationRecord, OwnerRecord};
use legwork_core::step::Actor;
use std::collections::HashSet;
use thiserror::Error;
use toll::Toll;
use trees::Tree;

/// Whose work is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Orphans {
    /// Everybody's.
    All,
    /// That of one session.
    OfSession(SessionId),
    /// That of one delegation, with what it is part of and what is below it.
    Of(DelegationId),
}

/// What recovery did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Delegations that were taken over, and go on or were settled.
    pub taken: Vec<DelegationId>,
    /// Children that go on.
    pub resumed: usize,
    /// Children that had run and whose end is not known.
    pub lost: usize,
    /// Children that had been told to stop before.
    pub stopping: usize,
    /// Children that do not go on, because their process died at the same step of them too often.
    pub condemned: usize,
    /// Children that had not begun and do not any more.
    pub unstarted: usize,
    /// Children that were settled without an engine, by their tasks' positions: nobody has told of their ends.
    pub ended: Vec<(DelegationId, usize)>,
    /// Delegations of which this process cannot go on with all, and why; what it cannot go on with is left to another one.
    pub lacking: Vec<(DelegationId, String)>,
    /// Delegations of which the store would not take the settling; they stay open, and the others go on.
    pub refused: Vec<(DelegationId, AppendError)>,
    /// Open delegations whose rows cannot be read: nobody can go on with them or settle them, and the others go on.
    pub unreadable: Vec<DelegationId>,
    /// Owners of open work of which it cannot be told whether they live; their work was left alone.
    pub unclear: Vec<OwnerRecord>,
}

/// Why recovery ended early. What it had done by then stays done.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine has ended.
    #[error("this process is ending")]
    Closed,
}

/// Who recovers, and with what.
#[derive(Clone, Copy)]
pub struct Rescuer<'a> {
    /// Where the work is recorded.
    pub store: &'a dyn Store,
    /// Both clocks.
    pub clock: Clock,
    /// This process; it must have been entered as an owner.
    pub owner: &'a OwnerRecord,
    /// Looks at processes and ends them.
    pub processes: &'a dyn Processes,
}

/// How often the processes of work that was taken over are looked for, while there are any.
const LOOKS_MAX: usize = 5;

/// Ends what commands of dead owners left running, whosever work it was (invariant 14). Nothing else is touched: the work
/// itself waits for whoever opens its session or names it.
///
/// # Errors
/// [`RecoveryError`]; running it again goes on where it ended.
pub async fn sweep(rescuer: Rescuer<'_>) -> Result<(), RecoveryError> {
    // Somebody may take the work over while this looks, and begin another attempt, whose processes carry the same marks.
    // They are younger than this moment: whatever is found to belong to a dead owner was not taken over before it.
    let before = rescuer.processes.ticks();
    let mut dead = Vec::new();
    for owner in rescuer.store.owners_of_open().await? {
        if owner.id != rescuer.owner.id && rescuer.is_dead(&owner) {
            for Left { actor, why } in rescuer.end_groups(&owner).await? {
                tracing::warn!(actor = actor.as_str(), why, "something of a command is left alone");
            }
            dead.push(owner);
        }
    }
    if !dead.is_empty() {
        // The commands of what cannot be read have their groups stored all the same.
        let open = rescuer.store.delegations(Filter::Open).await?.rows;
        let theirs = open.iter().filter(|record| dead.iter().any(|owner| owner.id == record.owner.id));
        rescuer.end_marked(theirs, before).await;
    }
    Ok(())
}

impl Recovered {
    /// Whether something was done about the tree, or found out, already.
    fn tells_of(&self, tree: &Tree) -> bool {
        let lacking = self.lacking.iter().map(|(id, _)| id);
        let mut told = self.taken.iter().chain(lacking).chain(self.refused.iter().map(|(id, _)| id));
        told.any(|id| tree.ids().any(|member| member == id))
    }
}

impl Rescuer<'_> {
    fn is_dead(&self, owner: &OwnerRecord) -> bool {
        owner.liveness(self.processes) == Liveness::Dead
    }

    /// The dead owner's commands end before anything else is done about its work. A group of which something is left, or may
    /// be, stays stored for the next look. Names those of which something runs, or may run, that is left alone.
    async fn end_groups(&self, dead: &OwnerRecord) -> Result<Vec<Left>, RecoveryError> {
        let stored = self.store.groups_of(&dead.id).await?;
        if stored.is_empty() {
            return Ok(Vec::new());
        }
        let groups = stored.iter().map(|(_, group)| group.clone()).collect();
        let ends = self.processes.kill_groups(groups).await;
        let mut left = Vec::new();
        for ((actor, group), end) in stored.into_iter().zip(ends) {
            match end {
                GroupEnd::Gone => self.store.drop_group(actor, group).await?,
                GroupEnd::Dying | GroupEnd::OutOfSight => {}
                GroupEnd::Elsewhere => left.push(Left { actor, why: elsewhere(group.pgid) }),
                GroupEnd::Doubtful => left.push(Left { actor, why: doubt(group.pgid) }),
            }
        }
        Ok(left)
    }

    /// Whatever else carries the mark of a child that had begun, and is older than `before`. Says how many that were.
    async fn end_marked<'r>(
        &self,
        records: impl IntoIterator<Item = &'r DelegationRecord>,
        before: u64,
    ) -> usize {
        let children = records.into_iter().flat_map(|record| &record.children);
        let begun = children.filter(|child| child.state.has_runner());
        let begun: Vec<ChildId> = begun.map(|child| child.id.clone()).collect();
        let killed = self.processes.kill_marked(begun, before).await;
        if killed > 0 {
            tracing::info!(killed, "processes of a dead owner were ended");
        }
        killed
    }

    /// Ends the groups of what the tree's dead owners left. Names the delegations beside whose work something of them may still
    /// run, and says what: no attempt may begin there (invariant 14).
    async fn clear(&self, tree: &Tree) -> Result<Vec<(DelegationId, String)>, RecoveryError> {
        let mut beside = Vec::new();
        // What this process gave up before is taken over from itself. Its other commands are not orphans.
        for owner in tree.owners().into_iter().filter(|owner| owner.id != self.owner.id) {
            for Left { actor, why } in self.end_groups(owner).await? {
                if let Actor::Child(child) = &actor
                    && let Some(home) = tree.home_of(child)
                {
                    beside.push((home.clone(), why));
                }
            }
        }
        Ok(beside)
    }

    /// Makes the tree this process's, with what the deaths of its owners count, and ends what is left of its processes. Gives the
    /// delegations as they stand then, parents first; those that somebody else has taken first are not among them.
    async fn take(&self, tree: &Tree, toll: &Toll) -> Result<Vec<DelegationRecord>, RecoveryError> {
        let counted = toll.counted(tree, self.store).await?;
        let mut mine: HashSet<DelegationId> = HashSet::new();
        for owner in tree.owners() {
            // What this process gave up before is taken over from itself too, so that nothing of that time can be written any
            // more.
            let takeover = Takeover {
                from: owner.id.clone(),
                to: self.owner.id.clone(),
                delegations: tree.of_owner(owner),
                at: self.clock.now().wall,
                pulses: counted.of_owner(tree, owner),
            };
            let taken = self.store.take_over(takeover).await?;
            mine.extend(taken.into_iter().map(|(id, _)| id));
        }
        let mut records = Vec::new();
        for id in tree.ids() {
            if !mine.contains(id) {
                continue;
            }
            match self.store.delegation(id).await {
                Ok(record) => records.extend(record),
                // The rest of the tree is this process's too, and goes on.
                Err(error @ StoreError::Corrupt(_)) => {
                    tracing::error!(delegation = %id, %error, "what was just taken over cannot be read any more");
                }
                Err(error) => return Err(error.into()),
            }
        }
        // Before anything of it begins again (design: who recovers what).
        self.end_all_marked(&records).await;
        Ok(records)
    }

    /// Whoever is killed while it forks leaves a child that is younger than the look, so it is looked again until nothing is
    /// found.
    async fn end_all_marked(&self, records: &[DelegationRecord]) {
        for _ in 0..LOOKS_MAX {
            // Nothing of it has begun here yet, and elsewhere nothing begins before this process is taken for dead in its
            // turn: what began in the tick that goes on is old too.
            let before = self.processes.ticks().saturating_add(1);
            if self.end_marked(records, before).await == 0 {
                return;
            }
        }
        tracing::warn!(
            looks = LOOKS_MAX,
            "what a dead owner left goes on starting processes while it is ended"
        );
    }
}

/// What a dead owner's command has left and is left alone.
struct Left {
    /// Whose command it was.
    actor: Actor,
    /// Why nothing begins beside it.
    why: String,
}

/// Why nothing begins beside a group of another state folder: what works there works in the same folders.
fn elsewhere(pgid: u32) -> String {
    format!(
        "its command of process group {pgid} still runs, for another state folder: this one is a copy of that, or was on another \
         file system then. The command is left alone, and nothing begins beside it until it has ended"
    )
}

/// Why nothing begins beside a group of which nothing can be told.
fn doubt(pgid: u32) -> String {
    format!(
        "whether its command of process group {pgid} still runs cannot be told, and nothing begins beside it; \
         look at it and end it, or let somebody go on with the work who may read its entries in /proc"
    )
}
