//! Subagents of the conversation that another process runs, or none any more: who that is, in words, and what a stop is
//! aimed at. It asks nobody.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::ports::{ChildView, Runner, SessionView};
use legwork_core::steering::Scope;

/// How many of one's subagents run where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// In other processes, by their process ids.
    processes: BTreeMap<u32, usize>,
    /// Whose process has died.
    nowhere: usize,
}

impl Places {
    /// Where those of `children` are that do not run here.
    pub fn of<'a>(children: impl Iterator<Item = &'a ChildView>) -> Places {
        let mut places = Places::default();
        for child in children {
            match child.runner {
                Runner::Here => {}
                Runner::Elsewhere { pid } => *places.processes.entry(pid).or_default() += 1,
                Runner::Nobody => places.nowhere += 1,
            }
        }
        places
    }

    /// In a few words; `None` when all run here.
    pub fn words(&self) -> Option<String> {
        let mut parts: Vec<String> =
            self.processes.iter().map(|(pid, count)| format!("{count} in process {pid}")).collect();
        if self.nowhere > 0 {
            parts.push(format!("{} without a process", self.nowhere));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Who runs a subagent; one that has ended meanwhile counts as run here.
pub fn runner_of(seen: &SessionView, child: &ChildId) -> Runner {
    seen.children.iter().find(|view| view.child == *child).map_or(Runner::Here, |view| view.runner)
}

/// What a stop of everything is aimed at besides what runs here: a stop of a delegation reaches all below it.
pub fn scopes(seen: &SessionView) -> impl Iterator<Item = Scope> {
    let others = || seen.children.iter().filter(|view| view.runner != Runner::Here);
    let known: HashSet<&ChildId> = others().map(|view| &view.child).collect();
    let roots = others().filter(|view| view.parent.as_ref().is_none_or(|parent| !known.contains(parent)));
    let delegations: BTreeSet<DelegationId> = roots.map(|view| view.delegation.clone()).collect();
    delegations.into_iter().map(Scope::Delegation)
}

/// What is said when subagents were told to end.
pub fn told_to_stop(told: &[ChildId], seen: &[ChildView]) -> String {
    let what = match told.len() {
        0 => return "nothing was running any more".to_owned(),
        1 => "1 subagent was told to stop".to_owned(),
        count => format!("{count} subagents were told to stop"),
    };
    let places = Places::of(seen.iter().filter(|view| told.contains(&view.child)));
    let Some(words) = places.words() else { return what };
    let later =
        if places.nowhere > 0 { "; what has no process ends when somebody goes on with it" } else { "" };
    format!("{what}: {words}{later}")
}

/// What is said when those of other processes cannot be read.
pub fn unreadable(why: &str) -> String {
    format!("what other processes run for this conversation cannot be read now: {why}; asking again is safe")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::screens::child;
    use legwork_core::child::ChildState;

    fn in_order(runners: &[Runner]) -> Vec<ChildView> {
        let view = |(number, runner): (usize, &Runner)| ChildView {
            runner: *runner,
            ..child(number, runners.len(), ChildState::Running { attempt: 1 })
        };
        runners.iter().enumerate().map(view).collect()
    }

    #[test]
    fn ctrl_02_what_runs_elsewhere_is_counted_by_process() {
        let (seven, eight) = (Runner::Elsewhere { pid: 7 }, Runner::Elsewhere { pid: 8 });
        let cases = [
            (vec![], None, "nothing was running any more"),
            (vec![Runner::Here], None, "1 subagent was told to stop"),
            (
                vec![Runner::Here, seven],
                Some("1 in process 7"),
                "2 subagents were told to stop: 1 in process 7",
            ),
            (
                vec![eight, seven, seven, Runner::Nobody],
                Some("2 in process 7, 1 in process 8, 1 without a process"),
                "4 subagents were told to stop: 2 in process 7, 1 in process 8, 1 without a process; what has no process ends when somebody goes on with it",
            ),
        ];
        for (runners, words, told) in cases {
            let seen = in_order(&runners);
            let children: Vec<ChildId> = seen.iter().map(|view| view.child.clone()).collect();
            assert_eq!(Places::of(seen.iter()).words().as_deref(), words);
            assert_eq!(told_to_stop(&children, &seen), told);
        }
    }

    #[test]
    fn kill_03_a_stop_of_everything_is_aimed_at_the_delegations_that_nobody_above_waits_for_elsewhere() {
        let mut children = in_order(&[Runner::Here, Runner::Elsewhere { pid: 7 }, Runner::Nobody]);
        children[1].delegation = DelegationId::from_bits(2);
        children[2].delegation = DelegationId::from_bits(3);
        children[2].parent = Some(children[1].child.clone());
        let seen = SessionView { children, unreadable: None };
        assert_eq!(scopes(&seen).collect::<Vec<_>>(), [Scope::Delegation(DelegationId::from_bits(2))]);
    }
}
