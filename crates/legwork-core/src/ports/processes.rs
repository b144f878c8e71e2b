//! Port `Processes`: what recovery must know and do about operating-system processes, and about what they left. Asked by
//! recovery, answered by the agent's process module.

use super::Pending;
use crate::aftermath::Worktree;
use crate::ids::ChildId;
use crate::record::{Process, ProcessGroup};

/// Looks at processes and ends groups of them.
pub trait Processes: Send + Sync {
    /// This process.
    fn myself(&self) -> Process;

    /// Whether `process` still lives. A zombie counts as dead.
    fn liveness(&self, process: &Process) -> Liveness;

    /// Kills what is left of these groups, where the leader is still the one that was stored or the group outlived it, all at
    /// once, waits a bounded time for their end, and says of each what is left of it. A group id that was used again by
    /// somebody else is left alone, and so is what runs for another database and what cannot be looked at. It does not hold
    /// up the task that asks.
    fn kill_groups(&self, groups: Vec<ProcessGroup>) -> Pending<'_, Vec<GroupEnd>>;

    /// Now, as start times are counted: in clock ticks since boot. Nothing began before 0, where that cannot be read.
    fn ticks(&self) -> u64;

    /// The worktree that a child of a delegation in `folder` had of its own, if it is still there (WT-5). It is named, and not
    /// looked into.
    fn worktree_of(&self, _child: &ChildId, _folder: &str) -> Option<Worktree> {
        None
    }

    /// Kills whatever else carries the mark of one of `children` of this database and began before `before`, wherever it went,
    /// and says how many that were. A mark does not tell one attempt of a child from the next; their beginnings do. As above,
    /// it does not hold up the task that asks.
    fn kill_marked(&self, children: Vec<ChildId>, before: u64) -> Pending<'_, usize>;
}

/// What is left of a process group that was to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupEnd {
    /// Nothing.
    Gone,
    /// Something that was killed and takes its time.
    Dying,
    /// It is of a place where nothing can be seen or ended from here, such as another container.
    OutOfSight,
    /// Something that runs for another database and is left alone: this one is a copy of that, or has moved since to another
    /// file system.
    Elsewhere,
    /// It cannot be told, although it is of this place: something of it may run (invariant 14).
    Doubtful,
}

/// Whether a process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It does.
    Alive,
    /// It is proved dead.
    Dead,
    /// It cannot be told; nothing may be taken from it (invariant 30).
    Unclear,
}
