//! What became of processes that subagents have handed over, as far as it can be seen from here: whoever is asked for results
//! looks before saying that one goes on (PROC-8). It ends none.

use legwork_agent::process::{SystemProcesses, is_group_living};
use legwork_core::ports::Liveness;
use legwork_core::record::{ChildRecord, DelegationRecord, OwnerRecord};

/// Looks for those of a delegation.
pub fn look(record: &mut DelegationRecord) {
    let DelegationRecord { children, owner, .. } = record;
    children.iter_mut().for_each(|child| look_for(child, owner));
}

/// Looks for those of one child. They run under the process that had it, and are nobody's when that has died.
pub fn look_for(child: &mut ChildRecord, owner: &OwnerRecord) {
    child.note_ended_processes(is_group_living);
    if owner.liveness(&SystemProcesses) == Liveness::Dead {
        child.note_left_processes();
    }
}
