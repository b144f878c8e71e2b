//! `legwork run`: one prompt, one answer on stdout. What the agent delegates is joined, and the exit code tells the truth
//! about all of it.

mod told;
mod totals;

use std::time::Duration;

use legwork_agent::session::{
    OpenError, RunOutcome, RunSetup, SessionLine, SessionListener, SessionSetup, SessionStop, Which,
    run_prompt,
};
use legwork_core::ids::SessionId;
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Delegator, NewSession, SessionKind, SessionRecord, StopNotice};
use legwork_engine::recovery::{Orphans, Recovered};
use serde_json::json;
use tokio::time::Instant;
use told::{Prompted, Told, damaged_before, unanswered};

use crate::args::RunArgs;
use crate::failure::{CliError, Exit, Kind};
use crate::input::Wanted;
use crate::invocation::Invocation;
use crate::progress::{Before, Screen, follow_all};
use crate::session_choice::{HolderWait, Opening};
use crate::settings::Settings;
use crate::signals::{Asked, Attention, EndedBy, FAR_OFF, Meant, Signals};
use crate::wire::{ToolBounds, Workplace};
use crate::{orphans, progress, session_choice, state, stderr, stdout, wording};

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

/// A `legwork run` that has what it needs to ask.
struct Run<'a> {
    invocation: &'a Invocation,
    settings: &'a Settings,
    workplace: Workplace,
    signals: Signals,
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
    let workplace = Workplace::open(invocation, &settings).await?;
    let mut run = Run { invocation, settings: &settings, workplace, signals: Signals::listen()? };
    let taken_up = match run.go_on_with(stored.as_ref()).await? {
        WentOn::Here(recovered) => recovered,
        WentOn::Left(exit) => return Ok(exit),
    };
    state::tell_of_pause(invocation, &run.workplace.store).await?;
    let damaged = damaged_before(&run.workplace, stored.as_ref()).await;
    let setup = run.setup(stored, prompt)?;
    let session = setup.which.id().clone();
    let mut attention = Attention::default();
    let ended = run.ask(setup, taken_up, &mut attention).await;
    let Run { workplace, signals, .. } = &mut run;
    signals.allow(workplace.stop_grace());
    let outcome = match ended {
        Ok(Ended::Answered(outcome)) => *outcome,
        Ok(Ended::Cut) => unanswered(&attention),
        Ok(Ended::LeftAtOnce) => return Ok(signals.exit()),
        Err(error) => {
            workplace.close_after(EndedBy::Itself, signals).await.ok();
            return Err(error.into());
        }
    };
    let prompted = Prompted { workplace, session: &session, damaged: &damaged };
    match signals.unless_insisted(Told::of(prompted, outcome)).await {
        Some(told) => run.finish(&session, told, attention.ended_by()).await,
        None => Ok(signals.exit()),
    }
}

