//! `legwork delegate`: runs tasks side by side without a parent model and prints their results.
//!
//! A unit counts as delivered once its result was written to stdout and flushed; a failed write parks it. People get each unit as
//! soon as it has settled, programs one document at the end.

mod attended;
mod detach;

use attended::{Attended, Ended, Form, Handed, kept, note};
use legwork_core::batch::{Lineage, NewBatch, Reach, Task, Ticket};
use legwork_core::ids::DelegationId;
use legwork_core::ports::{Delegator, DispatchError, Facts, JoinError, Joined, Refusal, SessionKind};

use serde_json::json;

use crate::args::DelegateArgs;
use crate::failure::{CliError, Exit, Kind};
use crate::invocation::Invocation;
use crate::model_source::advertised;
use crate::outcomes::Outcomes;
use crate::progress::{Follow, Screen};
use crate::signals::{Asked, EndedBy, Signals};
use crate::wire::Workplace;
use crate::{state, stderr, stdout, tasks_file, wording};

/// Runs the tasks and prints their results.
///
/// # Errors
/// When the tasks are wrong, no model is configured or nothing could be started.
pub async fn run(invocation: &Invocation, args: &DelegateArgs) -> Result<Exit, CliError> {
    let settings = invocation.settings()?;
    let read = tasks_file::read(args, &settings.delegation)?;
    read.check_routes(&advertised(&settings.delegation))?;
    let mut workplace = Workplace::open(invocation, &settings).await?;
    if state::is_paused(&workplace.store).await? {
        workplace.close().await;
        return Err(paused());
    }
    let tasks = match read.with_routes(workplace.models.as_ref(), &workplace.models.main) {
        Ok(tasks) => tasks,
        Err(error) => {
            workplace.close().await;
            return Err(error);
        }
    };
    if args.detach {
        let left = detach::leave(invocation, (&workplace, &settings), tasks, args.session.as_deref()).await;
        workplace.close().await;
        return left;
    }
    let mut signals = Signals::listen()?;
    if !settings.delegation.independent_completions && tasks.iter().any(|task| task.group.is_some()) {
        stderr::tell("note: `group` has no effect as long as delegation.independent_completions is off");
    }
    let watch = workplace.handle.watch();
    let ticket = dispatch(&mut workplace, tasks).await?;
    let mut screen = Screen::of(invocation);
    screen.head(&headline(&ticket));
    let mut attended = Attended::new(&workplace, &ticket, form(invocation));
    let mut following = Follow::new(&workplace.handle, &ticket, watch);
    let ended = attended.until_ended(&mut signals, &mut following, &mut screen).await;
    screen.clear();
    let (interrupted, handed) = attended.into_parts();
    if matches!(ended, Ok(Ended::LeftAtOnce)) {
        return Ok(Exit::Interrupted);
    }
    // Before the last of it is printed: whoever reads that may look into the transcripts at once.
    let ended_by = match &ended {
        Ok(Ended::Released) => EndedBy::Release,
        Ok(Ended::Settled(_) | Ended::Unsettled(_) | Ended::LeftAtOnce) | Err(_) if interrupted => {
            EndedBy::Interrupt
        }
        Ok(Ended::Settled(_) | Ended::Unsettled(_) | Ended::LeftAtOnce) | Err(_) => EndedBy::Itself,
    };
    if let Err(asked) = workplace.close_after(ended_by, &mut signals).await {
        return Ok(asked.exit());
    }
    let rest = Rest { invocation, workplace: &workplace, handed };
    let exit = match ended? {
        Ended::Settled(joined) => rest.deliver(*joined, &mut signals).await?,
        Ended::Unsettled(why) => {
            stderr::tell(&format!("error: not all results could be stored: {}", wording::plain(&why)));
            rest.show_stored(&ticket.delegation, &mut signals).await?
        }
        Ended::Released => {
            // What cannot be shown is stored all the same, and the signal is what ended this process.
            if let Err(error) = rest.show_stored(&ticket.delegation, &mut signals).await {
                stderr::tell(&format!("error: {}", wording::plain(&error.to_string())));
            }
            return Ok(Exit::Terminated);
        }
        Ended::LeftAtOnce => Exit::Interrupted,
    };
    workplace.tidy_up(&mut signals).await;
    Ok(signals.told().map_or(exit, Asked::exit))
}

fn headline(ticket: &Ticket) -> String {
    let count = ticket.children.len();
    let noun = if count == 1 { "task" } else { "tasks" };
    format!("{}: {count} {noun}; `legwork ps` shows them, Ctrl-C stops them", ticket.delegation)
}

/// Begins the work. Where that fails the workplace is closed, so that nothing of the call is left.
async fn dispatch(workplace: &mut Workplace, tasks: Vec<Task>) -> Result<Ticket, CliError> {
    let session = workplace.new_session(SessionKind::Shell).await?;
    let batch = NewBatch {
        lineage: Lineage::of_session(session.clone()),
        call_key: None,
        context: None,
        reach: Reach::Joined,
        tasks,
        setting: workplace.setting_of_children(),
    };
    let dispatched = workplace.handle.dispatch(batch).await;
    if dispatched.is_err() {
        workplace.forget_session(&session).await;
        workplace.close().await;
    }
    Ok(dispatched?)
}

