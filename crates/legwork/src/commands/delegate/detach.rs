//! `legwork delegate --detach`: the tasks are accepted for good and left to a worker in the background, which ends with
//! them. The handle is printed; the results wait for `legwork results`, or for the conversation that `--session` names.

use legwork_core::batch::{Lineage, NewBatch, Reach, Task, Ticket};
use legwork_core::completion::{BackgroundHandle, HandleWords};
use legwork_core::ids::{DelegationId, SessionId};
use legwork_core::ports::{Conversations, SessionKind};
use serde_json::{Value, json};

use crate::failure::{CliError, Exit, Kind};
use crate::invocation::Invocation;
use crate::settings::Settings;
use crate::wire::Workplace;
use crate::{lookup, outliving, session_choice, stderr, stdout, wording};

/// Characters of a goal that are shown.
const GOAL_WIDTH: usize = 300;

/// Accepts the tasks, starts the worker, and prints the handle. Without a worker the work is kept all the same.
///
/// # Errors
/// When the conversation is not there, or the store takes nothing; nothing was started then.
pub(super) async fn leave(
    invocation: &Invocation,
    (workplace, settings): (&Workplace, &Settings),
    tasks: Vec<Task>,
    session: Option<&str>,
) -> Result<Exit, CliError> {
    let (session, reach) = match session {
        Some(typed) => (conversation(invocation, workplace, typed).await?, Reach::Push),
        None => (workplace.new_session(SessionKind::Shell).await?, Reach::Joined),
    };
    let batch = NewBatch {
        lineage: Lineage::of_session(session.clone()),
        call_key: None,
        context: None,
        reach,
        tasks: tasks.clone(),
        setting: workplace.setting_of_children(),
    };
    let completions = settings.delegation.completions();
    let accepted = workplace.handle.accept_for_another(batch, completions).await;
    if accepted.is_err() && reach == Reach::Joined {
        workplace.forget_session(&session).await;
    }
    let ticket = accepted?;
    let kept_for = left(workplace, &session, reach).await;
    let started = outliving::start(invocation, ticket.delegation.as_str());
    let note = note(&ticket.delegation, kept_for);
    let unheard = |error: CliError| {
        let id = &ticket.delegation;
        stderr::tell(&format!("note: {id} was accepted and goes on in the background; {note}"));
        error.with_hint(format!("do not send it again: {id} has it"))
    };
    if invocation.common.json {
        stdout::print_json(&handle(&ticket, &tasks, &note)).map_err(unheard)?;
    } else {
        let count = tasks.len();
        let noun = if count == 1 { "task" } else { "tasks" };
        stdout::print(&format!("{}: {count} {noun} in the background", ticket.delegation))
            .map_err(unheard)?;
        if !invocation.common.quiet {
            stderr::tell(&format!("note: {note}"));
        }
    }
    match started {
        Ok(()) => Ok(Exit::Success),
        Err(error) => {
            let id = &ticket.delegation;
            stderr::tell(&format!(
                "error: nobody works on it yet: {error}; `legwork worker --only {id}` does"
            ));
            Ok(Exit::Incomplete)
        }
    }
}

async fn conversation(
    invocation: &Invocation,
    workplace: &Workplace,
    typed: &str,
) -> Result<SessionId, CliError> {
    let record = lookup::session(invocation, &workplace.store, typed).await?;
    if session_choice::is_conversation(&record) {
        return Ok(record.session.id);
    }
    let message = format!("the session {} was made by `delegate`: nobody talks in it", record.session.id);
    Err(CliError::new(Kind::Input, message).with_hint("leave --session out; nothing was started"))
}

/// For whom the results are.
enum KeptFor {
    Conversation,
    WhoeverAsks,
}

/// Leaves the session. What was made for the tasks alone is held no longer, so that whoever asks for the results takes them.
async fn left(workplace: &Workplace, session: &SessionId, reach: Reach) -> KeptFor {
    let store = &workplace.store;
    match reach {
        // It is there as long as they have not arrived.
        Reach::Push | Reach::History => KeptFor::Conversation,
        Reach::Joined => {
            if let Err(error) = store.release_session(session, &workplace.owner.record.id).await {
                // It comes free with this process.
                tracing::debug!(%error, "the session is held until the end");
            }
            KeptFor::WhoeverAsks
        }
    }
}

fn note(id: &DelegationId, kept_for: KeptFor) -> String {
    match kept_for {
        KeptFor::Conversation => "the results come to the conversation, when it is open and idle".to_owned(),
        KeptFor::WhoeverAsks => {
            format!("`legwork results {id} --wait` waits for the results, `legwork ps` shows the work")
        }
    }
}

/// The handle of `tasks`.
fn handle(ticket: &Ticket, tasks: &[Task], note: &str) -> Value {
    let goals = tasks.iter().map(|task| wording::one_line(&task.goal, GOAL_WIDTH)).collect();
    let words = HandleWords {
        goals,
        note: note.to_owned(),
        control_hint: "`legwork steer`, `stop`, `show` and `tail` take each of these ids",
        transcripts_hint: "one file a task, in the order of the tasks; they only grow",
    };
    json!(BackgroundHandle::of(ticket, words))
}
