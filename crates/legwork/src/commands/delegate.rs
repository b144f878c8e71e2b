//! `legwork delegate`: runs tasks side by side without a parent model and prints their results.
//!
//! A unit counts as delivered once its result was written to stdout and flushed; a failed write parks it.

mod detach;

use std::time::Duration;

use legwork_core::batch::{Lineage, NewBatch, Reach, Setting, Task, Ticket};
use legwork_core::delivery::ParkReason;
use legwork_core::ids::DelegationId;
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Delegator, DispatchError, Facts, JoinError, Joined, Refusal, SessionKind};
use legwork_core::steering::Scope;
use tokio::time::Instant;

use crate::args::DelegateArgs;
use crate::failure::{CliError, Exit, Kind};
use crate::invocation::Invocation;
use crate::model_source::advertised;
use crate::outcomes::Outcomes;
use crate::progress::{Screen, follow};
use crate::signals::{Asked, Signals};
use crate::wire::Workplace;
use crate::{state, stderr, stdout, tasks_file, wording};

/// How long the last lines of progress may take once the results are there.
const LAST_LINES: Duration = Duration::from_millis(300);
/// Longer than any wait.
const FAR_OFF: Duration = Duration::from_secs(366 * 24 * 3600);

/// How the wait for the results ended.
enum Ended {
    /// All children have settled.
    Settled(Box<Joined>),
    /// Their ends could not be stored; why.
    Unsettled(String),
    /// The work was released: it stays in the store.
    Released,
    /// The user did not want to wait for the stop.
    LeftAtOnce,
}

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
    let mut watch = workplace.handle.watch();
    let ticket = dispatch(&workplace, tasks).await?;
    let mut screen = Screen::of(invocation);
    screen.head(&headline(&ticket));
    let mut attended = Attended { workplace: &workplace, ticket: &ticket, interrupted: false };
    let ended = {
        let shown = follow(&workplace.handle, watch.as_mut(), &ticket, &mut screen);
        attended.until_ended(&mut signals, shown).await
    };
    screen.clear();
    let interrupted = attended.interrupted;
    if matches!(ended, Ok(Ended::LeftAtOnce)) {
        return Ok(Exit::Interrupted);
    }
    // Before anything is printed: whoever reads the results may look into the transcripts at once.
    workplace.close().await;
    let exit = match ended? {
        Ended::Settled(joined) => deliver(invocation, &workplace, *joined, &mut signals).await?,
        Ended::Unsettled(why) => {
            stderr::tell(&format!("error: not all results could be stored: {}", wording::plain(&why)));
            show_stored(invocation, &workplace, &ticket.delegation, &mut signals).await?
        }
        Ended::Released => {
            show_stored(invocation, &workplace, &ticket.delegation, &mut signals).await?;
            return Ok(Exit::Terminated);
        }
        Ended::LeftAtOnce => Exit::Interrupted,
    };
    workplace.tidy_up().await;
    Ok(if interrupted { Exit::Interrupted } else { exit })
}

fn headline(ticket: &Ticket) -> String {
    let count = ticket.children.len();
    let noun = if count == 1 { "task" } else { "tasks" };
    format!("{}: {count} {noun}; `legwork ps` shows them, Ctrl-C stops them", ticket.delegation)
}

async fn dispatch(workplace: &Workplace, tasks: Vec<Task>) -> Result<Ticket, CliError> {
    let session = workplace.new_session(SessionKind::Shell).await?;
    let batch = NewBatch {
        lineage: Lineage { session, parent: None, depth: 0 },
        call_key: None,
        reach: Reach::Joined,
        tasks,
        setting: Setting { rights: workplace.rights_of_children.clone(), ..workplace.setting.clone() },
    };
    Ok(workplace.handle.dispatch(batch).await?)
}

/// A delegation that is waited for.
struct Attended<'a> {
    workplace: &'a Workplace,
    ticket: &'a Ticket,
    interrupted: bool,
}

