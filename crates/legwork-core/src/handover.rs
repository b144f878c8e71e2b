//! What a child had handed over, and started, in the background, as its journal tells: an attempt that has lost its process
//! knows no more of either. The calls and what we answered to them are read, never what a command has written.
//!
//! It does not know what still runs.

use crate::aftermath::HandedOff;
use crate::ids::ChildId;
use crate::message::{ToolCall, ToolResult};
use crate::step::{Product, StepRecord, StepState};

/// The tool that starts commands.
pub const TERMINAL: &str = "terminal";
/// The tool that looks after those in the background.
pub const PROCESS: &str = "process";
/// Its action that gives one away.
pub const HAND_OFF: &str = "hand_off";
/// What the number of a process stands behind.
const PROC: &str = "proc_";
/// How the answer to a start begins.
const STARTED: &str = "[started in the background as ";
/// Characters of a command that are repeated.
pub const COMMAND_CHARS_MAX: usize = 200;

/// How an agent calls its `number`-th process in the background.
pub fn process_id(number: u32) -> String {
    format!("{PROC}{number}")
}

/// How whoever takes a process over calls it.
pub fn id_of_heir(process: &str, child: &str) -> String {
    format!("{process}-of-{child}")
}

/// The child that has handed over what its heir calls so.
pub fn giver(id: &str) -> Option<ChildId> {
    let (process, child) = id.split_once("-of-")?;
    process.starts_with(PROC).then(|| ChildId::from_stored(child))
}

/// The first line of the answer to a start.
pub fn started_line(process: &str) -> String {
    format!("{STARTED}{process}]")
}

/// The processes that a child has handed over, in order. Whether they run is not looked at.
pub fn handed_over(child: &ChildId, journal: &[StepRecord]) -> Vec<HandedOff> {
    let mut commands: Vec<(String, String)> = Vec::new();
    let mut handed = Vec::new();
    for (call, result) in answered(journal) {
        let argument = |name: &str| call.arguments[name].as_str();
        if let Some(process) = started(call, result) {
            commands.push((process, on_one_line(argument("command").unwrap_or_default())));
        } else if call.name == PROCESS
            && argument("action") == Some(HAND_OFF)
            && let Some(process) = argument("id")
        {
            // An id may have been given again in a later attempt: the last start under it is meant.
            let command = commands.iter().rev().find(|(id, _)| id == process);
            handed.push(HandedOff {
                session_id: id_of_heir(process, child.as_str()),
                command: command.map(|(_, command)| command.clone()).unwrap_or_default(),
                purpose: on_one_line(argument("purpose").unwrap_or_default()),
                ended: false,
                left: false,
            });
        }
    }
    handed
}

/// How many processes an agent has started in the background.
pub fn started_in(journal: &[StepRecord]) -> u32 {
    let ids = answered(journal).filter_map(|(call, result)| started(call, result));
    ids.filter_map(|id| id.strip_prefix(PROC)?.parse().ok()).max().unwrap_or_default()
}

/// The calls that have ended well.
fn answered(journal: &[StepRecord]) -> impl Iterator<Item = (&ToolCall, &ToolResult)> {
    journal.iter().filter_map(|step| match &step.state {
        StepState::Done(Product::Output(result)) if !result.is_error => {
            step.action.call().map(|(call, _)| (call, result))
        }
        StepState::Done(_) | StepState::Intended | StepState::Failed(_) => None,
    })
}

/// The process that a call has started in the background.
fn started(call: &ToolCall, result: &ToolResult) -> Option<String> {
    if call.name != TERMINAL || call.arguments["background"].as_bool() != Some(true) {
        return None;
    }
    let first = result.content.lines().next()?;
    Some(first.strip_prefix(STARTED)?.strip_suffix(']')?.to_owned())
}

/// A text of others on one line, without control characters, of at most 200 characters.
fn on_one_line(text: &str) -> String {
    let plain: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    let mut line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > COMMAND_CHARS_MAX
        && let Some((end, _)) = line.char_indices().nth(COMMAND_CHARS_MAX - 1)
    {
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Action;
    use serde_json::{Value, json};

    fn step(seq: u32, name: &str, arguments: Value, content: &str) -> StepRecord {
        let call = ToolCall { id: format!("c{seq}"), name: name.to_owned(), arguments, malformed: None };
        let result = ToolResult {
            call_id: call.id.clone(),
            content: content.to_owned(),
            is_error: content == "error",
        };
        let state = StepState::Done(Product::Output(result));
        StepRecord { seq, action: Action::Tool { call, read_only: false }, state }
    }

    #[test]
    fn proc_02_what_was_handed_over_is_read_from_the_calls_and_from_nothing_else() {
        let child = ChildId::from_bits(0, 7);
        let background = |command: &str| json!({"command": command, "background": true});
        let hand_off = |id: &str| json!({"action": "hand_off", "id": id, "purpose": "It\nserves."});
        let mut journal = vec![
            step(0, TERMINAL, background("serve\nit"), &format!("{}\n[more]\n", started_line("proc_1"))),
            step(1, TERMINAL, json!({"command": "echo"}), &started_line("proc_9")),
            step(2, PROCESS, hand_off("proc_9"), "error"),
            step(3, PROCESS, json!({"action": "kill", "id": "proc_1"}), "[proc_1 was ended]"),
            step(4, "other", hand_off("proc_1"), "done"),
            step(5, TERMINAL, background(&"x".repeat(300)), &started_line("proc_2")),
        ];
        assert_eq!((handed_over(&child, &journal), started_in(&journal)), (Vec::new(), 2));
        journal.push(step(6, PROCESS, hand_off("proc_1"), "[handed over]"));
        journal.push(step(7, PROCESS, hand_off("proc_2"), "[handed over]"));
        let handed = handed_over(&child, &journal);
        assert_eq!(handed.len(), 2, "{handed:?}");
        assert_eq!((handed[0].command.as_str(), handed[0].purpose.as_str()), ("serve it", "It serves."));
        assert_eq!(handed[1].command.chars().count(), COMMAND_CHARS_MAX);
        assert_eq!(giver(&handed[0].session_id), Some(child));
        assert_eq!(giver("proc_1"), None);
    }
}
