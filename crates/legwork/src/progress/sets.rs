//! What people are shown of children that run: delegations are numbered as they appear in a conversation, and what is left of
//! each unit is counted down (PROG-1 to PROG-11). It is a fold over live events; it prints nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use legwork_core::ids::{DelegationId, SessionId, UnitId};
use legwork_core::outcome::{Outcome, StopReason};
use legwork_core::ports::{EndFacts, Identity, LiveEvent};

/// Delegations that were seen.
#[derive(Debug, Default)]
pub struct Sets {
    seen: HashMap<DelegationId, Set>,
    /// How many were seen of each conversation.
    counts: HashMap<SessionId, usize>,
}

/// One delegation.
#[derive(Debug)]
struct Set {
    number: usize,
    /// Children that have not settled, of each unit of which some have.
    left: HashMap<UnitId, usize>,
}

/// Where a child stands among those that people see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The number of its delegation.
    pub set: usize,
    /// Its task's position in the call.
    pub task_index: usize,
    /// How many tasks the call has.
    pub task_count: usize,
}

/// A child that has ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Where it stands.
    pub place: Place,
    /// The beginning of its goal.
    pub goal: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What was counted.
    pub facts: Arc<EndFacts>,
    /// How long it ran.
    pub elapsed: Duration,
}

/// One thing to show.
#[derive(Debug, Clone)]
pub enum Notice {
    /// The first that is seen of a delegation of several tasks.
    Head {
        /// Its number.
        set: usize,
        /// How many tasks it has.
        tasks: usize,
    },
    /// A child's run began.
    Began {
        /// Where it stands.
        place: Place,
        /// The beginning of its goal.
        goal: String,
    },
    /// A child of a unit of several has ended.
    Ended(Ended),
    /// A child has failed, whatever its unit is.
    Failed(Ended),
    /// So many children of a unit have not ended; none are left when it is nought.
    Left {
        /// The number of its delegation.
        set: usize,
        /// How many of its unit.
        tasks: usize,
    },
    /// Events were lost.
    Lost(u64),
}

impl Sets {
    /// What is to be shown of an event.
    pub fn take(&mut self, event: &LiveEvent) -> Vec<Notice> {
        match event {
            LiveEvent::Queued(child) => self.met(child),
            LiveEvent::Started { child, attempt: _ } => {
                let mut notices = self.met(child);
                notices.push(Notice::Began { place: self.place(child), goal: child.goal.clone() });
                notices
            }
            LiveEvent::Settled { child, outcome, elapsed, facts, ends_unit: _ } => {
                let mut notices = self.met(child);
                let (place, goal) = (self.place(child), child.goal.clone());
                let ended = Ended { place, goal, outcome: *outcome, facts: facts.clone(), elapsed: *elapsed };
                notices.extend(self.ended(child, ended));
                notices
            }
            LiveEvent::Told { .. } => Vec::new(),
            LiveEvent::Lagged(lost) => vec![Notice::Lost(*lost)],
        }
    }

    /// Numbers a delegation at first sight, and heads it when it has several tasks.
    fn met(&mut self, child: &Identity) -> Vec<Notice> {
        if self.seen.contains_key(&child.delegation) {
            return Vec::new();
        }
        let count = self.counts.entry(child.session.clone()).or_default();
        *count += 1;
        let number = *count;
        self.seen.insert(child.delegation.clone(), Set { number, left: HashMap::new() });
        if child.task_count < 2 {
            return Vec::new();
        }
        vec![Notice::Head { set: number, tasks: child.task_count }]
    }

    /// Only those who come back together with others have a line each: the result of one that is alone follows at once.
    fn ended(&mut self, child: &Identity, ended: Ended) -> Vec<Notice> {
        let mut notices = Vec::new();
        let place = ended.place;
        if has_failed(ended.outcome) {
            notices.push(Notice::Failed(ended.clone()));
        }
        if child.unit_count > 1 {
            notices.insert(0, Notice::Ended(ended));
            notices.push(Notice::Left { set: place.set, tasks: self.one_less(child) });
        }
        notices
    }

    fn one_less(&mut self, child: &Identity) -> usize {
        let Some(set) = self.seen.get_mut(&child.delegation) else { return 0 };
        let left = set.left.entry(child.unit.clone()).or_insert(child.unit_count);
        *left = left.saturating_sub(1);
        *left
    }

    fn place(&self, child: &Identity) -> Place {
        let set = self.seen.get(&child.delegation).map_or(0, |set| set.number);
        Place { set, task_index: child.task_index, task_count: child.task_count }
    }
}

