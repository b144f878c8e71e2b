//! The notice that the model which was configured for children is not known to its provider (EVT-9). It comes from the typed
//! reason of the failure, not from words of a provider.

use super::quoted::name;
use super::{Arrival, task::Task};
use legwork_core::batch::Route;
use legwork_core::report::FailureReason;

/// One line for the first such model, with its setting and what stands in for it; nothing when there is none.
pub(super) fn notice(arrival: &Arrival, tasks: &[Task<'_>]) -> Option<String> {
    let accepted = &arrival.record.accepted;
    tasks.iter().find_map(|task| {
        let index = task.entry.task_index;
        let report = arrival.record.children.get(index)?.report.as_ref()?;
        let route = accepted.tasks.get(index)?.route_within(&accepted.setting);
        let is_unknown = report.failure_reason == Some(FailureReason::ModelNotFound);
        let table = route.table.as_deref().filter(|_| is_unknown)?;
        Some(line(route, table))
    })
}

fn line(route: &Route, table: &str) -> String {
    let (provider, model) = route.model.split_once('/').unwrap_or(("", &route.model));
    let instead = if route.fallbacks.is_empty() {
        format!("Nothing stands in for it: `{}.fallback_providers` is not set.", name(table))
    } else {
        let others: Vec<String> = route.fallbacks.iter().map(|other| name(other)).collect();
        format!("What stands in for it could not answer either: {}.", others.join(", "))
    };
    format!(
        "The provider {} does not know the model {}, which the setting `{}.model` names; whoever configured it must change that. \
         {instead}\n\n",
        name(provider),
        name(model),
        name(table),
    )
}