/// What is printed at the end: everything, or what was not printed before.
struct Rest<'a> {
    invocation: &'a Invocation,
    workplace: &'a Workplace,
    handed: Handed,
}

impl Rest<'_> {
    async fn deliver(self, joined: Joined, signals: &mut Signals) -> Result<Exit, CliError> {
        let outcomes = Outcomes::all(&joined.record).with_missed(&joined.missed).with_below(&joined.below);
        let id = &joined.record.accepted.delegation;
        let printed = match self.handed.cut_off {
            // Nobody reads what would come now.
            Some(cut_off) => cut_off.into_printed(),
            None => stdout::print_attended(self.text(&outcomes), signals).await,
        };
        let noted = note(self.workplace, joined.claims, &printed, id);
        signals.unless_insisted(noted).await;
        let kept = kept(id);
        match printed {
            Ok(None) => {
                if stdout::goes_nowhere() {
                    stderr::tell(&format!("note: stdout is thrown away; {kept}"));
                }
                Ok(outcomes.exit())
            }
            Ok(Some(asked)) => {
                stderr::tell(&format!("note: {kept}"));
                Ok(asked.exit())
            }
            Err(error) => Err(error.with_hint(kept)),
        }
    }

    /// Prints what is stored of a delegation that has not settled, and says who prints the rest.
    async fn show_stored(self, delegation: &DelegationId, signals: &mut Signals) -> Result<Exit, CliError> {
        stderr::tell(&format!(
            "note: `legwork results {delegation} --wait` goes on with what is left and prints it"
        ));
        if let Some(cut_off) = self.handed.cut_off {
            return cut_off.into_printed().map(|asked| asked.map_or(Exit::Incomplete, Asked::exit));
        }
        let read = match signals.unless_told(self.workplace.store.delegation(delegation)).await {
            Ok(read) => read,
            Err(asked) => return Ok(asked.exit()),
        };
        let text = match read {
            Ok(Some(record)) => self.text(&Outcomes::all(&record)),
            Ok(None) => self.nothing(delegation),
            // The work had begun, so this is not a start that failed: what cannot be read now is only not shown.
            Err(error) => {
                stderr::tell(&format!("error: {}", wording::plain(&error.to_string())));
                self.nothing(delegation)
            }
        };
        if text.is_empty() {
            return Ok(Exit::Incomplete);
        }
        let printed = stdout::print_attended(text, signals).await?;
        Ok(printed.map_or(Exit::Incomplete, Asked::exit))
    }

    /// What is shown when nothing of it can be.
    fn nothing(&self, delegation: &DelegationId) -> String {
        match form(self.invocation) {
            Form::Json => {
                let nothing =
                    json!({"delegation_id": delegation, "results": [], "total_duration_seconds": 0.0});
                stdout::json_line(&nothing)
            }
            Form::Text => String::new(),
        }
    }

    fn text(&self, outcomes: &Outcomes<'_>) -> String {
        match form(self.invocation) {
            Form::Json => stdout::json_line(&outcomes.to_json()),
            Form::Text => outcomes.rest_text(&self.handed.units),
        }
    }
}

fn form(invocation: &Invocation) -> Form {
    if invocation.common.json { Form::Json } else { Form::Text }
}

/// The failure when nothing may start. Nothing is stored of what was asked for.
fn paused() -> CliError {
    CliError::new(
        Kind::Paused,
        "there is a pause: no new subagent starts in this state folder; nothing was started",
    )
    .with_hint("`legwork pause off` ends it")
}

/// What to do when the conversation was deleted at that moment.
const NO_SESSION: &str =
    "`legwork sessions` lists those that are there; without --session the results wait for `legwork results`";

impl From<DispatchError> for CliError {
    fn from(error: DispatchError) -> CliError {
        let kind = match &error {
            DispatchError::Refused(Refusal::Paused) => return paused(),
            DispatchError::Refused(Refusal::IdsInUse) => Kind::State,
            DispatchError::Refused(
                Refusal::TooDeep { .. }
                | Refusal::QueueFull { .. }
                | Refusal::NoSlots { .. }
                | Refusal::TooManyTasks { .. }
                | Refusal::Ending
                | Refusal::Stopping
                | Refusal::Empty,
            )
            | DispatchError::Reused(_) => Kind::Input,
            DispatchError::NoSession(_) => {
                return CliError::new(Kind::NotFound, error.to_string()).with_hint(NO_SESSION);
            }
            DispatchError::Store(_) | DispatchError::Unclear { .. } | DispatchError::Unread(_) => Kind::State,
            DispatchError::Closed => Kind::Internal,
        };
        CliError::new(kind, error.to_string())
    }
}

impl From<JoinError> for CliError {
    fn from(error: JoinError) -> CliError {
        let kind = match &error {
            JoinError::Unknown(_) | JoinError::Orphaned(_) | JoinError::Closed => Kind::Internal,
            JoinError::Store(_) | JoinError::GivenUp(_) => Kind::State,
        };
        CliError::new(kind, error.to_string())
    }
}
