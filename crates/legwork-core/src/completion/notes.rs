//! What became of a child's background processes, in lines (PROC-8). They are facts; commands, purposes and outputs in them
//! are words of others, so that whoever shows a line quotes it.

use super::Entry;
use crate::ids::ChildId;

/// One line for each process of a child that has ended.
pub fn process_notes(child: &ChildId, entry: &Entry) -> Vec<String> {
    let aside = &entry.aside;
    let handed = aside.handed_off_processes.iter().map(|process| {
        let now = if process.ended {
            "but it runs no longer: it has ended by itself, or was ended with the process of legwork that it ran under"
        } else {
            "it goes on and is yours now"
        };
        let mark = if process.ended { "," } else { ";" };
        format!(
            "{child} handed {} over to you{mark} {now}: {} ({})",
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
