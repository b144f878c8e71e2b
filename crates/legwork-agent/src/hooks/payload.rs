//! What hooks read: counted facts, the goal and the answer. Of a tool call it has sizes and targets and never whole values
//! (ENTRY-11).

use crate::tools::DELEGATE_TASK;
use legwork_core::completion::{self, Entry};
use legwork_core::ids::{ChildId, UnitId};
use legwork_core::ports::Identity;
use legwork_core::record::DelegationRecord;
use serde_json::{Value, json};

/// HOOK-1.
pub(super) fn started(record: &DelegationRecord, child: &Identity, depth_max: u32) -> Value {
    let accepted = &record.accepted;
    json!({
        "hook": "subagent_start",
        "delegation_id": accepted.delegation,
        "parent_session_id": accepted.lineage.session,
        "parent_turn_id": accepted.call_key.as_ref().map(|key| &key.call),
        "parent_subagent_id": accepted.lineage.parent,
        "child_session_id": child.child,
        "child_subagent_id": child.child,
        "child_role": role(child, depth_max),
        "child_goal": accepted.tasks.get(child.task_index).map(|task| &task.goal),
    })
}

/// HOOK-2; nothing while the child has not settled.
pub(super) fn stopped(record: &DelegationRecord, child: &Identity, depth_max: u32) -> Option<Value> {
    let accepted = &record.accepted;
    let row = record.children.get(child.task_index)?;
    let entry = completion::entry(accepted, child.task_index, row)?;
    Some(json!({
        "hook": "subagent_stop",
        "delegation_id": accepted.delegation,
        "parent_session_id": accepted.lineage.session,
        "parent_turn_id": accepted.call_key.as_ref().map(|key| &key.call),
        "child_session_id": child.child,
        "child_subagent_id": child.child,
        "child_role": role(child, depth_max),
        "child_summary": entry.summary,
        "child_status": entry.status,
        "duration_ms": u64::try_from(row.took().as_millis()).unwrap_or(u64::MAX),
        "cost_usd": entry.cost_usd,
        "cost_status": entry.cost_status,
        "tool_call_history": history(&entry),
    }))
}

/// FIN-5 for each task of a unit; nothing while one of them has not settled.
pub(super) fn finished(record: &DelegationRecord, unit: &UnitId) -> Option<Value> {
    let accepted = &record.accepted;
    let unit = accepted.units.iter().find(|known| known.id == *unit)?;
    let results = unit.task_indexes.iter().map(|index| {
        let row = record.children.get(*index)?;
        let entry = completion::entry(accepted, *index, row)?;
        Some(result(&accepted.tasks.get(*index)?.goal, &row.id, &entry))
    });
    let results: Vec<Value> = results.collect::<Option<_>>()?;
    Some(json!({
        "hook": "delegation_finished",
        "delegation_id": accepted.delegation,
        "unit_id": unit.id,
        "parent_session_id": accepted.lineage.session,
        "results": results,
    }))
}

fn result(goal: &str, child: &ChildId, entry: &Entry) -> Value {
    json!({
        "task": goal,
        "result": entry.summary.as_deref().unwrap_or_default(),
        "child_session_id": child,
        "status": entry.status,
    })
}

fn role(child: &Identity, depth_max: u32) -> &'static str {
    let may_delegate = child.depth < depth_max && child.tools.contains(DELEGATE_TASK);
    if may_delegate { "orchestrator" } else { "leaf" }
}

fn history(entry: &Entry) -> Vec<Value> {
    let items = entry.tool_trace.iter().map(|item| {
        json!({
            "tool_name": item.tool,
            "tool_input": item.input_summary,
            "input_bytes": item.args_bytes,
            "output_bytes": item.result_bytes,
            "status": item.status,
        })
    });
    items.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::completion::tests::{answered, arrival};
    use legwork_core::outcome::Outcome;
    use legwork_core::report::{Cost, Report};

    /// Proves FIN-7, HOOK-2: what a subagent took is told to hooks, and one without a price is told apart from one for nothing.
    #[test]
    fn fin_07_a_hook_hears_what_a_subagent_cost() {
        for (cost, told) in [
            (Cost::MicroUsd(250_000), (json!(0.25), json!("estimated"))),
            (Cost::MicroUsd(0), (json!(0.0), json!("estimated"))),
            (Cost::Unknown, (json!(0.0), json!("unknown"))),
        ] {
            let record = arrival(&[("any", Outcome::Succeeded, Report { cost, ..answered("done") })]).record;
            let child = Identity::of(&record.accepted, 0).expect("there is one");
            let stop = stopped(&record, &child, 1).expect("it has ended");
            assert_eq!((stop["cost_usd"].clone(), stop["cost_status"].clone()), told, "{cost:?}");
        }
    }
}
