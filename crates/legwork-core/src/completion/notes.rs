//! What became of a child's background processes, in lines (PROC-8). They are facts; commands, purposes and outputs in them
//! are words of others, so that whoever shows a line quotes it.

use super::Entry;
use crate::ids::ChildId;

/// What is told of a process that goes on under whoever asked for the child, behind its id and [`OVER_TO_YOU`].
const GOES_ON: &str = "; it goes on and is yours now";
/// What stands behind the id of a process that was handed over.
const OVER_TO_YOU: &str = " over to you";

/// The processes of which a text says that they go on under its reader, as that one calls them. The text may quote others, who
/// may say the same: what it says is to be looked up.
pub fn told_to_go_on(text: &str) -> Vec<String> {
    let mark = format!("{OVER_TO_YOU}{GOES_ON}");
    let mut before: Vec<&str> = text.split(mark.as_str()).collect();
    before.pop();
    let ids = before.into_iter().filter_map(|before| before.rsplit(' ').next());
    ids.map(str::to_owned).collect()
}

/// One line for each process of a child that has ended.
pub fn process_notes(child: &ChildId, entry: &Entry) -> Vec<String> {
    let aside = &entry.aside;
    let handed = aside.handed_off_processes.iter().map(|process| {
        let now = match (process.ended, process.left) {
            (true, _) => {
                ", but it runs no longer: it has ended by itself, or was ended with the process of legwork that it ran under"
            }
            (false, true) => {
                ", but the process of legwork that it ran under has died: nobody has it now, and it is ended as soon as \
                 anything is run with this state folder or its conversation is opened"
            }
            (false, false) => GOES_ON,
        };
        format!(
            "{child} handed {}{OVER_TO_YOU}{now}: {} ({})",
            process.session_id, process.command, process.purpose
        )
    });
    let ended = aside.orphaned_processes.iter().map(|process| {
        format!(
            "{} of {child} still ran after {} s and was ended with it: {}",
            process.session_id, process.runtime_seconds, process.command
        )
    });
    let unread = aside.unread_completions.iter().map(|process| {
        let how =
            process.exit_code.map_or("was ended".to_owned(), |code| format!("ended with exit code {code}"));
        let tail: Vec<&str> = process.output_tail.split_whitespace().collect();
        format!(
            "{} of {child} {how}, and it has not looked: {}; output: {}",
            process.session_id,
            process.command,
            tail.join(" ")
        )
    });
    handed.chain(ended).chain(unread).collect()
}