impl Run<'_> {
    /// Asks the prompt, shows what happens meanwhile, and carries out what signals mean.
    async fn ask(
        &mut self,
        setup: RunSetup,
        taken_up: Recovered,
        attention: &mut Attention,
    ) -> Result<Ended, OpenError> {
        let Run { invocation, workplace, signals, .. } = self;
        let workplace: &Workplace = workplace;
        let session = setup.which.id().clone();
        let quiet = invocation.common.quiet;
        let (line, stop) = SessionLine::new(Box::new(move |event| {
            if !quiet {
                progress::told(&event);
            }
        }));
        let mut screen = if quiet { Screen::Silent } else { Screen::Lines };
        let mut watch = workplace.handle.watch();
        let asking = run_prompt(setup, line, &stop);
        let showing = follow_all(watch.as_mut(), &mut screen);
        let watching = orphans::keep_watch(invocation, workplace, &session, taken_up);
        // Deadline: a stop is bounded even where its outcome cannot be stored; far off until there is one.
        let overdue = tokio::time::sleep(FAR_OFF);
        tokio::pin!(asking, showing, watching, overdue);
        let mut shows = true;
        loop {
            tokio::select! {
                outcome = &mut asking => return outcome.map(|outcome| Ended::Answered(Box::new(outcome))),
                () = &mut showing, if shows => shows = false,
                never = &mut watching, if !attention.is_released() => match never {},
                () = &mut overdue => return Ok(Ended::Cut),
                asked = signals.next() => match carry_out(attention.what_is_meant(asked), workplace, &stop).await {
                    Some(patience) => overdue.as_mut().reset(Instant::now() + patience),
                    None => return Ok(Ended::LeftAtOnce),
                },
            }
        }
    }

    /// Closes the workplace and prints what there is to tell, unless the program is told to end at once.
    async fn finish(mut self, session: &SessionId, told: Told, ended_by: EndedBy) -> Result<Exit, CliError> {
        // Before anything is printed: whoever reads the answer may look into the transcripts at once.
        if let Err(asked) = self.workplace.close_after(ended_by, &mut self.signals).await {
            return Ok(asked.exit());
        }
        self.workplace.resign().await;
        let exit = self.print(session, told.ended_by(ended_by)).await?;
        if self.signals.told().is_some() {
            how_to_go_on(self.invocation, session);
        }
        self.workplace.tidy_up(&mut self.signals).await;
        Ok(self.signals.told().map_or(exit, Asked::exit))
    }

    /// Goes on with a session, if it is a stored one. Where that cannot be done nothing is open any more.
    async fn go_on_with(&mut self, stored: Option<&SessionRecord>) -> Result<WentOn, CliError> {
        let Some(stored) = stored else { return Ok(WentOn::Here(Recovered::default())) };
        let setup = self.session_setup(Some(stored));
        let Run { invocation, settings, workplace, signals } = self;
        let taking_up = async {
            let (setup, wait) = (&setup?, HolderWait::of(settings, invocation));
            take_up(invocation, workplace, Opening { setup, id: &stored.session.id, wait }).await
        };
        let went_on = tokio::select! {
            taken_up = taking_up => taken_up.map(WentOn::Here),
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
            self.tell_not_asked(&stored.session.id).await?;
        }
        went_on
    }

    /// Says of a prompt that it was not asked, unless the program is told to end at once.
    async fn tell_not_asked(&mut self, session: &SessionId) -> Result<(), CliError> {
        if !self.signals.has_insisted() {
            let told = Told::not_asked(&self.workplace, session).await;
            self.print(session, told).await?;
            how_to_go_on(self.invocation, session);
        }
        Ok(())
    }

    /// What the agent needs. A conversation goes on where it is, from wherever that is asked for.
    fn session_setup(&self, stored: Option<&SessionRecord>) -> Result<SessionSetup, CliError> {
        let Run { invocation, settings, workplace, .. } = self;
        let bounds = ToolBounds::of_a_prompt(&settings.delegation);
        let mut session = workplace.conversation(invocation, settings, bounds)?;
        if let Some(record) = stored {
            session.setting.folder.clone_from(&record.session.folder);
        }
        Ok(session)
    }

    fn setup(&self, stored: Option<SessionRecord>, prompt: String) -> Result<RunSetup, CliError> {
        let Run { invocation, workplace, .. } = self;
        let session = self.session_setup(stored.as_ref())?;
        let which = match stored {
            Some(record) => Which::Stored(record.session.id),
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

    /// Prints the answer, or says why there is none.
    async fn print(&mut self, session: &SessionId, told: Told) -> Result<Exit, CliError> {
        let Told { report, delegations, totals, whole } = told;
        let (answer, error) = (report.answer.as_deref(), report.error.as_deref());
        let text = if self.invocation.common.json {
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
            Some(text) => stdout::print_attended(text, &mut self.signals).await,
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

/// Opens a stored session for this process and goes on with its work, before the turn that may wait for it is. A
/// subagent that cannot go on here waits for somebody who has what it lacks, and is told of; the prompt is asked all
/// the same, as in a conversation.
async fn take_up(
    invocation: &Invocation,
    workplace: &Workplace,
    opening: Opening<'_>,
) -> Result<Recovered, CliError> {
    session_choice::hold_in_time(opening).await?;
    let recovered = orphans::take_up(invocation, workplace, &Orphans::OfSession(opening.id.clone())).await?;
    if recovered.resumed > 0 {
        invocation.voice().tell("note: the prompt is asked when their results are there");
    }
    Ok(recovered)
}

/// Carries out what a signal means, and gives how long it may take; `None` when nothing is waited for.
async fn carry_out(meant: Meant, workplace: &Workplace, stop: &SessionStop) -> Option<Duration> {
    let notice = |reason| StopNotice { reason, force: Force::Ask };
    match meant {
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