/// Whether somebody should hear of it apart from all else. Who asked for a stop knows of it.
fn has_failed(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Failed(_) | Outcome::Lost | Outcome::Stopped(StopReason::Stalled | StopReason::TimedOut) => {
            true
        }
        Outcome::Succeeded
        | Outcome::Partial(_)
        | Outcome::Stopped(
            StopReason::Cancelled
            | StopReason::ParentStopped
            | StopReason::SessionEnded
            | StopReason::OwnerLost
            | StopReason::Shutdown,
        ) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::ids::ChildId;
    use legwork_core::outcome::FailureKind;

    /// A child of the delegation with this number, whose units are as long as told.
    fn child(delegation: u32, session: u64, task_index: usize, units: &[usize]) -> Arc<Identity> {
        let delegation = DelegationId::from_bits(delegation);
        let mut first = 0;
        let unit = units.iter().position(|count| {
            first += count;
            task_index < first
        });
        let unit = unit.expect("the task is in a unit");
        Arc::new(Identity {
            unit: UnitId::part(&delegation, unit + 1),
            delegation,
            session: SessionId::from_bits(session),
            parent: None,
            child: ChildId::from_bits(task_index, 7),
            depth: 1,
            task_index,
            task_count: units.iter().sum(),
            unit_count: units[unit],
            goal: format!("goal {task_index}"),
            model: "fake/model".to_owned(),
            tools: ["look".to_owned()].into(),
        })
    }

    fn settled(child: &Arc<Identity>, outcome: Outcome) -> LiveEvent {
        let elapsed = Duration::from_millis(3240);
        LiveEvent::Settled { child: child.clone(), outcome, elapsed, facts: Arc::default(), ends_unit: true }
    }

    /// The notices in short: what, the set, and a number.
    fn shown(sets: &mut Sets, events: &[LiveEvent]) -> Vec<String> {
        let notices = events.iter().flat_map(|event| sets.take(event)).collect::<Vec<_>>();
        let short = |notice: Notice| match notice {
            Notice::Head { set, tasks } => format!("head {set} of {tasks}"),
            Notice::Began { place, .. } => format!("began {} {}", place.set, place.task_index),
            Notice::Ended(Ended { place, .. }) => {
                format!("ended {} {}/{}", place.set, place.task_index + 1, place.task_count)
            }
            Notice::Failed(Ended { place, goal, .. }) => format!("failed {} {goal}", place.set),
            Notice::Left { set, tasks } => format!("left {set} {tasks}"),
            Notice::Lost(lost) => format!("lost {lost}"),
        };
        notices.into_iter().map(short).collect()
    }

    /// Proves PROG-1, PROG-2.
    #[test]
    fn delegations_are_numbered_in_each_conversation_and_headed_once_when_they_have_several_tasks() {
        let mut sets = Sets::default();
        let (first, again) = (child(1, 1, 0, &[2]), child(1, 1, 1, &[2]));
        let (single, other) = (child(2, 1, 0, &[1]), child(3, 2, 0, &[3]));
        let third = child(4, 1, 0, &[2]);
        let queued = |child: &Arc<Identity>| LiveEvent::Queued(child.clone());
        let events = [&first, &again, &single, &other, &first, &third].map(queued);
        assert_eq!(shown(&mut sets, &events), ["head 1 of 2", "head 1 of 3", "head 3 of 2"]);
        let began = LiveEvent::Started { child: single.clone(), attempt: 1 };
        assert_eq!(shown(&mut sets, &[began]), ["began 2 0"], "what was seen before is not headed again");
    }

    /// Proves PROG-3, PROG-10, DISP-12.
    #[test]
    fn units_count_down_by_themselves_and_one_that_is_alone_has_no_line() {
        let mut sets = Sets::default();
        let units: &[usize] = &[2, 1, 3];
        let done = |index| settled(&child(1, 1, index, units), Outcome::Succeeded);
        assert_eq!(
            shown(&mut sets, &[done(1), done(2), done(5), done(0)]),
            ["head 1 of 6", "ended 1 2/6", "left 1 1", "ended 1 6/6", "left 1 2", "ended 1 1/6", "left 1 0"]
        );
    }

    /// Proves PROG-11.
    #[test]
    fn a_failure_is_told_apart_also_where_there_is_no_line() {
        let mut sets = Sets::default();
        let alone = child(1, 1, 0, &[1]);
        let failed = Outcome::Failed(FailureKind::Model);
        assert_eq!(shown(&mut sets, &[settled(&alone, failed)]), ["failed 1 goal 0"]);
        let stopped = Outcome::Stopped(StopReason::Cancelled);
        assert_eq!(shown(&mut sets, &[settled(&alone, stopped)]), Vec::<String>::new());
        let one_of_two = child(2, 1, 1, &[2]);
        let told = shown(&mut sets, &[settled(&one_of_two, failed), LiveEvent::Lagged(3)]);
        assert_eq!(told, ["head 2 of 2", "ended 2 2/2", "failed 2 goal 1", "left 2 1", "lost 3"]);
    }
}
