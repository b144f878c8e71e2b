//! What is known of one session beside its messages: the facts that every verb about sessions shows.

use std::sync::Arc;

use legwork_agent::session::{tells_of_processes, title_of_completion, unit_of_completion};
use legwork_core::completion::entry;
use legwork_core::ids::{DelegationId, SessionId};
use legwork_core::message::{Author, Message};
use legwork_core::outcome::WireStatus;
use legwork_core::ports::{Facts, Filter, Listed, SessionRecord};
use legwork_core::record::{DelegationRecord, OwnerRecord};
use legwork_sqlite::SqliteStore;
use serde_json::{Map, Value, json};

use crate::failure::CliError;
use crate::invocation::Invocation;
use crate::{lookup, session_choice, state, wording};

/// One session and what waits for it.
pub struct Digest {
    /// The session.
    pub record: SessionRecord,
    /// Units whose results have not arrived.
    pub undelivered: usize,
}

impl Digest {
    /// Gathers what is known.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn of(store: &SqliteStore, record: SessionRecord) -> Result<Digest, CliError> {
        let due = store.undelivered(&record.session.id).await?;
        let undelivered = due.rows.iter().filter(|due| due.notice.is_none()).count() + due.unreadable.len();
        Ok(Digest { record, undelivered })
    }

    /// The process that has it open.
    pub fn holder(&self) -> Option<&OwnerRecord> {
        session_choice::holder_alive(&self.record)
    }

    /// The fields that are the same everywhere.
    pub fn to_json(&self) -> Map<String, Value> {
        let session = &self.record.session;
        let fields = json!({
            "session_id": session.id,
            "name": session.name,
            "kind": session.kind.as_str(),
            "folder": session.folder,
            "created_at": session.at,
            "touched_at": self.record.touched_at,
            "messages": self.record.messages,
            "undelivered": self.undelivered,
            "open_in_pid": self.holder().map(|holder| holder.process.pid),
            "opening": self.record.opening,
        });
        match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }

    /// Id, name and kind.
    pub fn title(&self) -> String {
        let session = &self.record.session;
        let name = session.name.as_deref().map(|name| format!(" “{}”", wording::plain(name)));
        format!("{}{} ({})", session.id, name.unwrap_or_default(), session.kind.as_str())
    }
}

/// Opens the store to look, and finds the session that `typed` names.
///
/// # Errors
/// When there is none, or the state folder cannot be used.
pub async fn find(invocation: &Invocation, typed: &str) -> Result<(Arc<SqliteStore>, Digest), CliError> {
    let store = state::open_to_look(invocation).await?.ok_or_else(|| lookup::unknown(typed))?;
    let record = lookup::session(invocation, &store, typed).await?;
    let digest = Digest::of(&store, record).await?;
    Ok((store, digest))
}

/// The delegations that a session owns, oldest first.
///
/// # Errors
/// When the store fails.
pub async fn delegations(
    store: &SqliteStore,
    session: &SessionId,
) -> Result<Listed<DelegationRecord, DelegationId>, CliError> {
    let mut delegations = store.delegations(Filter::Of(session.clone())).await?;
    delegations.rows.reverse();
    delegations.unreadable.reverse();
    Ok(delegations)
}

/// A delegation in a few fields.
pub fn delegation_json(record: &DelegationRecord) -> Value {
    let units = record.accepted.units.iter().zip(&record.deliveries);
    let units: Vec<Value> = units
        .map(|(unit, delivery)| json!({"unit_id": unit.id, "delivery": delivery.state.as_str()}))
        .collect();
    json!({
        "delegation_id": record.accepted.delegation,
        "accepted_at": record.accepted_at,
        "state": record.state_text(),
        "tasks": record.children.len(),
        "units": units,
    })
}

/// What tells a stored completion from a message that somebody said: how it is to be shown, and what was counted of what it
/// brought (EVT-16). `None` for any other message; without the counts when its delegation was removed.
pub fn completion_json(message: &Message, delegations: &[DelegationRecord]) -> Option<(Value, Value)> {
    if message.author != Author::Completion {
        return None;
    }
    let text = message.plain_text();
    if tells_of_processes(&text) {
        return Some((json!("background_process_ended"), Value::Null));
    }
    let kind = json!("async_delegation_complete");
    let found = unit_of_completion(&text).and_then(|unit| {
        let place =
            |record: &DelegationRecord| record.accepted.units.iter().position(|known| known.id == unit);
        delegations.iter().find_map(|record| Some((record, place(record)?)))
    });
    let metadata = found.map_or(Value::Null, |(record, place)| metadata(record, place));
    Some((kind, metadata))
}

fn metadata(record: &DelegationRecord, place: usize) -> Value {
    let indexes = &record.accepted.units[place].task_indexes;
    let entries: Vec<_> = indexes
        .iter()
        .filter_map(|index| entry(&record.accepted, *index, record.children.get(*index)?))
        .collect();
    let completed = entries.iter().filter(|entry| entry.status == WireStatus::Completed).count();
    let flawed = entries.iter().filter(|entry| entry.flaw().is_some()).count();
    let took = record.took(indexes.iter().copied());
    json!({
        "display_text": title_of_completion(record, place),
        "delegation_id": record.accepted.delegation,
        "unit_id": record.accepted.units[place].id,
        "task_count": indexes.len(),
        "completed_count": completed,
        "failed_count": entries.len() - completed,
        // Of those that completed; none of them stands without its mark (invariant 19).
        "flawed_count": flawed,
        "duration_seconds": wording::seconds(took),
    })
}

/// A delegation on one line.
pub fn delegation_line(record: &DelegationRecord) -> String {
    let settled = record.children.iter().filter(|child| child.outcome().is_some()).count();
    let deliveries: Vec<&str> = record.deliveries.iter().map(|delivery| delivery.state.as_str()).collect();
    format!(
        "{}  {}/{} settled  result {}",
        record.accepted.delegation,
        settled,
        record.children.len(),
        deliveries.join(", ")
    )
}
