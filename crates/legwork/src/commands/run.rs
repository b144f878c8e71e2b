//! `legwork run`: one prompt, one answer on stdout. What the agent delegates is joined, and the exit code tells the truth
//! about all of it.

mod totals;

use std::time::Duration;

use legwork_agent::session::{
    NOT_ASKED, OpenError, RunOutcome, RunSetup, SessionLine, SessionListener, SessionStop, Which, run_prompt,
};
use legwork_core::below::Below;
use legwork_core::completion::BatchResult;
use legwork_core::ids::{DelegationId, SessionId};
use legwork_core::outcome::{Ending, Force, StopReason};
use legwork_core::ports::{
    Delegator, Facts, Filter, Listed, NewSession, SessionKind, SessionRecord, StopNotice, StoreError,
};
use legwork_core::report::Report;
use legwork_engine::recovery::{Orphans, Recovered};
use serde_json::{Value, json};
use tokio::time::Instant;
use totals::Totals;

use crate::args::RunArgs;
use crate::failure::{CliError, Exit, Kind};
use crate::input::Wanted;
use crate::invocation::Invocation;
use crate::progress::{Before, Screen, follow_all, told};
use crate::settings::Settings;
use crate::signals::{Asked, Attention, EndedBy, FAR_OFF, Meant, Signals};
use crate::wire::{ToolBounds, Workplace};
use crate::{orphans, session_choice, state, stderr, stdout, wording};

/// Said of an answer that did not come in time.
const RELEASED: &str = "the program was told to end before the answer was there; it goes on from the last finished step when the \
     session is opened again";

const PROMPT: Wanted<'_> = Wanted {
    noun: "prompt",
    bytes_max: usize::MAX,
    when_empty: "say what is to be done",
    when_too_long: "put long material into a file and name it in the prompt, or raise delegation.goal_max_bytes",
};

/// How the wait for the answer ended.
enum Ended {
    /// By itself, or within the time that a signal leaves it.
    Answered(Box<RunOutcome>),
    /// It was cut off when that time was over.
    Cut,
    LeftAtOnce,
}

/// Asks the prompt and prints the answer.
///
/// # Errors
/// When the prompt is empty, no model is configured or nothing could be started.
pub async fn run(invocation: &Invocation, args: &RunArgs) -> Result<Exit, CliError> {
    let settings = invocation.settings()?;
    let prompt = PROMPT.within(settings.delegation.goal_max_bytes).take(&args.prompt)?;
    let stored = match (&args.resume, args.last) {
        (Some(typed), _) => Some(session_choice::to_resume(invocation, &settings, typed.as_deref()).await?),
        (None, true) => Some(session_choice::to_resume(invocation, &settings, None).await?),
        (None, false) => None,
    };
    let mut workplace = Workplace::open(invocation, &settings).await?;
    let mut signals = Signals::listen()?;
    let id = stored.as_ref().map(|stored| &stored.session.id);
    let taken_up = match went_on((invocation, &settings), (&mut workplace, &mut signals), id).await? {
        WentOn::Here(recovered) => recovered,
        WentOn::Left(exit) => return Ok(exit),
    };
    state::tell_of_pause(invocation, &workplace.store).await?;
    let damaged = damaged_before(&workplace, stored.as_ref()).await;
    let setup = setup(invocation, &settings, (&workplace, stored), prompt)?;
    let session = setup.which.id().clone();
    let quiet = invocation.common.quiet;
    let (line, stop) = SessionLine::new(Box::new(move |event| {
        if !quiet {
            told(&event);
        }
    }));
    let mut screen = if quiet { Screen::Silent } else { Screen::Lines };
    let mut watch = workplace.handle.watch();
    let mut attention = Attention::default();
    let ended = {
        let asking = run_prompt(setup, line, &stop);
        let showing = follow_all(watch.as_mut(), &mut screen);
        let watching = orphans::keep_watch(invocation, &workplace, &session, taken_up);
        // Deadline: a stop is bounded even where its outcome cannot be stored; far off until there is one.
        let overdue = tokio::time::sleep(FAR_OFF);
        tokio::pin!(asking, showing, watching, overdue);
        let mut shows = true;
        loop {
            tokio::select! {
                outcome = &mut asking => break outcome.map(|outcome| Ended::Answered(Box::new(outcome))),
                () = &mut showing, if shows => shows = false,
                never = &mut watching, if !attention.is_released() => match never {},
                () = &mut overdue => break Ok(Ended::Cut),
                asked = signals.next() => match asked_for(asked, (&workplace, &stop), &mut attention).await {
                    Some(patience) => overdue.as_mut().reset(Instant::now() + patience),
                    None => break Ok(Ended::LeftAtOnce),
                },
            }
        }
    };
    signals.allow(workplace.stop_grace());
    let told = match ended {
        Ok(Ended::Answered(outcome)) => {
            signals.unless_insisted(told_of(&workplace, (&session, &damaged), *outcome)).await
        }
        Ok(Ended::Cut) => {
            signals.unless_insisted(told_of(&workplace, (&session, &damaged), unanswered(&attention))).await
        }
        Ok(Ended::LeftAtOnce) => None,
        Err(error) => {
            workplace.close_after(EndedBy::Itself, &mut signals).await.ok();
            return Err(error.into());
        }
    };
    let Some(told) = told else { return Ok(signals.told().map_or(Exit::Interrupted, Asked::exit)) };
    finish(invocation, (&mut workplace, &mut signals), attention.ended_by(), (&session, told)).await
}

