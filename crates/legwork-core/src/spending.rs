//! What subagents took. Each response is recorded once, by the subagent that asked for it; what a subagent took
//! together with those below it is a sum over such records and is stored nowhere (invariant 28).

use crate::ids::ChildId;
use crate::record::{ChildRecord, DelegationRecord};
use crate::report::{Cost, Usage};
use std::collections::HashMap;

/// What several subagents took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spending {
    /// How many they are.
    pub subagents: usize,
    /// Their tokens.
    pub usage: Usage,
    /// What that cost; what has no price is skipped.
    pub cost: Cost,
}

impl Spending {
    /// What a subagent took itself. One without a report counts with its last pulse.
    pub fn own(child: &ChildRecord) -> Spending {
        let pulse = child.pulse.as_ref().map(|(pulse, _)| (pulse.usage, pulse.cost));
        let reported = child.report.as_ref().map(|report| (report.usage, report.cost));
        let (usage, cost) = reported.or(pulse).unwrap_or_default();
        Spending { subagents: 1, usage, cost }
    }

    /// Both together.
    #[must_use]
    pub fn plus(mut self, other: Spending) -> Spending {
        self.subagents += other.subagents;
        self.usage += other.usage;
        self.cost = self.cost.plus(other.cost);
        self
    }
}

/// What the children of a delegation took together with all `below` them, which has callers before what they called for.
pub(crate) fn summed<'a>(
    record: &DelegationRecord,
    below: impl DoubleEndedIterator<Item = &'a DelegationRecord>,
) -> Vec<(ChildId, Spending)> {
    let mut sums: HashMap<&ChildId, Spending> = HashMap::new();
    for called in below.rev() {
        let Some(caller) = &called.accepted.lineage.parent else { continue };
        for child in &called.children {
            let whole = Spending::own(child).plus(sums.get(&child.id).copied().unwrap_or_default());
            let sum = sums.entry(caller).or_default();
            *sum = sum.plus(whole);
        }
    }
    let whole = |child: &ChildRecord| {
        let below = sums.get(&child.id)?;
        Some((child.id.clone(), Spending::own(child).plus(*below)))
    };
    record.children.iter().filter_map(whole).collect()
}
