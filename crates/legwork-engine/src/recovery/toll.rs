//! Children whose process dies at the same step again and again: which attempts the death of a process has ended, how many of
//! them in a row, and from which number on nobody goes on with the child (docs/design/042-deaths-in-a-row.md).
//!
//! Only what ran is counted. A child that waited for a slot, or for children of its own, has not ended its process; a process
//! that is seen to live, or that let go of its work, has not died of it. What is counted is stored in the commit that takes the
//! work over, so that each is counted once, whoever breaks off behind it.
//!
//! A journal that is damaged stops nobody: how far its child was is taken from the count before, and the child fails by itself
//! when it begins again (K35).

use super::Rescuer;
use super::trees::Tree;
use legwork_core::child::ChildState;
use legwork_core::ids::ChildId;
use legwork_core::ports::{Liveness, Steps, StoreError};
use legwork_core::pulse::{Deaths, Pulse};
use legwork_core::record::{ChildRecord, DelegationRecord, OwnerRecord};
use legwork_core::step::{Action, Actor, StepRecord, StepState};
use std::collections::{HashMap, HashSet};

/// Deaths in a row, with no step that ended between, after which a child does not go on.
pub const DEATHS_MAX: u32 = 8;

/// Deaths in all after which a child does not go on, however far it got each time.
pub const DEATHS_IN_ALL_MAX: u32 = 8 * DEATHS_MAX;

/// Whether so many that a child runs alone from now on: half of the deaths that it may have.
pub(crate) fn is_suspect(deaths: Deaths) -> bool {
    deaths.in_a_row >= DEATHS_MAX / 2 || deaths.in_all >= DEATHS_IN_ALL_MAX / 2
}

/// What the deaths of processes mean for the children of a tree.
#[derive(Debug, Default)]
pub(super) struct Toll {
    /// How the attempts ended that a process ran which has the tree no longer.
    ends: HashMap<ChildId, End>,
    /// The children that are given up for it, and what is said of each.
    condemned: HashMap<ChildId, String>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
enum End {
    /// By the death of its process, or by the end of one that nobody here can see.
    Death { attempt: u32 },
    /// Otherwise: its process lives and has lost it, or it waited for children of its own.
    Other { attempt: u32 },
}

impl Toll {
    /// Looks at the ends in a tree that the rescuer is to go on with or to conclude.
    ///
    /// # Errors
    /// [`StoreError`] when a journal cannot be read and is not damaged.
    pub(super) async fn of(tree: &Tree, rescuer: Rescuer<'_>) -> Result<Toll, StoreError> {
        let ends = ends(tree, rescuer);
        let mut condemned = HashMap::new();
        for child in running(tree.records()) {
            let known = child.deaths();
            if !is_enough(after(child, &ends, known.steps)) {
                continue;
            }
            let journal = readable(&child.id, rescuer.store).await?;
            let steps = ended_in(journal.as_deref(), known);
            let mut deaths = after(child, &ends, steps);
            // One that was counted before, by somebody who broke off then, may have got further since.
            if steps > deaths.steps {
                deaths.in_a_row = 0;
            }
            if is_enough(deaths) {
                condemned.insert(child.id.clone(), words(deaths, journal.as_deref()));
            }
        }
        Ok(Toll { ends, condemned })
    }

    /// Why the child is given up, if it is.
    pub(super) fn why(&self, child: &ChildId) -> Option<&str> {
        self.condemned.get(child).map(String::as_str)
    }

