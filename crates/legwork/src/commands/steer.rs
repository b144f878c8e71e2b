//! `legwork steer ID "TEXT"`: says something to a running child of any process. What is printed is a receipt: the text is
//! stored, and `show` tells when the child has read it, or that it ended before.

use legwork_core::ids::{ChildId, RequestId};
use legwork_core::ports::Facts;
use legwork_core::record::DelegationRecord;
use legwork_core::steering::{Asked, Request, STEERS_WAITING_MAX, Scope, Wish};
use legwork_engine::STEER_BYTES_MAX;
use serde_json::json;

use crate::args::SteerArgs;
use crate::failure::{CliError, Exit, Kind};
use crate::input::Wanted;
use crate::invocation::Invocation;
use crate::lookup::{self, Target};
use crate::owner::Owner;
use crate::{outliving, state, stderr, stdout, wording};

const GOAL_WIDTH: usize = 40;
/// How many children an error lists.
const LISTED_MAX: usize = 8;

const MESSAGE: Wanted<'_> = Wanted {
    noun: "message",
    bytes_max: STEER_BYTES_MAX,
    when_empty: "say what the subagent should do differently",
    when_too_long: "say it shorter, or put it into a file and name that",
};

/// Stores the message and prints its receipt.
///
/// # Errors
/// When the message is empty or too long, there is no such child, it has ended, or the store cannot be used.
pub async fn run(invocation: &Invocation, args: &SteerArgs) -> Result<Exit, CliError> {
    let text = MESSAGE.take(&args.text)?.trim_end().to_owned();
    let store = state::open_to_change(invocation).await?.ok_or_else(|| lookup::unknown(&args.id))?;
    let target = lookup::find(invocation, &store, &args.id).await?.of_delegation(&args.id)?;
    let (record, task_index) = addressee(target, &args.id)?;
    let child = &record.children[task_index].id;
    let owner = Owner::new();
    let receipt = RequestId::from_bits((owner.bits)());
    let request = Request {
        id: receipt.clone(),
        at: owner.now(),
        scope: Scope::Child(child.clone()),
        wish: Wish::Steer { text },
    };
    match store.ask(request).await? {
        Asked::Stored => {}
        Asked::Ended => return Err(ended(&format!("{child} has ended"), child.as_str())),
        Asked::Unknown => return Err(lookup::unknown(&args.id)),
        Asked::Full => return Err(full(child)),
    }
    if invocation.common.json {
        stdout::print_json(&json!({"receipt": receipt, "subagent_id": child, "status": "queued"}))?;
    } else {
        stdout::print(&format!(
            "{receipt}: queued for {child}, which reads it at its next step; `legwork show {child}` tells when it has"
        ))?;
    }
    if outliving::is_abandoned(invocation, &record) && !invocation.common.quiet {
        stderr::tell(&format!(
            "note: process {}, which ran {child}, has died; the message is read only if another process goes on with it",
            record.owner.process.pid
        ));
    }
    Ok(Exit::Success)
}

/// The child that is meant: the one that was named, or the only one at work in what was named.
fn addressee(target: Target, typed: &str) -> Result<(Box<DelegationRecord>, usize), CliError> {
    if let Target::Child(record, task_index) = target {
        return taking(record, task_index);
    }
    let (record, tasks) = target.into_tasks().ok_or_else(|| lookup::unknown(typed))?;
    let open: Vec<usize> =
        tasks.into_iter().filter(|task| record.children[*task].outcome().is_none()).collect();
    match open.as_slice() {
        [] => Err(ended(&format!("all subagents of {} have ended", lookup::shortened(typed)), typed)),
        [one] => {
            let one = *one;
            taking(record, one)
        }
        several => Err(several_at_work(&record, several, typed)),
    }
}

/// One that is ending reads nothing more; the store refuses one that has ended.
fn taking(
    record: Box<DelegationRecord>,
    task_index: usize,
) -> Result<(Box<DelegationRecord>, usize), CliError> {
    let child = &record.children[task_index];
    if child.outcome().is_none() && !child.state.takes_steers() {
        return Err(ended(&format!("{} is ending and reads no more messages", child.id), child.id.as_str()));
    }
    Ok((record, task_index))
}

/// A child that does not read must not be told without end.
fn full(child: &ChildId) -> CliError {
    let message = format!(
        "{STEERS_WAITING_MAX} messages wait for {child} already, which is the limit; nothing was said"
    );
    CliError::new(Kind::Refused, message)
        .with_hint(format!("wait until it has read them (`legwork show {child}`), or stop it"))
}

fn ended(what: &str, id: &str) -> CliError {
    CliError::new(Kind::Refused, format!("{what}; nothing was said"))
        .with_hint(format!("`legwork results {}` prints the results", lookup::shortened(id)))
}

fn several_at_work(record: &DelegationRecord, tasks: &[usize], typed: &str) -> CliError {
    let line = |task: &usize| {
        let child = &record.children[*task];
        let goal = wording::one_line(&record.accepted.tasks[*task].goal, GOAL_WIDTH);
        format!("{} ({}) {goal}", child.id, child.state.as_str())
    };
    let listed: Vec<String> = tasks.iter().take(LISTED_MAX).map(line).collect();
    let more = tasks.len() - listed.len();
    let more = if more > 0 { format!("\nand {more} more") } else { String::new() };
    let message = format!(
        "{} subagents of {} are at work, and a message is for one of them:\n{}{more}",
        tasks.len(),
        lookup::shortened(typed),
        listed.join("\n")
    );
    CliError::new(Kind::Usage, message).with_hint("name one of them")
}