/// Closes the workplace and prints what there is to tell, unless the program is told to end at once.
async fn finish(
    invocation: &Invocation,
    (workplace, signals): (&mut Workplace, &mut Signals),
    ended_by: EndedBy,
    (session, told): (&SessionId, Told),
) -> Result<Exit, CliError> {
    // Before anything is printed: whoever reads the answer may look into the transcripts at once.
    if let Err(asked) = workplace.close_after(ended_by, signals).await {
        return Ok(asked.exit());
    }
    workplace.resign().await;
    let exit = print(invocation, session, told.ended_by(ended_by), signals).await?;
    if signals.told().is_some() {
        how_to_go_on(invocation, session);
    }
    workplace.tidy_up(signals).await;
    Ok(signals.told().map_or(exit, Asked::exit))
}

/// Says of a prompt that it was not asked, unless the program is told to end at once.
async fn not_asked(
    invocation: &Invocation,
    (workplace, signals): (&Workplace, &mut Signals),
    session: &SessionId,
) -> Result<(), CliError> {
    if !signals.has_insisted() {
        let told = told_of(workplace, (session, &[]), without_answer(NOT_ASKED)).await;
        print(invocation, session, told, signals).await?;
        how_to_go_on(invocation, session);
    }
    Ok(())
}

/// Says how a conversation goes on that a signal has ended.
fn how_to_go_on(invocation: &Invocation, session: &SessionId) {
    if !invocation.common.quiet {
        stderr::tell(&format!(
            "note: `legwork run \"…\" --resume {session}` goes on with this conversation, and takes in what has ended meanwhile"
        ));
    }
}

/// How it went to go on with a session.
enum WentOn {
    /// It is open here if it is stored, with what was taken up of its work.
    Here(Recovered),
    /// A signal came before it was; nothing is open any more, and the prompt was not asked.
    Left(Exit),
}

/// Goes on with a session, if it is a stored one. Where that cannot be done nothing is open any more.
async fn went_on(
    (invocation, settings): (&Invocation, &Settings),
    (workplace, signals): (&mut Workplace, &mut Signals),
    session: Option<&SessionId>,
) -> Result<WentOn, CliError> {
    let Some(session) = session else { return Ok(WentOn::Here(Recovered::default())) };
    let went_on = tokio::select! {
        gone_on = go_on((invocation, settings), workplace, session) => gone_on.map(WentOn::Here),
        asked = signals.next() => Ok(WentOn::Left(asked.exit())),
    };
    let ended_by = match &went_on {
        Ok(WentOn::Here(_)) => return went_on,
        Ok(WentOn::Left(_)) => EndedBy::Release,
        Err(_) => EndedBy::Itself,
    };
    // Told twice or once: what it was told first is its exit code.
    workplace.close_after(ended_by, signals).await.ok();
    workplace.resign().await;
    if matches!(went_on, Ok(WentOn::Left(_))) {
        not_asked(invocation, (workplace, signals), session).await?;
    }
    went_on
}