    /// What is to be stored of the ends. Read before the work is taken, so that an error leaves nothing taken; nobody writes for
    /// the dead meanwhile.
    ///
    /// # Errors
    /// [`StoreError`] when a journal cannot be read and is not damaged.
    pub(super) async fn counted(&self, tree: &Tree, steps: &dyn Steps) -> Result<Counted, StoreError> {
        let mut counted = HashMap::new();
        for child in running(tree.records()) {
            let known = child.deaths();
            let ended = match self.ends.get(&child.id) {
                Some(End::Death { attempt }) if *attempt > known.attempt => {
                    ended_in(readable(&child.id, steps).await?.as_deref(), known)
                }
                Some(End::Death { .. } | End::Other { .. }) | None => known.steps,
            };
            let deaths = after(child, &self.ends, ended);
            if deaths != known {
                let pulse = child.pulse.as_ref().map(|(pulse, _)| pulse.clone()).unwrap_or_default();
                counted.insert(child.id.clone(), Pulse { deaths, ..pulse });
            }
        }
        Ok(Counted(counted))
    }
}

/// The pulses of children with the ends of their attempts in them.
#[derive(Debug)]
pub(super) struct Counted(HashMap<ChildId, Pulse>);

impl Counted {
    /// Those of the children of one owner.
    pub(super) fn of_owner(&self, tree: &Tree, owner: &OwnerRecord) -> Vec<(ChildId, Pulse)> {
        let theirs = tree.records().iter().filter(|record| record.owner.id == owner.id);
        let children = theirs.flat_map(|record| &record.accepted.children);
        children.filter_map(|child| self.0.get(child).map(|pulse| (child.clone(), pulse.clone()))).collect()
    }
}

/// The children's pulses in which their attempts under way count as let go of: whoever ran them gives them up.
pub(crate) fn let_go(record: &DelegationRecord) -> Vec<(ChildId, Pulse)> {
    let attempts = record.children.iter().filter_map(|child| Some((child, attempt(child)?)));
    let known = attempts.map(|(child, attempt)| {
        let pulse = child.pulse.as_ref().map(|(pulse, _)| pulse.clone()).unwrap_or_default();
        (child.id.clone(), Pulse { deaths: pulse.deaths.but_not(attempt), ..pulse })
    });
    known.collect()
}

/// What is known of a child's deaths with the end of its last attempt, when `steps` had ended by then.
fn after(child: &ChildRecord, ends: &HashMap<ChildId, End>, steps: u32) -> Deaths {
    let known = child.deaths();
    match ends.get(&child.id) {
        Some(End::Death { attempt }) => known.and(*attempt, steps),
        Some(End::Other { attempt }) => known.but_not(*attempt),
        None => known,
    }
}

/// The attempt of a child that runs.
fn attempt(child: &ChildRecord) -> Option<u32> {
    match child.state {
        ChildState::Running { attempt } => Some(attempt),
        ChildState::Queued { .. }
        | ChildState::Parked { .. }
        | ChildState::Waiting { .. }
        | ChildState::Stopping { .. }
        | ChildState::Settled(_) => None,
    }
}

fn running(records: &[DelegationRecord]) -> impl Iterator<Item = &ChildRecord> {
    records.iter().flat_map(|record| &record.children).filter(|child| attempt(child).is_some())
}

/// The journal of a child; `None` when it is damaged.
async fn readable(child: &ChildId, steps: &dyn Steps) -> Result<Option<Vec<StepRecord>>, StoreError> {
    match steps.steps(&Actor::Child(child.clone())).await {
        Ok(journal) => Ok(Some(journal)),
        Err(error @ StoreError::Corrupt(_)) => {
            tracing::warn!(%child, %error, "how far it was when its process died cannot be read");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// How many steps had ended: as many as before, where nobody can tell.
fn ended_in(journal: Option<&[StepRecord]>, before: Deaths) -> u32 {
    journal.map_or(before.steps, ended)
}

/// How the attempts of others ended. What the rescuer has itself was counted when it was taken, or was begun and given up here.
fn ends(tree: &Tree, rescuer: Rescuer<'_>) -> HashMap<ChildId, End> {
    let records = tree.records();
    let parents: HashSet<&ChildId> =
        records.iter().filter_map(|record| record.accepted.lineage.parent.as_ref()).collect();
    let mut ends = HashMap::new();
    for owner in tree.owners().into_iter().filter(|owner| owner.id != rescuer.owner.id) {
        // Of one that was declared gone it says whether it has died, or stood still.
        let lives = rescuer.processes.liveness(&owner.process) == Liveness::Alive;
        for record in records.iter().filter(|record| record.owner.id == owner.id) {
            for child in &record.children {
                let Some(attempt) = attempt(child) else { continue };
                let is_other = lives || parents.contains(&child.id);
                let end = if is_other { End::Other { attempt } } else { End::Death { attempt } };
                ends.insert(child.id.clone(), end);
            }
        }
    }
    ends
}

/// How many steps have ended by themselves. A model call or a summary that is closed without a result only says that somebody
/// went on with it.
fn ended(journal: &[StepRecord]) -> u32 {
    let has_ended = |step: &&StepRecord| match &step.state {
        StepState::Done(_) => true,
        StepState::Failed(_) => step.action.call().is_some(),
        StepState::Intended => false,
    };
    u32::try_from(journal.iter().filter(has_ended).count()).unwrap_or(u32::MAX)
}

/// Whether so many deaths are the child's.
fn is_enough(deaths: Deaths) -> bool {
    deaths.in_a_row >= DEATHS_MAX || deaths.in_all >= DEATHS_IN_ALL_MAX
}

/// What the child's result says of it.
fn words(deaths: Deaths, journal: Option<&[StepRecord]>) -> String {
    let place = journal.map_or_else(|| "at a place that cannot be read".to_owned(), place);
    let what = match deaths.in_a_row >= DEATHS_MAX {
        true => format!(
            "died {} times in a row {place}, and no step had ended between; {DEATHS_MAX} such deaths are the limit",
            deaths.in_a_row
        ),
        false => format!(
            "died {} times in all, now {place}; {DEATHS_IN_ALL_MAX} deaths are the limit, however far it gets each time",
            deaths.in_all
        ),
    };
    format!(
        "given up: the process that ran it {what}. In the second half of them nothing ran beside it. What it had done before \
         is kept. Find out what ends the process there (memory, a signal), then delegate the task again, in smaller pieces \
         if need be. With `[delegation] on_crash = \"report\"` a subagent ends at the first death of its process"
    )
}

/// Where it is in its work.
fn place(journal: &[StepRecord]) -> String {
    if journal.is_empty() {
        return "before its first step".to_owned();
    }
    let open = journal.iter().find(|step| step.state == StepState::Intended);
    let what = match open.map(|step| &step.action) {
        None => return format!("after {} step(s)", ended(journal)),
        Some(Action::Model) => "a call of its model".to_owned(),
        Some(Action::Compact) => "a summary of earlier messages".to_owned(),
        Some(Action::Tool { call, .. }) => format!("a call of `{}`", call.name),
        Some(Action::Open | Action::Steer { .. } | Action::Correct { .. } | Action::Switch { .. }) => {
            "what it begins with".to_owned()
        }
    };
    format!("in {what}, after {} step(s)", ended(journal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::message::{ToolCall, ToolResult};
    use legwork_core::step::Product;

    fn step(seq: u32, action: Action, state: StepState) -> StepRecord {
        StepRecord { seq, action, state }
    }

    fn tool(name: &str) -> Action {
        let call = ToolCall {
            id: "c1".to_owned(),
            name: name.to_owned(),
            arguments: Default::default(),
            malformed: None,
        };
        Action::Tool { call, read_only: true }
    }

    fn output() -> StepState {
        let result = ToolResult { call_id: "c1".to_owned(), content: String::new(), is_error: false };
        StepState::Done(Product::Output(result))
    }

    #[test]
    fn k08_a_model_call_that_was_made_again_is_no_progress_and_a_call_in_doubt_is() {
        let crashed = || StepState::Failed("the process died".to_owned());
        let mut journal = vec![step(0, Action::Open, StepState::Done(Product::Opened(Vec::new())))];
        journal.extend((1..=9).map(|seq| step(seq, Action::Model, crashed())));
        journal.push(step(10, Action::Model, StepState::Intended));
        assert_eq!(ended(&journal), 1);
        assert_eq!(place(&journal), "in a call of its model, after 1 step(s)");
        journal.truncate(1);
        journal.extend([step(1, tool("terminal"), crashed()), step(2, tool("read_file"), output())]);
        assert_eq!(ended(&journal), 3);
        assert_eq!(place(&journal), "after 3 step(s)");
        journal.push(step(3, tool("search_files"), StepState::Intended));
        assert_eq!(place(&journal), "in a call of `search_files`, after 3 step(s)");
        assert_eq!(place(&[]), "before its first step");
        let before = Deaths { in_a_row: 2, attempt: 3, steps: 5, in_all: 2 };
        assert_eq!(ended_in(Some(&journal), before), 3);
        assert_eq!(ended_in(None, before), 5, "of a damaged journal nobody knows more than before");
    }
}
