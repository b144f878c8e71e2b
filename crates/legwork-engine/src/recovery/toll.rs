//! Children whose process dies at the same step again and again: which attempts the death of a process has ended, how many of
//! them in a row, and from which number on nobody goes on with the child (docs/design/042-deaths-in-a-row.md).
//!
//! Only what ran is counted. A child that waited for a slot, or for children of its own, has not ended its process; a process
//! that let go of its work, or whose lease had run out, has not died of it.
//!
//! A journal that is damaged stops nobody: how far its child was is taken from the count before, and the child fails by itself
//! when it begins again (K35).

use super::settling::goes_on;
use super::trees::Tree;
use legwork_core::child::ChildState;
use legwork_core::ids::{ChildId, OwnerId};
use legwork_core::ports::{Steps, StoreError};
use legwork_core::pulse::Deaths;
use legwork_core::record::ChildRecord;
use legwork_core::step::{Action, Actor, StepRecord, StepState};
use std::collections::{HashMap, HashSet};

/// Deaths in a row, with no step that ended between, after which a child does not go on.
pub const DEATHS_MAX: u32 = 8;

/// What the deaths of processes mean for the children of a tree.
#[derive(Debug, Default)]
pub(super) struct Toll {
    /// The attempts that the death of their process has ended.
    struck: HashMap<ChildId, u32>,
    /// The children that are given up for it, and what is said of each.
    given_up: HashMap<ChildId, String>,
}

impl Toll {
    /// Counts the deaths in a tree that `heir` is to go on with or to conclude.
    ///
    /// # Errors
    /// [`StoreError`] when a journal cannot be read and is not damaged.
    pub(super) async fn of(tree: &Tree, heir: &OwnerId, steps: &dyn Steps) -> Result<Toll, StoreError> {
        let struck = struck(tree, heir);
        let mut given_up = HashMap::new();
        for child in tree.records().iter().flat_map(|record| &record.children) {
            let Some(&attempt) = struck.get(&child.id) else { continue };
            let known = child.deaths();
            if known.and(attempt, known.steps).in_a_row < DEATHS_MAX {
                continue;
            }
            let journal = readable(&child.id, steps).await?;
            let deaths = known.and(attempt, ended_in(journal.as_deref(), known));
            if deaths.in_a_row >= DEATHS_MAX {
                given_up.insert(child.id.clone(), words(deaths, journal.as_deref()));
            }
        }
        Ok(Toll { struck, given_up })
    }

    /// Why the child is given up, if it is.
    pub(super) fn why(&self, child: &ChildId) -> Option<&str> {
        self.given_up.get(child).map(String::as_str)
    }

    /// How far the children that go on were when the death of their process ended their attempts. Read before the work is
    /// taken, so that an error leaves nothing taken; nobody writes for the dead meanwhile.
    ///
    /// # Errors
    /// [`StoreError`] when a journal cannot be read and is not damaged.
    pub(super) async fn counted(&self, tree: &Tree, steps: &dyn Steps) -> Result<Counted, StoreError> {
        let mut counted = HashMap::new();
        for record in tree.records() {
            for (index, child) in record.children.iter().enumerate() {
                if let Some(&attempt) = self.struck.get(&child.id)
                    && goes_on(record, index, self)
                {
                    let journal = readable(&child.id, steps).await?;
                    let ended = ended_in(journal.as_deref(), child.deaths());
                    counted.insert(child.id.clone(), (attempt, ended));
                }
            }
        }
        Ok(Counted(counted))
    }
}

/// The attempts that the death of their process has ended, with the steps that had ended by then.
#[derive(Debug)]
pub(super) struct Counted(HashMap<ChildId, (u32, u32)>);

impl Counted {
    /// The deaths of a child with the one that has ended its last attempt; `None` when nothing is to be counted.
    pub(super) fn deaths(&self, child: &ChildRecord) -> Option<Deaths> {
        let &(attempt, steps) = self.0.get(&child.id)?;
        Some(child.deaths().and(attempt, steps))
    }
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

fn struck(tree: &Tree, heir: &OwnerId) -> HashMap<ChildId, u32> {
    let records = tree.records();
    let parents: HashSet<&ChildId> =
        records.iter().filter_map(|record| record.accepted.lineage.parent.as_ref()).collect();
    let of_the_dead = records.iter().filter(|record| record.owner.id != *heir && !record.owner.gone);
    let children = of_the_dead.flat_map(|record| &record.children);
    let ran = children.filter_map(|child| match child.state {
        ChildState::Running { attempt } => Some((child, attempt)),
        ChildState::Queued { .. }
        | ChildState::Parked { .. }
        | ChildState::Waiting { .. }
        | ChildState::Stopping { .. }
        | ChildState::Settled(_) => None,
    });
    let itself = ran.filter(|(child, _)| !parents.contains(&child.id));
    itself.map(|(child, attempt)| (child.id.clone(), attempt)).collect()
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

/// What the child's result says of it.
fn words(deaths: Deaths, journal: Option<&[StepRecord]>) -> String {
    format!(
        "given up: the process that ran it died {} times in a row {}, and no step had ended between; {DEATHS_MAX} such deaths \
         are the limit. What it had done before is kept. Find out what ends the process there (memory, a signal), then \
         delegate the task again, in smaller pieces if need be. With `[delegation] on_crash = \"report\"` a subagent ends \
         at the first death of its process",
        deaths.in_a_row,
        journal.map_or_else(|| "at a place that cannot be read".to_owned(), place)
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
        let before = Deaths { in_a_row: 2, attempt: 3, steps: 5 };
        assert_eq!(ended_in(Some(&journal), before), 3);
        assert_eq!(ended_in(None, before), 5, "of a damaged journal nobody knows more than before");
    }
}