/// Opens a stored session for this process and goes on with its work, before the turn that may wait for it is. A
/// subagent that cannot go on here waits for somebody who has what it lacks, and is told of; the prompt is asked all
/// the same, as in a conversation.
async fn go_on(
    (invocation, settings): (&Invocation, &Settings),
    workplace: &Workplace,
    session: &SessionId,
) -> Result<Recovered, CliError> {
    let patience = session_choice::Patience::of(settings, invocation);
    session_choice::hold_in_time(&workplace.store, &workplace.owner, (session, patience)).await?;
    let recovered = orphans::take_up(invocation, workplace, &Orphans::OfSession(session.clone())).await?;
    if recovered.resumed > 0 {
        invocation.voice().tell("note: the prompt is asked when their results are there");
    }
    Ok(recovered)
}

/// What is said where the agent has not ended in time.
fn unanswered(attention: &Attention) -> RunOutcome {
    let error = if attention.is_interrupted() {
        "stopped, and its end could not be stored in time; `legwork ps --all` shows what is left"
    } else {
        RELEASED
    };
    without_answer(error)
}

/// The outcome of a prompt that has no answer, and why.
fn without_answer(error: &str) -> RunOutcome {
    let report = Report { error: Some(error.to_owned()), ..Report::bare(Ending::Interrupted) };
    RunOutcome { report, delegations: Ok(Vec::new()), arrivals_answered: false }
}

fn setup(
    invocation: &Invocation,
    settings: &Settings,
    (workplace, stored): (&Workplace, Option<SessionRecord>),
    prompt: String,
) -> Result<RunSetup, CliError> {
    let bounds = ToolBounds::of_a_prompt(&settings.delegation);
    let mut session = workplace.conversation(invocation, settings, bounds)?;
    let which = match stored {
        // A conversation goes on where it is, from wherever that is asked for.
        Some(record) => {
            session.setting.folder = record.session.folder;
            Which::Stored(record.session.id)
        }
        None => Which::New(NewSession {
            id: workplace.owner.new_session(),
            name: None,
            kind: SessionKind::Run,
            folder: session.setting.folder.clone(),
            at: workplace.owner.now(),
        }),
    };
    let quiet = invocation.common.quiet;
    let before = Before::default();
    let listener: SessionListener = Box::new(move |event| {
        if !quiet {
            before.heard(&event);
        }
    });
    Ok(RunSetup {
        session,
        delegator: std::sync::Arc::new(workplace.handle.clone()),
        which,
        prompt,
        listener,
    })
}

/// Carries out what a signal means, and gives how long it may take; `None` when nothing is waited for.
async fn asked_for(
    asked: Asked,
    (workplace, stop): (&Workplace, &SessionStop),
    attention: &mut Attention,
) -> Option<Duration> {
    let notice = |reason| StopNotice { reason, force: Force::Ask };
    match attention.what_is_meant(asked) {
        Meant::LeaveAtOnce => None,
        Meant::Release => {
            // What is under way in the turn and in subagents comes to its end in the same time.
            stop.stop(notice(StopReason::Shutdown));
            workplace.handle.release().await;
            Some(workplace.stop_grace())
        }
        Meant::Stop => {
            stop.stop(notice(StopReason::Cancelled));
            Some(workplace.stop_max())
        }
    }
}

/// What is said of a prompt that was answered or stopped.
struct Told {
    report: Report,
    delegations: Vec<Value>,
    totals: Totals,
    /// Everything ended with a whole answer.
    whole: bool,
}

impl Told {
    /// A turn that was let go of has no answer yet: its last words are none.
    fn ended_by(mut self, ended_by: EndedBy) -> Told {
        if ended_by == EndedBy::Release && self.report.ending == Ending::Interrupted {
            self.report.answer = None;
            self.report.error = Some(RELEASED.to_owned());
        }
        self
    }
}

