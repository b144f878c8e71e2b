//! What a turn took together with all subagents below it: each response counts once, at whatever depth it came.
//!
//! It counts and words; whoever calls reads the records.

use std::collections::HashSet;

use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::record::DelegationRecord;
use legwork_core::report::{Cost, Report, Usage};
use legwork_core::spending::Spending;
use serde_json::{Value, json};

/// What one subagent took, and who sent it out.
struct Spent {
    delegation: DelegationId,
    /// The subagent whose call it was made by; `None` for the session itself.
    caller: Option<ChildId>,
    child: ChildId,
    usage: Usage,
    cost: Cost,
}

/// The sums of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    usage: Usage,
    /// What the turn's own responses cost.
    own: Cost,
    /// What those of all its subagents cost.
    below: Cost,
}

impl Totals {
    /// Sums up a turn and the subagents of the delegations that it `began`, with all that those sent out in turn.
    /// `records` are those of the session, in any order. Who has no report counts with its last pulse.
    pub fn of(turn: &Report, began: &[DelegationId], records: &[DelegationRecord]) -> Totals {
        Totals::sum(turn, began, records.iter().flat_map(spent).collect())
    }

    fn sum(turn: &Report, began: &[DelegationId], mut rest: Vec<Spent>) -> Totals {
        let mut totals = Totals { usage: turn.usage, own: turn.cost, below: Cost::Unknown };
        let mut callers: HashSet<ChildId> = HashSet::new();
        loop {
            let is_below = |one: &Spent| match &one.caller {
                Some(caller) => callers.contains(caller),
                None => began.contains(&one.delegation),
            };
            let (found, left): (Vec<Spent>, Vec<Spent>) = rest.into_iter().partition(is_below);
            if found.is_empty() {
                return totals;
            }
            for one in found {
                totals.usage += one.usage;
                totals.below = totals.below.plus(one.cost);
                callers.insert(one.child);
            }
            rest = left;
        }
    }

    /// As `run --json` prints it (FIN-7).
    pub fn to_json(self) -> Value {
        let cost = self.own.plus(self.below);
        let source = match (self.own, self.below) {
            (Cost::MicroUsd(_), _) => Some("provider"),
            (Cost::Unknown, Cost::MicroUsd(micro)) if micro > 0 => Some("subagent"),
            (Cost::Unknown, Cost::MicroUsd(_) | Cost::Unknown) => None,
        };
        let status = if source.is_some() { cost.status() } else { Cost::Unknown.status() };
        json!({
            "tokens": {"input": self.usage.input, "output": self.usage.output},
            "cost_usd": cost.usd(),
            "cost_status": status,
            "cost_source": source,
        })
    }
}

fn spent(record: &DelegationRecord) -> impl Iterator<Item = Spent> {
    let accepted = &record.accepted;
    record.children.iter().map(|child| {
        let Spending { usage, cost, subagents: _ } = Spending::own(child);
        let (delegation, caller) = (accepted.delegation.clone(), accepted.lineage.parent.clone());
        Spent { delegation, caller, child: child.id.clone(), usage, cost }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::outcome::Ending;

    fn child(number: usize) -> ChildId {
        ChildId::from_bits(number, 0xa0)
    }

    fn one(delegation: u32, caller: Option<usize>, number: usize, cost: Cost) -> Spent {
        let usage = Usage { input: 10, output: 1, ..Usage::default() };
        Spent {
            delegation: DelegationId::from_bits(delegation),
            caller: caller.map(child),
            child: child(number),
            usage,
            cost,
        }
    }

    fn told(own: Cost, rows: Vec<Spent>) -> Value {
        let usage = Usage { input: 100, output: 5, ..Usage::default() };
        let turn = Report { usage, cost: own, ..Report::bare(Ending::Answered) };
        Totals::sum(&turn, &[DelegationId::from_bits(1)], rows).to_json()
    }

    #[test]
    fn fin_07_a_tree_is_summed_level_by_level_and_what_has_no_price_is_skipped() {
        let rows = vec![
            one(3, Some(2), 4, Cost::MicroUsd(4)),
            one(1, None, 1, Cost::Unknown),
            one(1, None, 2, Cost::MicroUsd(2)),
            one(9, None, 5, Cost::MicroUsd(1000)),
            one(8, Some(5), 6, Cost::MicroUsd(1000)),
            one(4, Some(4), 7, Cost::MicroUsd(8)),
        ];
        let expected = json!({
            "tokens": {"input": 140, "output": 9},
            "cost_usd": 0.000_015,
            "cost_status": "estimated",
            "cost_source": "provider",
        });
        assert_eq!(told(Cost::MicroUsd(1), rows), expected, "an earlier turn's work is not counted again");
    }

    #[test]
    fn fin_07_only_a_positive_sum_gives_an_unknown_cost_a_source() {
        let source = |own, below| {
            let told = told(own, vec![one(1, None, 1, below)]);
            (told["cost_source"].clone(), told["cost_status"].clone())
        };
        let (free, paid) = (Cost::MicroUsd(0), Cost::MicroUsd(3));
        assert_eq!(source(Cost::Unknown, Cost::Unknown), (json!(null), json!("unknown")));
        assert_eq!(source(Cost::Unknown, free), (json!(null), json!("unknown")));
        assert_eq!(source(Cost::Unknown, paid), (json!("subagent"), json!("estimated")));
        assert_eq!(source(free, paid), (json!("provider"), json!("estimated")));
    }
}
