//! `legwork show ID`: everything that is known of one delegation, unit or child, and where its result is.

use legwork_core::completion::entry;
use legwork_core::delivery::LedgerLine;
use legwork_core::ids::SessionId;
use legwork_core::message::ToolCall;
use legwork_core::ports::{Conversations, Facts, Filter, Steps};
use legwork_core::record::DelegationRecord;
use legwork_core::step::{Action, Actor, StepRecord, StepState};
use legwork_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::args::ShowArgs;
use crate::failure::{CliError, Exit};
use crate::invocation::Invocation;
use crate::lookup::{self, Target};
use crate::{state, stdout, wording};

/// Shows what the id names.
///
/// # Errors
/// When there is no such thing, or the state folder cannot be read.
pub async fn run(invocation: &Invocation, args: &ShowArgs) -> Result<Exit, CliError> {
    let store = state::open_to_look(invocation).await?.ok_or_else(|| lookup::unknown(&args.id))?;
    let shown = match lookup::find(store.as_ref(), &args.id).await? {
        Target::Delegation(record) => delegation(&record),
        Target::Unit(record, place) => unit(&record, place),
        Target::Child(record, task_index) => child(&store, &record, task_index).await?,
        Target::Session(id) => session(&store, &id).await?,
    };
    if invocation.common.json {
        stdout::print_json(&shown)?;
    } else {
        stdout::print(&text(&shown))?;
    }
    Ok(Exit::Success)
}

fn delegation(record: &DelegationRecord) -> Value {
    let accepted = &record.accepted;
    let units: Vec<Value> = (0..accepted.units.len()).map(|place| unit_body(record, place)).collect();
    let children: Vec<Value> = (0..record.children.len()).map(|index| child_body(record, index)).collect();
    let ledger: Vec<&LedgerLine> = record.deliveries.iter().flat_map(|delivery| &delivery.ledger).collect();
    json!({
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
        "steers": [],
        "ledger": ledger,
    })
}

fn unit(record: &DelegationRecord, place: usize) -> Value {
    let mut body = unit_body(record, place);
    let indexes = &record.accepted.units[place].task_indexes;
    let children: Vec<Value> = indexes.iter().map(|&index| child_body(record, index)).collect();
    merge(
        &mut body,
        json!({
            "kind": "unit",
            "delegation_id": record.accepted.delegation,
            "children": children,
            "outcome": null,
            "steps": [],
            "steers": [],
            "ledger": record.deliveries[place].ledger,
        }),
    );
    body
}

async fn child(store: &SqliteStore, record: &DelegationRecord, task_index: usize) -> Result<Value, CliError> {
    let mut body = child_body(record, task_index);
    let id = record.children[task_index].id.clone();
    let steps = store.steps(&Actor::Child(id)).await?;
    let unit = record.accepted.units.iter().position(|unit| unit.task_indexes.contains(&task_index));
    let ledger = unit.map(|place| record.deliveries[place].ledger.as_slice()).unwrap_or_default();
    merge(
        &mut body,
        json!({
            "kind": "child",
            "delegation_id": record.accepted.delegation,
            "context": record.accepted.tasks[task_index].context,
            "steps": steps.iter().map(step).collect::<Vec<_>>(),
            "steers": [],
            "ledger": ledger,
        }),
    );
    Ok(body)
}

async fn session(store: &SqliteStore, id: &SessionId) -> Result<Value, CliError> {
    let record = store.session(id).await?.ok_or_else(|| lookup::unknown(id.as_str()))?;
    let open = store.delegations(Filter::OpenOf(id.clone())).await?;
    let open: Vec<&str> = open.iter().map(|record| record.accepted.delegation.as_str()).collect();
    Ok(json!({
        "kind": "session",
        "session_id": id,
        "name": record.session.name,
        "session_kind": record.session.kind,
        "folder": record.session.folder,
        "created_at": record.session.at,
        "touched_at": record.touched_at,
        "messages": record.messages,
        "open_delegations": open,
        "outcome": null,
        "steps": [],
        "steers": [],
        "ledger": [],
    }))
}

fn unit_body(record: &DelegationRecord, place: usize) -> Value {
    let unit = &record.accepted.units[place];
    let delivery = &record.deliveries[place];
    json!({
        "unit_id": unit.id,
        "task_indexes": unit.task_indexes,
        "delivery": delivery.state.as_str(),
    })
}

fn child_body(record: &DelegationRecord, task_index: usize) -> Value {
    let child = &record.children[task_index];
    json!({
        "subagent_id": child.id,
        "task_index": task_index,
        "goal": record.accepted.tasks[task_index].goal,
        "state": child.state.as_str(),
        "started_at": child.started_at,
        "ended_at": child.ended_at,
        "transcript": record.accepted.transcripts.get(task_index),
        "outcome": entry(&record.accepted, task_index, child),
    })
}

fn step(step: &StepRecord) -> Value {
    let (action, tool) = match &step.action {
        Action::Open => ("open", None),
        Action::Model => ("model", None),
        Action::Compact => ("compact", None),
        Action::Steer { .. } => ("steer", None),
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

/// The same facts as lines for people: names and values, lists indented.
fn text(shown: &Value) -> String {
    let mut lines = Vec::new();
    write_object(shown, 0, &mut lines);
    lines.join("\n")
}

fn write_object(value: &Value, depth: usize, lines: &mut Vec<String>) {
    let Value::Object(fields) = value else { return };
    let indent = "  ".repeat(depth);
    for (name, field) in fields {
        match field {
            Value::Null => {}
            Value::Array(items) if items.is_empty() => {}
            Value::Array(items) if items.iter().all(|item| !item.is_object()) => {
                let words: Vec<String> = items.iter().map(scalar).collect();
                lines.push(format!("{indent}{name}: {}", words.join(", ")));
            }
            Value::Array(items) => {
                lines.push(format!("{indent}{name}:"));
                for item in items {
                    let at = lines.len();
                    write_object(item, depth + 2, lines);
                    mark_item(lines, at, depth + 1);
                }
            }
            Value::Object(_) => {
                lines.push(format!("{indent}{name}:"));
                write_object(field, depth + 1, lines);
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                lines.push(format!("{indent}{name}: {}", time_or(name, field)));
            }
        }
    }
}

/// Puts a dash before the first line of a list item.
fn mark_item(lines: &mut [String], at: usize, depth: usize) {
    if let Some(first) = lines.get_mut(at) {
        *first = format!("{}- {}", "  ".repeat(depth), first.trim_start());
    }
}

fn time_or(name: &str, value: &Value) -> String {
    match value.as_i64() {
        Some(millis) if name == "at" || name.ends_with("_at") => wording::instant(millis),
        _ => scalar(value),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => wording::plain(text).replace('\n', "\n      "),
        other => other.to_string(),
    }
}