/// Waits a bounded time for what a stop cut off, and gathers what was delegated. What cannot be read of it is said apart: the
/// answer is there, and no start has failed. What was `damaged` before the prompt is none of its work.
async fn told_of(
    workplace: &Workplace,
    (session, damaged): (&SessionId, &[DelegationId]),
    outcome: RunOutcome,
) -> Told {
    let RunOutcome { mut report, delegations, arrivals_answered } = outcome;
    if report.ending == Ending::Interrupted && report.error.is_none() && report.answer.is_none() {
        report.error = Some("it was stopped before there was an answer".to_owned());
    }
    let mut whole = report.ending == Ending::Answered && arrivals_answered;
    let mut printed = Vec::new();
    let delegated = delegations.unwrap_or_else(|error| {
        stderr::tell(&format!("error: what was delegated cannot be read: {error}"));
        whole = false;
        Vec::new()
    });
    // Deadline: a stop ends every subagent within its grace; an answered prompt has joined all of them.
    let until = Instant::now() + workplace.stop_max();
    for id in &delegated {
        tokio::time::timeout_at(until, workplace.handle.settled(id)).await.ok();
        match batch_of(workplace, id).await {
            Ok(Some((batch, is_success))) => {
                whole &= is_success;
                printed.push(json!(batch));
            }
            Ok(None) => {}
            Err(error) => {
                stderr::tell(&format!("error: what became of {id} cannot be read: {error}"));
                whole = false;
            }
        }
    }
    let read = if delegated.is_empty() {
        Ok(Listed::default())
    } else {
        workplace.store.delegations(Filter::Of(session.clone())).await
    };
    let records = read.unwrap_or_else(|error| {
        stderr::tell(&format!("error: what subagents took cannot be read, and is not counted: {error}"));
        whole = false;
        Listed::default()
    });
    for id in records.unreadable.iter().filter(|id| !damaged.contains(id)) {
        stderr::tell(&format!("error: what {id} took cannot be read, and is not counted"));
        whole = false;
    }
    let records = records.rows;
    let totals = Totals::of(&report, &delegated, &records);
    Told { report, delegations: printed, totals, whole }
}

/// The delegations of a stored session that could not be read before the prompt was asked.
async fn damaged_before(workplace: &Workplace, stored: Option<&SessionRecord>) -> Vec<DelegationId> {
    let Some(record) = stored else { return Vec::new() };
    match workplace.store.delegations(Filter::Of(record.session.id.clone())).await {
        Ok(listed) => listed.unreadable,
        Err(error) => {
            tracing::debug!(%error, "what cannot be read of earlier turns cannot be told; it is named after this one");
            Vec::new()
        }
    }
}

/// What became of a delegation, and whether that is a success; `None` when it is not stored any more.
async fn batch_of(
    workplace: &Workplace,
    id: &DelegationId,
) -> Result<Option<(BatchResult, bool)>, StoreError> {
    let Some(mut record) = workplace.store.delegation(id).await? else { return Ok(None) };
    // What was handed over to the agent of this prompt ends with it, before anybody reads this.
    record.note_ended_processes(|_| false);
    let below = Below::of(workplace.store.as_ref(), &record).await?;
    let batch = BatchResult::of(&record).with_below(&record, &below);
    let is_success = batch.is_success(record.children.len());
    Ok(Some((batch, is_success)))
}

async fn print(
    invocation: &Invocation,
    session: &SessionId,
    told: Told,
    signals: &mut Signals,
) -> Result<Exit, CliError> {
    let Told { report, delegations, totals, whole } = told;
    let (answer, error) = (report.answer.as_deref(), report.error.as_deref());
    let text = if invocation.common.json {
        let mut document = json!({
            "answer": answer,
            "session_id": session,
            "delegations": delegations,
            "totals": totals.to_json(),
        });
        if let (Some(error), Some(fields)) = (error, document.as_object_mut()) {
            fields.insert("failure".to_owned(), json!(error));
        }
        Some(stdout::json_line(&document))
    } else {
        answer.map(|answer| wording::plain(answer).trim_end().to_owned())
    };
    let printed = match text {
        Some(text) => stdout::print_attended(text, signals).await,
        None => Ok(None),
    };
    if let Some(asked) = printed.map_err(|failure| where_it_is(failure, session))? {
        return Ok(asked.exit());
    }
    if let Some(error) = error {
        stderr::tell(&format!("error: {}", wording::plain(error)));
    }
    Ok(if whole { Exit::Success } else { Exit::Incomplete })
}

/// Says of what could not be printed where it can be read.
fn where_it_is(failure: CliError, session: &SessionId) -> CliError {
    match failure.kind() {
        Kind::Output => failure.with_hint(format!(
            "what was said is stored: `legwork sessions show {session}` shows it, `legwork sessions export {session}` prints all of it, \
             and `legwork show {session}` tells of what it delegated"
        )),
        _other => failure,
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> CliError {
        let kind = match &error {
            OpenError::Folder(_) => Kind::Input,
            OpenError::Unknown(_) => Kind::NotFound,
            OpenError::Held { .. } => Kind::OpenElsewhere,
            OpenError::Store(_) => Kind::State,
        };
        CliError::new(kind, error.to_string())
    }
}
