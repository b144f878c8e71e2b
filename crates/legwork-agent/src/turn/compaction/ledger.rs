//! What became of the delegations that earlier messages speak of: computed from the store each time, so that ids, states
//! and addresses are right after any number of summaries. A model has no part in it.

use crate::excerpt::head_of;
use crate::tools::DELEGATE_TASK;
use legwork_core::batch::Lineage;
use legwork_core::ids::{CallKey, DelegationId};
use legwork_core::message::Message;
use legwork_core::outcome::Outcome;
use legwork_core::ports::Facts;
use legwork_core::record::{ChildRecord, DelegationRecord};
use legwork_core::step::Actor;
use std::collections::HashSet;
use std::sync::Arc;

/// Delegations that are listed; of more the last ones are.
const DELEGATIONS_MAX: usize = 64;
/// Goals that are repeated of each.
const GOALS_MAX: usize = 4;
/// Bytes of each of those.
const GOAL_BYTES_MAX: usize = 120;
/// Units, subagents and transcripts that are named of each.
const NAMES_MAX: usize = 16;

const PREFIX: &str = "deleg_";
const DIGITS: usize = 8;

/// The ids of delegations in texts, each once, in the order in which they were named last.
pub(super) fn ids(texts: impl Iterator<Item = String>) -> Vec<DelegationId> {
    let mut found: Vec<String> = Vec::new();
    for text in texts {
        for (start, _) in text.match_indices(PREFIX) {
            let end = start + PREFIX.len() + DIGITS;
            let Some(id) = text.get(start..end) else { continue };
            if id[PREFIX.len()..].bytes().all(|byte| byte.is_ascii_hexdigit()) {
                found.push(id.to_owned());
            }
        }
    }
    let mut seen = HashSet::new();
    let mut last: Vec<String> = found.into_iter().rev().filter(|id| seen.insert(id.clone())).collect();
    last.truncate(DELEGATIONS_MAX);
    last.into_iter().rev().map(DelegationId::from_stored).collect()
}

/// The ids of what calls in these messages delegated: the answer of one that waited does not name it. A call that cannot
/// be looked up is left to what the texts say.
pub(super) async fn called(facts: &dyn Facts, actor: &Actor, messages: &[Arc<Message>]) -> Vec<String> {
    let mut found = Vec::new();
    let calls = messages.iter().flat_map(|message| message.calls());
    for call in calls.filter(|call| call.name == DELEGATE_TASK) {
        let key = CallKey { caller: actor.as_str().to_owned(), call: call.id.clone() };
        found.extend(facts.by_call_key(&key).await.ok().flatten().map(|id| id.to_string()));
    }
    found
}

/// One line for each delegation that is the agent's own: for a child those it made, for a session all of its.
pub(super) async fn lines(facts: &dyn Facts, agent: &Lineage, ids: Vec<DelegationId>) -> Vec<String> {
    let mut lines = Vec::new();
    for id in ids {
        match facts.delegation(&id).await {
            Ok(Some(record)) if is_own(agent, &record) => lines.push(line(&record)),
            // A text may name anything; what is not there, or belongs to somebody else, is not told of.
            Ok(Some(_) | None) => {}
            Err(error) => lines
                .push(format!("{id}: its state could not be read ({error}); `legwork show {id}` tells it")),
        }
    }
    lines
}

fn is_own(agent: &Lineage, record: &DelegationRecord) -> bool {
    let asked = &record.accepted.lineage;
    asked.session == agent.session && (agent.parent.is_none() || asked.parent == agent.parent)
}

fn line(record: &DelegationRecord) -> String {
    let id = &record.accepted.delegation;
    let goals = record.accepted.tasks.iter().map(|task| goal(&task.goal));
    let units = record.accepted.units.iter().zip(&record.deliveries);
    let units = units.map(|(unit, delivery)| format!("{} {}", unit.id, delivery.state.as_str()));
    let children = record.children.iter().map(|child| format!("{} {}", child.id, state(child)));
    let transcripts = record.accepted.transcripts.iter().filter(|path| !path.is_empty()).cloned();
    let mut line = format!("{id}: {}; goals {}", record.state_text(), some(goals, GOALS_MAX));
    line.push_str(&format!("; units {}", some(units, NAMES_MAX)));
    line.push_str(&format!("; subagents {}", some(children, NAMES_MAX)));
    line.push_str(&format!("; results with `legwork results {id}`"));
    let transcripts = some(transcripts, NAMES_MAX);
    if !transcripts.is_empty() {
        line.push_str(&format!("; transcripts {transcripts}"));
    }
    line
}

fn state(child: &ChildRecord) -> &'static str {
    child.outcome().map_or(child.state.as_str(), |outcome: Outcome| outcome.status().as_str())
}

/// A goal on one line, quoted so that it cannot be taken for anything of ours.
fn goal(goal: &str) -> String {
    serde_json::Value::from(head_of(goal, GOAL_BYTES_MAX)).to_string()
}

/// The first few of many names.
fn some(names: impl Iterator<Item = String>, max: usize) -> String {
    let names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(max);
    let mut text = names[..names.len() - more].join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k25_ids_are_found_wherever_they_stand_and_the_last_ones_are_kept() {
        let texts = [
            "deleg_0000000a and deleg_0000000b-2".to_owned(),
            "{\"delegation_id\":\"deleg_0000000a\"} deleg_12 deleg_éééé1234 deleg_xyzxyzxy".to_owned(),
        ];
        let found = ids(texts.into_iter());
        let found: Vec<&str> = found.iter().map(DelegationId::as_str).collect();
        assert_eq!(found, ["deleg_0000000b", "deleg_0000000a"]);
        let many = (0..100).map(|n| format!("deleg_{n:08x}"));
        let found = ids(many);
        assert_eq!((found.len(), found[63].as_str()), (64, "deleg_00000063"));
    }
}
