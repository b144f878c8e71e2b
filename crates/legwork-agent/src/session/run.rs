//! One prompt, one answer: a new session whose agent takes one turn, with everything it delegates joined.
//!
//! It stores the conversation as it grows. It does not wait for children that a stop cut off, and renders nothing.

use super::history::History;
use super::line::{SessionLine, SessionStop};
use crate::journal::Journal;
use crate::models::Model;
use crate::prompt::{self, Standing};
use crate::room::Room;
use crate::tools::{DELEGATE_TASK, Site, Toolbox};
use crate::turn::{self, Agent, Context, Start, TurnLimits};
use legwork_core::batch::{Lineage, Reach, Setting};
use legwork_core::ids::{CallKey, DelegationId};
use legwork_core::message::{Author, Message};
use legwork_core::outcome::{Ending, StopReason};
use legwork_core::ports::{Conversations, Delegator, Facts, NewSession, Steps, Store, StoreError};
use legwork_core::report::Report;
use legwork_core::steering::Scope;
use legwork_core::step::{Action, Actor, Fence};
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// What a one-shot prompt needs.
pub struct RunSetup {
    /// Where the session is kept.
    pub store: Arc<dyn Store>,
    /// The model that answers.
    pub model: Arc<dyn Model>,
    /// The tools, `delegate_task` among them if the agent may delegate.
    pub toolbox: Arc<Toolbox>,
    /// The engine, which is told when the agent is stopped.
    pub delegator: Arc<dyn Delegator>,
    /// The limits of the turn.
    pub limits: TurnLimits,
    /// The session to create.
    pub session: NewSession,
    /// This process as an owner; it has entered the store.
    pub fence: Fence,
    /// Folder, model, rights and allowance of the agent.
    pub setting: Setting,
    /// The depth at which agents may no longer delegate.
    pub depth_max: u32,
    /// The folder for outputs that are too long.
    pub spill: PathBuf,
    /// What the person asks.
    pub prompt: String,
}

/// What became of the prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// How the turn ended, with the answer and all counted facts.
    pub report: Report,
    /// What was delegated, in order, or why that cannot be read. After a stop some of it may not have settled yet.
    pub delegations: Result<Vec<DelegationId>, StoreError>,
}

/// Why nothing was asked.
#[derive(Debug, Error)]
pub enum RunError {
    /// The folder or its rules cannot be used.
    #[error("{0}")]
    Folder(String),
    /// The session could not be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Creates the session, asks the prompt and joins what is delegated. The user's message is stored before anything is
/// asked, and everything after it as soon as it is whole.
///
/// A stop comes through `stop` and reaches what was delegated too; it is not awaited there. A shutdown ends only the
/// turn: what becomes of the children is the engine's business then. Dropping the future ends the turn where it is, and
/// leaves the session legal.
///
/// # Errors
/// [`RunError`]; nothing was asked then.
pub async fn run_prompt(
    setup: RunSetup,
    line: SessionLine,
    stop: &SessionStop,
) -> Result<RunOutcome, RunError> {
    let RunSetup { store, delegator, .. } = &setup;
    let (store, delegator) = (Arc::clone(store), Arc::clone(delegator));
    let session = setup.session.id.clone();
    let opening = opening(&setup).await?;
    let owner = setup.fence.owner.clone();
    store.create_session(setup.session.clone(), &owner).await?;
    let conversations = Arc::clone(&store) as Arc<dyn Conversations>;
    let mut history = History::new(conversations, session.clone(), owner.clone(), 0);
    let first = opening.iter().map(|message| Message::clone(message)).collect();
    history.append(first, Vec::new()).await?;
    let actor = Actor::Session(session.clone());
    let mut journal =
        Journal::fresh(Arc::clone(&store) as Arc<dyn Steps>, actor.clone(), setup.fence.clone())
            .with_history(history);
    let agent = agent(setup, line);
    let mut context = Context::new(opening);
    let report = turn::run(&agent, &mut journal, &mut context, Start::Turn).await;
    if let (Ending::Interrupted, Some(notice)) = (report.ending, stop.notice())
        && notice.reason != StopReason::Shutdown
    {
        delegator.stop(Scope::Session(session.clone()), notice.reason, notice.force).await;
    }
    let delegations = delegations(&*store, &actor).await;
    if let Err(error) = store.release_session(&session, &owner).await {
        tracing::warn!(%session, %error, "the session could not be closed; it comes free with this process");
    }
    Ok(RunOutcome { report, delegations })
}

async fn opening(setup: &RunSetup) -> Result<Vec<Arc<Message>>, RunError> {
    let folder = PathBuf::from(&setup.setting.folder);
    let room = Room::of(setup.model.facts().window);
    let standing = Standing { depth: 0, depth_max: setup.depth_max };
    let standing = setup.setting.rights.allow(DELEGATE_TASK).then_some(standing);
    let written = tokio::task::spawn_blocking(move || system_text(folder, room, standing));
    let system = written.await.unwrap_or_else(|error| Err(error.to_string())).map_err(RunError::Folder)?;
    let messages =
        [Message::text(Author::System, system), Message::text(Author::User, setup.prompt.as_str())];
    Ok(messages.into_iter().map(Arc::new).collect())
}

fn system_text(folder: PathBuf, room: Room, standing: Option<Standing>) -> Result<String, String> {
    if !folder.is_dir() {
        return Err(format!("the working folder {} is not a folder", folder.display()));
    }
    if room == Room::Scarce {
        return Ok(prompt::for_session_briefly(&folder));
    }
    let context = prompt::project_context(&folder)?;
    Ok(prompt::for_session(&folder, context.as_ref(), standing))
}

fn agent(setup: RunSetup, line: SessionLine) -> Agent {
    let RunSetup { store, model, toolbox, limits, session, fence, setting, spill, prompt, .. } = setup;
    let room = Room::of(model.facts().window);
    Agent {
        offered: room.offered(toolbox.specs(&setting.rights), &prompt),
        model,
        toolbox,
        site: Arc::new(Site {
            actor: Actor::Session(session.id.clone()),
            lineage: Lineage { session: session.id, parent: None, depth: 0 },
            fence,
            setting,
            reach: Reach::Joined,
            spill,
            line: Arc::new(line),
        }),
        facts: store as Arc<dyn Facts>,
        limits,
    }
}

/// The delegations of the session's calls, also of one whose results never came.
async fn delegations(store: &dyn Store, actor: &Actor) -> Result<Vec<DelegationId>, StoreError> {
    let mut delegations = Vec::new();
    for step in store.steps(actor).await? {
        let Action::Tool { call, .. } = step.action else { continue };
        if call.name != DELEGATE_TASK {
            continue;
        }
        let key = CallKey { caller: actor.as_str().to_owned(), call: call.id };
        delegations.extend(store.by_call_key(&key).await?);
    }
    Ok(delegations)
}
