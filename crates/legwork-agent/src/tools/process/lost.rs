//! Processes that an agent was told to have, and that went with the process of legwork which they ran under: it goes on in
//! another one and has to hear of that once (PROC-3, invariant 20). That it has them was told in its own messages, and so is
//! their end, so that both are found there; what a process was is looked up.
//!
//! It does not say when the agent hears of it.

use super::background::BackgroundProcesses;
use super::wording;
use crate::journal::OpenExchange;
use crate::process::{is_group_living, kill_groups};
use legwork_core::aftermath::HandedOff;
use legwork_core::completion::told_to_go_on;
use legwork_core::handover::{self, PROCESS};
use legwork_core::message::{Author, Message, Part};
use legwork_core::ports::{Facts, Found, StoreError};
use legwork_core::record::ProcessGroup;
use legwork_core::step::Actor;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// All that an agent knows: its messages, with those of a reply whose calls have not all ended.
pub(crate) fn known(messages: &[Arc<Message>], open: Option<&OpenExchange>) -> Vec<Arc<Message>> {
    let mut known = messages.to_vec();
    if let Some(OpenExchange { reply, results }) = open {
        let parts = results.iter().cloned().map(Part::Result).collect();
        known.push(Arc::new(reply.message.clone()));
        known.push(Arc::new(Message { author: Author::Tool, parts }));
    }
    known
}

/// A process that was handed over, with its group as far as that is known.
type Handed = (HandedOff, Option<ProcessGroup>);

/// Lets an agent hear of processes that it was told to have by `messages`, that it has no more, and of whose end it has not heard.
/// What is left of them is ended: whoever ran them is gone, or has lost the agent. What cannot be looked up now is told when it
/// goes on the next time.
pub(crate) async fn tell_lost(
    background: &BackgroundProcesses,
    facts: &dyn Facts,
    actor: &Actor,
    messages: &[Arc<Message>],
) {
    let ids = messages.iter().flat_map(|message| told(message)).collect::<BTreeSet<String>>();
    let mut lost = Vec::new();
    for id in ids {
        if background.has(actor, &id) || has_heard(messages, &id) {
            continue;
        }
        match handed(facts, actor, &id).await {
            Ok(found) => lost.extend(found),
            Err(error) => {
                tracing::warn!(id, %error, "what became of a process that was handed over cannot be looked up");
            }
        }
    }
    let groups: Vec<ProcessGroup> = lost.iter().filter_map(|(_, group)| group.clone()).collect();
    end(groups).await;
    lost.iter().for_each(|(process, _)| background.note_lost(actor, process));
}

async fn end(mut groups: Vec<ProcessGroup>) {
    let ending = tokio::task::spawn_blocking(move || {
        groups.retain(is_group_living);
        if !groups.is_empty() {
            kill_groups(&groups);
        }
    });
    if let Err(error) = ending.await {
        tracing::error!(%error, "BUG: the end of processes that were handed over broke off");
    }
}

/// The ids of processes that a message says to go on.
fn told(message: &Message) -> Vec<String> {
    match message.author {
        Author::Completion => told_to_go_on(&message.plain_text()),
        Author::Tool => results(message).flat_map(|(_, text)| told_to_go_on(text)).collect(),
        Author::System | Author::User | Author::Assistant | Author::Summary => Vec::new(),
    }
}

/// Whether the agent knows of the end: it was told, or has looked.
fn has_heard(messages: &[Arc<Message>], id: &str) -> bool {
    let mut looks: HashSet<&str> = HashSet::new();
    messages.iter().any(|message| match message.author {
        Author::Assistant => {
            let calls = message.calls().filter(|call| call.name == PROCESS);
            looks.extend(calls.map(|call| call.id.as_str()));
            false
        }
        Author::Tool => {
            results(message).any(|(call, text)| looks.contains(call) && wording::answer_tells_end(text, id))
        }
        Author::Completion | Author::User => wording::notice_tells_end(&message.plain_text(), id),
        Author::System | Author::Summary => false,
    })
}

fn results(message: &Message) -> impl Iterator<Item = (&str, &str)> {
    message.parts.iter().filter_map(|part| match part {
        Part::Result(result) => Some((result.call_id.as_str(), result.content.as_str())),
        Part::Text { .. } | Part::Reasoning { .. } | Part::Call(_) | Part::Image(_) | Part::Summary(_) => {
            None
        }
    })
}

/// What a subagent of this agent has handed over under the id. Others may have said that one has.
async fn handed(facts: &dyn Facts, actor: &Actor, id: &str) -> Result<Option<Handed>, StoreError> {
    let Some(giver) = handover::giver(id) else { return Ok(None) };
    let found = facts.find(giver.as_str()).await?;
    let home = found.into_iter().find_map(|found| match found {
        Found::Child(delegation, child) => (child == giver).then_some(delegation),
        Found::Delegation(_) | Found::Unit(..) | Found::Session(_) => None,
    });
    let Some(home) = home else { return Ok(None) };
    let Some(record) = facts.delegation(&home).await? else { return Ok(None) };
    let lineage = &record.accepted.lineage;
    let asker = lineage.parent.clone().map_or_else(|| Actor::Session(lineage.session.clone()), Actor::Child);
    if asker != *actor {
        return Ok(None);
    }
    let child = record.children.into_iter().find(|child| child.id == giver);
    let Some(processes) = child.and_then(|child| child.report).map(|report| report.processes) else {
        return Ok(None);
    };
    let place = processes.handed_off.iter().position(|process| process.session_id == id);
    Ok(place.map(|place| (processes.handed_off[place].clone(), processes.handed_groups.get(place).cloned())))
}