impl Attended<'_> {
    /// Waits for the results while `shown` shows the progress, and does what signals ask for.
    async fn until_ended(
        &mut self,
        signals: &mut Signals,
        shown: impl Future<Output = ()>,
    ) -> Result<Ended, CliError> {
        let joined = self.workplace.handle.join(&self.ticket.delegation);
        // Deadline: a stop is bounded even where its outcome cannot be stored; far off until there is one.
        let overdue = tokio::time::sleep(FAR_OFF);
        tokio::pin!(joined, shown, overdue);
        let mut showing = true;
        loop {
            tokio::select! {
                () = &mut shown, if showing => showing = false,
                joined = &mut joined => {
                    if showing {
                        // Deadline: the last lines of progress are on their way; a watcher that lost some never ends.
                        tokio::time::timeout(LAST_LINES, &mut shown).await.ok();
                    }
                    return match joined {
                        Ok(joined) => Ok(Ended::Settled(Box::new(joined))),
                        Err(JoinError::Store(why)) => Ok(Ended::Unsettled(why)),
                        Err(error @ (JoinError::Unknown(_) | JoinError::Orphaned(_) | JoinError::Closed)) => {
                            Err(error.into())
                        }
                    };
                }
                () = &mut overdue => return Ok(Ended::Unsettled("the stop took too long".to_owned())),
                asked = signals.next() => {
                    if let Some(ended) = self.asked(asked).await {
                        return Ok(ended);
                    }
                    overdue.as_mut().reset(Instant::now() + self.workplace.stop_max());
                }
            }
        }
    }

    async fn asked(&mut self, asked: Asked) -> Option<Ended> {
        match (asked, self.interrupted) {
            (Asked::Interrupt | Asked::Release, true) => Some(Ended::LeftAtOnce),
            (Asked::Release, false) => Some(Ended::Released),
            (Asked::Interrupt, false) => {
                self.interrupted = true;
                let scope = Scope::Delegation(self.ticket.delegation.clone());
                self.workplace.handle.stop(scope, StopReason::Cancelled, Force::Ask).await;
                None
            }
        }
    }
}

async fn deliver(
    invocation: &Invocation,
    workplace: &Workplace,
    joined: Joined,
    signals: &mut Signals,
) -> Result<Exit, CliError> {
    let outcomes = Outcomes::all(&joined.record).with_missed(&joined.missed);
    let id = &joined.record.accepted.delegation;
    let printed = stdout::print_attended(text(invocation, &outcomes), signals).await;
    let now = workplace.owner.now();
    let noted = match &printed {
        Ok(None) => workplace.store.acknowledge(joined.claims, now).await,
        Ok(Some(_)) | Err(_) => workplace.store.park(joined.claims, now, ParkReason::WriteFailed).await,
    };
    if let Err(error) = noted {
        // The claims come free with this process, so the results are offered again.
        tracing::warn!(%error, "whether the results arrived could not be stored; `legwork results {id}` prints them");
    }
    let kept = format!("the results are kept: `legwork results {id}` prints them");
    match printed {
        Ok(None) => Ok(outcomes.exit()),
        Ok(Some(asked)) => {
            stderr::tell(&format!("note: {kept}"));
            Ok(asked.exit())
        }
        Err(error) => Err(error.with_hint(kept)),
    }
}

/// Prints what is stored of a delegation that has not settled, and says who prints the rest.
async fn show_stored(
    invocation: &Invocation,
    workplace: &Workplace,
    delegation: &DelegationId,
    signals: &mut Signals,
) -> Result<Exit, CliError> {
    stderr::tell(&format!(
        "note: `legwork results {delegation} --wait` goes on with what is left and prints it"
    ));
    let Some(record) = workplace.store.delegation(delegation).await? else { return Ok(Exit::Incomplete) };
    let printed = stdout::print_attended(text(invocation, &Outcomes::all(&record)), signals).await?;
    Ok(printed.map_or(Exit::Incomplete, Asked::exit))
}

fn text(invocation: &Invocation, outcomes: &Outcomes<'_>) -> String {
    if invocation.common.json { outcomes.to_json().to_string() } else { outcomes.to_text() }
}

/// The failure when nothing may start. Nothing is stored of what was asked for.
fn paused() -> CliError {
    CliError::new(
        Kind::Paused,
        "there is a pause: no new subagent starts in this state folder; nothing was started",
    )
    .with_hint("`legwork pause off` ends it")
}

impl From<DispatchError> for CliError {
    fn from(error: DispatchError) -> CliError {
        let kind = match &error {
            DispatchError::Refused(Refusal::Paused) => return paused(),
            DispatchError::Refused(
                Refusal::TooDeep { .. }
                | Refusal::QueueFull { .. }
                | Refusal::NoSlots { .. }
                | Refusal::TooManyTasks { .. }
                | Refusal::Ending
                | Refusal::Stopping
                | Refusal::Empty,
            ) => Kind::Input,
            DispatchError::Store(_) => Kind::State,
            DispatchError::Closed => Kind::Internal,
        };
        CliError::new(kind, error.to_string())
    }
}

impl From<JoinError> for CliError {
    fn from(error: JoinError) -> CliError {
        let kind = match &error {
            JoinError::Unknown(_) | JoinError::Orphaned(_) | JoinError::Closed => Kind::Internal,
            JoinError::Store(_) => Kind::State,
        };
        CliError::new(kind, error.to_string())
    }
}
