//! `legwork show ID`: everything that is known of one delegation, unit, child or session, and where its result is.

use std::collections::BTreeSet;
use std::slice;

use legwork_agent::process::SystemProcesses;
use legwork_core::completion::entry;
use legwork_core::delivery::LedgerLine;
use legwork_core::ids::{ChildId, DelegationId, SessionId, UnitId};
use legwork_core::message::ToolCall;
use legwork_core::ports::{Conversations, Facts, Filter, Liveness, Processes, Steps, StoreError};
use legwork_core::record::{DelegationRecord, NoticeRecord};
use legwork_core::spans::Sight;
use legwork_core::step::{Action, Actor, StepRecord, StepState};
use legwork_engine::Clock;
use legwork_sqlite::SqliteStore;
use serde_json::{Value, json};

use super::ps;
use crate::args::ShowArgs;
use crate::failure::{CliError, Exit};
use crate::invocation::Invocation;
use crate::lacking::Keys;
use crate::lookup::{self, Target};
use crate::whereabouts::Whereabouts;
use crate::{handed_over, session_choice, state, stdout, wording};

mod lines;
mod steers;

/// Shows what the id names.
///
/// # Errors
/// When there is no such thing, or the state folder cannot be read.
pub async fn run(invocation: &Invocation, args: &ShowArgs) -> Result<Exit, CliError> {
    let store = state::open_to_look(invocation).await?.ok_or_else(|| lookup::unknown(&args.id))?;
    let looking = Looking { invocation, store: &store, keys: Keys::of(invocation) };
    let shown = match lookup::find(invocation, &store, &args.id).await? {
        Target::Delegation(record) => delegation(&looking, &record).await?,
        Target::Unit(record, place) => unit(&looking, &record, place).await?,
        Target::Child(record, task_index) => child(&looking, &record, task_index).await?,
        Target::Session(id) => session(&store, &id).await?,
    };
    if invocation.common.json {
        stdout::print_json(&shown)?;
    } else {
        stdout::print(&lines::text(&shown))?;
    }
    Ok(Exit::Success)
}

/// What is looked at.
struct Looking<'a> {
    invocation: &'a Invocation,
    store: &'a SqliteStore,
    keys: Keys<'a>,
}

async fn delegation(looking: &Looking<'_>, record: &DelegationRecord) -> Result<Value, CliError> {
    let accepted = &record.accepted;
    let mut units = Vec::new();
    for place in 0..accepted.units.len() {
        units.push(unit_body(looking, record, place).await?);
    }
    let seen = sight(record);
    let children: Vec<Value> =
        (0..record.children.len()).map(|index| child_body(looking, record, index, seen)).collect();
    let ledger: Vec<&LedgerLine> = record.deliveries.iter().flat_map(|delivery| &delivery.ledger).collect();
    Ok(json!({
        "kind": "delegation",
        "delegation_id": accepted.delegation,
        "session_id": accepted.lineage.session,
        "parent_id": accepted.lineage.parent,
        "state": record.state_text(),
        "accepted_at": record.accepted_at,
        "owner_pid": record.owner.process.pid,
        "model": accepted.setting.route.model,
        "folder": accepted.setting.folder,
        "units": units,
        "children": children,
        "outcome": null,
        "steps": [],
        "steers": steers::of(looking.store, &accepted.children).await?,
        "ledger": ledger,
    }))
}

async fn unit(looking: &Looking<'_>, record: &DelegationRecord, place: usize) -> Result<Value, CliError> {
    let mut body = unit_body(looking, record, place).await?;
    let indexes = &record.accepted.units[place].task_indexes;
    let seen = sight(record);
    let children: Vec<Value> =
        indexes.iter().map(|&index| child_body(looking, record, index, seen)).collect();
    let ids: Vec<ChildId> = indexes.iter().map(|&index| record.children[index].id.clone()).collect();
    merge(
        &mut body,
        json!({
            "kind": "unit",
            "delegation_id": record.accepted.delegation,
            "children": children,
            "outcome": null,
            "steps": [],
            "steers": steers::of(looking.store, &ids).await?,
            "ledger": record.deliveries[place].ledger,
        }),
    );
    Ok(body)
}

