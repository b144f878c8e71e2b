//! The answer to a call whose work goes on in the background: the words of its handle, which say what to do until the results
//! come (OUT-8), and what is added for tasks that were carried out at once.

use crate::excerpt::head_of;
use legwork_core::batch::{Task, Ticket};
use legwork_core::completion::{BackgroundHandle, HandleWords};
use serde_json::{Value, json};

/// Bytes of one goal that are repeated.
const GOAL_BYTES_MAX: usize = 300;

const CONTROL_HINT: &str = "While they run: action list shows them; action steer with a subagent_id and a message gives one of \
     them a correction, which it reads at its next step; action stop with a subagent_id, or with the delegation_id, ends \
     it, and what it has done until then still comes back.";
const TRANSCRIPTS_HINT: &str =
    "One file a task, in the order of the tasks; they only grow and may be read at any time.";

/// The handle of `tasks` that were accepted as `ticket`.
pub(super) fn handle(ticket: &Ticket, tasks: &[Task], unused: &[String]) -> Value {
    let goals = tasks.iter().map(|task| head_of(&task.goal, GOAL_BYTES_MAX).to_owned()).collect();
    let words = HandleWords {
        goals,
        note: note(ticket, tasks.len(), unused),
        control_hint: CONTROL_HINT,
        transcripts_hint: TRANSCRIPTS_HINT,
    };
    json!(BackgroundHandle::of(ticket, words))
}

/// Adds the results of units that were carried out at once, and says why (OUT-7).
pub(super) fn add_inline(handle: &mut Value, entries: Vec<Value>) {
    let count = entries.len();
    handle["inline_results"] = Value::Array(entries);
    let note = handle["note"].as_str().unwrap_or_default();
    handle["note"] = json!(format!(
        "{note} at_capacity: there was no room in the background for {count} of the tasks \
         (delegation.max_concurrent_children); they were carried out inline, and `inline_results` already holds their outcome."
    ));
}

fn note(ticket: &Ticket, tasks: usize, unused: &[String]) -> String {
    let work = match (tasks, ticket.units.len()) {
        (1, _) => "The subagent works in the background. Its result comes as a message of its own after you have ended your turn".to_owned(),
        (tasks, 1) => format!("{tasks} subagents work in the background. Their results come together, as one message of its own after you have ended your turn and all of them have ended"),
        (tasks, units) => format!("{tasks} subagents work in the background, in {units} units. Each unit reports by itself, as a message of its own after you have ended your turn and its own subagents have ended; it waits for no other"),
    };
    let mut note = format!(
        "{work}. There is no result yet: do not state or guess one, and do not wait or poll. Finish what does not depend on it, \
         then end your turn with a one-line status."
    );
    if !unused.is_empty() {
        note.push_str(&format!(" {}.", without_effect(unused)));
    }
    note
}

/// Says which arguments decided nothing for the subagents of a call (invariant 21).
pub(super) fn without_effect(unused: &[String]) -> String {
    format!("Without effect on the subagents of this call: `{}`", unused.join("`, `"))
}
