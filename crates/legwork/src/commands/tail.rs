//! `legwork tail ID`: the live transcript of a child, or the merged ones of a delegation.

use std::path::PathBuf;
use std::time::Duration;

use legwork_agent::transcripts::{Follow, Source};
use legwork_core::ports::Facts;
use legwork_core::record::DelegationRecord;
use serde_json::json;

use crate::args::TailArgs;
use crate::failure::{CliError, Exit, Kind};
use crate::invocation::Invocation;
use crate::{lookup, orphans, outliving, state, stderr, stdout};

/// Between two looks of `-f`.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Looks between two questions to the store whether the work has ended without an end mark.
const LOOKS_A_QUESTION: u32 = 10;

/// Prints what is written, and with `-f` what is being written until it ends. A note says when nobody writes any more.
///
/// # Errors
/// When there is no such child or delegation, or a transcript cannot be read.
pub async fn run(invocation: &Invocation, args: &TailArgs) -> Result<Exit, CliError> {
    let store = state::open_to_look(invocation).await?.ok_or_else(|| lookup::unknown(&args.id))?;
    let target = lookup::find(invocation, &store, &args.id).await?.of_delegation(&args.id)?;
    let (record, tasks) = target.into_tasks().ok_or_else(|| lookup::unknown(&args.id))?;
    let mut follow = Follow::new(sources(&record, &tasks));
    let (mut looks, mut told, mut is_left) = (0, false, false);
    loop {
        let mut ended = follow.has_ended();
        if !ended && looks % LOOKS_A_QUESTION == 0 {
            let now = store.delegation(&record.accepted.delegation).await?;
            ended = now.as_ref().is_none_or(DelegationRecord::is_settled);
            // Whoever goes on with it writes on in the same files.
            is_left = !ended && now.as_ref().is_some_and(|now| outliving::is_abandoned(invocation, now));
            if is_left && args.follow && !invocation.common.quiet && !std::mem::replace(&mut told, true) {
                stderr::tell(&orphans::left(&record.accepted.delegation));
            }
        }
        let mut lines = look(&mut follow)?;
        let is_last = !args.follow || ended;
        if is_last && (ended || is_left) {
            lines.extend(follow.cut_off());
        }
        print(invocation, args, lines)?;
        if is_last {
            return Ok(Exit::Success);
        }
        looks += 1;
        // Deadline: another process writes the files and tells nobody, so this one looks again.
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn sources(record: &DelegationRecord, tasks: &[usize]) -> Vec<Source> {
    let source = |&task_index: &usize| {
        let path = record.accepted.transcripts.get(task_index).filter(|path| !path.is_empty())?;
        let label = if tasks.len() > 1 { format!("[{task_index}] ") } else { String::new() };
        Some(Source { label, path: PathBuf::from(path) })
    };
    tasks.iter().filter_map(source).collect()
}

fn look(follow: &mut Follow) -> Result<Vec<String>, CliError> {
    follow.look().map_err(|error| {
        CliError::new(Kind::State, format!("a transcript cannot be read: {error}")).caused_by(error)
    })
}

/// Lines for people; with `--json` one document, or one a line with `-f`.
fn print(invocation: &Invocation, args: &TailArgs, lines: Vec<String>) -> Result<(), CliError> {
    match (invocation.common.json, args.follow) {
        (true, false) => stdout::print_json(&json!({"lines": lines})),
        (true, true) => lines.iter().try_for_each(|line| stdout::print_json(&json!({"line": line}))),
        (false, _) if lines.is_empty() => Ok(()),
        (false, _) => stdout::print(&lines.join("\n")),
    }
}