async fn child(
    looking: &Looking<'_>,
    record: &DelegationRecord,
    task_index: usize,
) -> Result<Value, CliError> {
    let mut body = child_body(looking, record, task_index, sight(record));
    let id = record.children[task_index].id.clone();
    let steers = steers::of(looking.store, slice::from_ref(&id)).await?;
    let (steps, unreadable) = match looking.store.steps(&Actor::Child(id)).await {
        Ok(steps) => (steps, None),
        // Everything else of it can still be told.
        Err(error @ StoreError::Corrupt(_)) => (Vec::new(), Some(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let unit = record.accepted.units.iter().position(|unit| unit.task_indexes.contains(&task_index));
    let ledger = unit.map(|place| record.deliveries[place].ledger.as_slice()).unwrap_or_default();
    let whereabouts = match unit {
        Some(place) => Some(sentence(looking, record, place).await?),
        None => None,
    };
    merge(
        &mut body,
        json!({
            "kind": "child",
            "delegation_id": record.accepted.delegation,
            "context": record.accepted.tasks[task_index].context,
            "where": whereabouts,
            "steps": steps.iter().map(step).collect::<Vec<_>>(),
            "steps_unreadable": unreadable,
            "steers": steers,
            "ledger": ledger,
        }),
    );
    Ok(body)
}

async fn session(store: &SqliteStore, id: &SessionId) -> Result<Value, CliError> {
    let record = store.session(id).await?.ok_or_else(|| lookup::unknown(id.as_str()))?;
    let open = store.delegations(Filter::OpenOf(id.clone())).await?;
    let unreadable = open.unreadable.iter().map(DelegationId::as_str);
    let open: Vec<&str> = open.rows.iter().map(|record| record.accepted.delegation.as_str()).collect();
    let undelivered = store.undelivered(id).await?;
    let lost = undelivered.unreadable.iter().map(UnitId::as_str);
    let unreadable: BTreeSet<&str> = unreadable.chain(lost).collect();
    Ok(json!({
        "kind": "session",
        "session_id": id,
        "name": record.session.name,
        "session_kind": record.session.kind.as_str(),
        "folder": record.session.folder,
        "created_at": record.session.at,
        "touched_at": record.touched_at,
        "messages": record.messages,
        "open_in_pid": session_choice::holder_alive(&record).map(|holder| holder.process.pid),
        "open_delegations": open,
        "undelivered": undelivered.rows.iter().filter(|known| known.notice.is_none())
            .map(|known| known.unit.as_str()).collect::<Vec<_>>(),
        "unreadable": unreadable,
        "outcome": null,
        "steps": [],
        "steers": [],
        "ledger": [],
    }))
}

async fn unit_body(
    looking: &Looking<'_>,
    record: &DelegationRecord,
    place: usize,
) -> Result<Value, CliError> {
    let unit = &record.accepted.units[place];
    let told = record.notices.iter().filter(|notice| unit.task_indexes.contains(&notice.task_index));
    let told: Vec<Value> = told.map(|notice| early_notice(record, notice)).collect();
    Ok(json!({
        "unit_id": unit.id,
        "group": unit.group,
        "task_indexes": unit.task_indexes,
        "delivery": record.deliveries[place].state.as_str(),
        "where": sentence(looking, record, place).await?,
        "early_notices": told,
    }))
}

/// The notice of a child that failed before its unit had settled.
fn early_notice(record: &DelegationRecord, notice: &NoticeRecord) -> Value {
    json!({
        "subagent_id": record.accepted.children[notice.task_index],
        "delivery": notice.delivery.state.as_str(),
        "ledger": notice.delivery.ledger,
    })
}

/// Where the results of a unit are, in words.
async fn sentence(
    Looking { invocation, store, keys }: &Looking<'_>,
    record: &DelegationRecord,
    place: usize,
) -> Result<String, CliError> {
    let mut sentence = Whereabouts::of(invocation, store, record, place).await?.sentence();
    let tasks = record.accepted.units[place].task_indexes.iter();
    let missing: BTreeSet<String> = tasks.filter_map(|index| keys.missing(record, *index)).collect();
    if !missing.is_empty() {
        let missing: Vec<String> = missing.into_iter().collect();
        sentence += &format!(", and needs the key in {}, which is not set here", missing.join(" and in "));
    }
    Ok(sentence)
}

fn child_body(looking: &Looking<'_>, record: &DelegationRecord, task_index: usize, sight: Sight) -> Value {
    let mut child = record.children[task_index].clone();
    handed_over::look_for(&mut child, &record.owner);
    let key = looking.keys.missing(record, task_index).map(|source| format!("the key in {source}"));
    json!({
        "subagent_id": child.id,
        "task_index": task_index,
        "goal": record.accepted.tasks[task_index].goal,
        "model": record.accepted.model_of(task_index),
        "group": record.accepted.tasks[task_index].group,
        "state": child.state.as_str(),
        "waits_for": key.or_else(|| ps::awaited(&child, sight)),
        "started_at": child.started_at,
        "ended_at": child.ended_at,
        "transcript": record.accepted.transcripts.get(task_index),
        "outcome": entry(&record.accepted, task_index, &child),
    })
}

/// How the clocks of running children are seen from here. That reads what the system knows of their process, so it is asked for
/// once and not for each of them.
fn sight(record: &DelegationRecord) -> Sight {
    let liveness = match record.is_settled() {
        true => Liveness::Dead,
        false => record.owner.liveness(&SystemProcesses),
    };
    Sight::of(record, liveness, &SystemProcesses.myself(), Clock::start().now().mono)
}

fn step(step: &StepRecord) -> Value {
    let (action, tool) = match &step.action {
        Action::Open => ("open", None),
        Action::Model => ("model", None),
        Action::Compact => ("compact", None),
        Action::Steer { .. } => ("steer", None),
        Action::Correct { .. } => ("correct", None),
        Action::Switch { .. } => ("switch", None),
        Action::Tool { call, .. } => ("tool", Some(call)),
    };
    let state = match &step.state {
        StepState::Intended => "intended",
        StepState::Done(_) => "done",
        StepState::Failed(_) => "failed",
    };
    json!({
        "seq": step.seq,
        "action": action,
        "tool": tool.map(|call| &call.name),
        "arguments": tool.map(arguments),
        "state": state,
    })
}

fn arguments(call: &ToolCall) -> String {
    let text = call.malformed.clone().unwrap_or_else(|| call.arguments.to_string());
    wording::one_line(&text, 200)
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}
