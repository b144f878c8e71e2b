//! The conversation and the engine behind a terminal: what the terminal asks for, carried out and put into words.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use legwork_agent::session::{ConversationHandle, SayError};
use legwork_agent::transcripts::{Follow, Source};
use legwork_core::batch::Reach;
use legwork_core::ids::{ChildId, DelegationId, OwnerId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{
    Conversations, Delegator, Facts, Listed, Pending, Runner, SessionRecord, SessionView, StopNotice,
    StoreError, Undelivered,
};
use legwork_core::steering::Scope;
use legwork_engine::Handle;
use legwork_sqlite::SqliteStore;

use super::elsewhere;
use super::host::{Host, Whom};
use crate::failure::{CliError, Detail};
use crate::invocation::Invocation;
use crate::model_source::Models;
use crate::{outliving, wording};

/// Lines of a transcript that are shown.
const TAIL_LINES: usize = 40;
/// Conversations that are listed.
const SESSIONS_MAX: usize = 20;
const OPENING_WIDTH: usize = 60;

/// What a conversation at a terminal works with.
pub struct Backstage {
    /// How the program was started.
    pub invocation: Invocation,
    /// The conversation.
    pub conversation: ConversationHandle,
    /// How results reach the conversation.
    pub reach: Reach,
    /// This process.
    pub owner: OwnerId,
    /// The engine.
    pub engine: Handle,
    /// The database.
    pub store: Arc<SqliteStore>,
    /// The models of this process.
    pub models: Arc<Models>,
}

impl Host for Backstage {
    fn say(&self, text: String) -> Result<(), SayError> {
        self.conversation.say(text)
    }

    fn stop_turn(&self) {
        self.conversation.stop_turn(StopNotice { reason: StopReason::Cancelled, force: Force::Ask });
    }

    fn use_model(&self, name: String) -> Pending<'_, Result<String, String>> {
        Box::pin(async move {
            let (models, invocation) = (self.models.clone(), self.invocation.clone());
            // The embedded model may have to be unpacked first.
            let adding = tokio::task::spawn_blocking(move || models.add(&invocation, &name));
            let added = adding.await.map_err(|error| error.to_string())?;
            let (model, route) = added.map_err(|error| words(&error))?;
            let name = route.model.clone();
            self.conversation.set_model(model, route);
            Ok(name)
        })
    }

    fn children(&self) -> Pending<'_, SessionView> {
        self.engine.view_session(self.conversation.session())
    }

    fn steer(&self, child: ChildId, text: String) -> Pending<'_, Result<String, String>> {
        Box::pin(async move {
            let receipt = self.engine.steer(&child, text, None).await.map_err(|error| error.to_string())?;
            let seen = self.children().await;
            let reads = match elsewhere::runner_of(&seen, &child) {
                Runner::Here => "reads it at its next step".to_owned(),
                Runner::Elsewhere { pid } => format!("runs in process {pid} and reads it at its next step"),
                Runner::Nobody => {
                    "has lost its process, and reads it when somebody goes on with it".to_owned()
                }
            };
            Ok(format!("{child} {reads}; `legwork show {child}` tells when ({receipt})"))
        })
    }

    fn stop(&self, whom: Whom) -> Pending<'_, Result<String, String>> {
        Box::pin(async move {
            let session = self.conversation.session().clone();
            let (seen, is_all) = (self.children().await, whom == Whom::All);
            let scopes = match whom {
                Whom::One(child) => vec![Scope::Child(child)],
                Whom::Here => vec![Scope::Session(session)],
                // A request for a session is for one process; the others are asked one by one.
                Whom::All => [Scope::Session(session)].into_iter().chain(elsewhere::scopes(&seen)).collect(),
            };
            let mut told = Vec::new();
            for scope in scopes {
                let stopped = self.engine.stop(scope, StopReason::Cancelled, Force::Ask).await;
                if let Some(why) = stopped.untold {
                    return Err(format!("the stop could not be stored: {why}; asking again is safe"));
                }
                told.extend(stopped.children);
            }
            match seen.unreadable.filter(|_| is_all) {
                Some(why) => Err(elsewhere::unreadable(&why)),
                None => Ok(elsewhere::told_to_stop(&told, &seen.children)),
            }
        })
    }

    fn leave_to_worker(&self) -> Pending<'_, Result<String, String>> {
        Box::pin(async move {
            let invocation = self.invocation_of_a_worker().await?;
            let session = self.conversation.session().clone();
            let starting =
                tokio::task::spawn_blocking(move || outliving::start(&invocation, session.as_str()));
            let started = starting.await.map_err(|error| error.to_string())?;
            let id = self.conversation.session();
            started.map_err(|error| {
                format!(
                    "no worker could be started, so nothing was left: {error}. `legwork worker --only {id}`, started in another terminal, goes on with the subagents once this one is closed"
                )
            })?;
            Ok("a worker goes on with the subagents; `legwork ps` shows them, and their results wait for this conversation".to_owned())
        })
    }

    fn sessions(&self) -> Pending<'_, Result<Vec<String>, String>> {
        Box::pin(async move {
            let folder = self.invocation.paths.folder_text();
            let listed = self.store.sessions(Some(&folder)).await.map_err(|error| error.to_string())?;
            let Listed { rows: mut sessions, unreadable } = listed;
            sessions.retain(crate::session_choice::is_conversation);
            let more = sessions.len().saturating_sub(SESSIONS_MAX);
            let mut lines: Vec<String> =
                sessions.iter().take(SESSIONS_MAX).map(|session| self.session_line(session)).collect();
            if more > 0 {
                lines.push(format!("… and {more} older ones, see `legwork sessions`"));
            }
            lines.extend(unreadable.iter().map(|id| format!("{id}  cannot be read, see `legwork doctor`")));
            lines.push("`legwork chat --resume ID` goes on with one".to_owned());
            Ok(lines)
        })
    }

    fn transcript(&self, child: ChildId) -> Pending<'_, Result<Vec<String>, String>> {
        Box::pin(async move {
            let views = self.children().await.children;
            let view = views.into_iter().find(|view| view.child == child);
            let path = view.and_then(|view| view.transcript).filter(|path| !path.is_empty());
            let Some(path) = path else {
                return Err(format!("{child} has no transcript here; `legwork tail {child}` may find it"));
            };
            let reading =
                move || Follow::new(vec![Source { label: String::new(), path: PathBuf::from(path) }]).look();
            let read = tokio::task::spawn_blocking(reading).await.map_err(|error| error.to_string())?;
            let mut lines = read.map_err(|error| format!("the transcript cannot be read: {error}"))?;
            let before = lines.len().saturating_sub(TAIL_LINES);
            lines.drain(..before);
            if before > 0 {
                lines.insert(0, format!("… {before} lines before, see `legwork tail {child}`"));
            }
            Ok(lines)
        })
    }

    fn is_settled(&self) -> Pending<'_, Result<bool, String>> {
        Box::pin(async move {
            if !self.engine.view(None).await.is_empty() {
                return Ok(false);
            }
            let waiting = self.waiting().await?;
            // The rest does not come in by itself: it waits for the next message, or for a terminal.
            let nothing_waits =
                self.reach != Reach::Push || waiting.iter().all(|unit| unit.reach != Reach::Push);
            // Asked last: what came in meanwhile is being answered now.
            Ok(nothing_waits && self.conversation.is_idle())
        })
    }

    fn untold(&self) -> Pending<'_, Result<Vec<DelegationId>, String>> {
        Box::pin(async move {
            let waiting = self.waiting().await?;
            let units = waiting.into_iter().filter(|unit| unit.notice.is_none());
            let waiting: BTreeSet<DelegationId> = units.map(|unit| unit.delegation).collect();
            let mut untold = Vec::new();
            for id in waiting {
                let record = self.store.delegation(&id).await.map_err(|error| unread(&error))?;
                // What others have sent out for the conversation is none of this process's work.
                let is_own = record
                    .is_some_and(|it| it.owner.id == self.owner && it.accepted.lineage.parent.is_none());
                untold.extend(is_own.then_some(id));
            }
            Ok(untold)
        })
    }
}

/// Said where the store does not tell what waits.
fn unread(error: &StoreError) -> String {
    format!("whether results wait cannot be read: {error}")
}

impl Backstage {
    /// What waits for the conversation.
    async fn waiting(&self) -> Result<Vec<Undelivered>, String> {
        let waiting = self.store.undelivered(self.conversation.session()).await;
        waiting.map(|waiting| waiting.rows).map_err(|error| unread(&error))
    }

    /// As this process was started, but with the model that its subagents ask: `/model` may have chosen another one since.
    async fn invocation_of_a_worker(&self) -> Result<Invocation, String> {
        let open: BTreeSet<DelegationId> =
            self.engine.view(None).await.into_iter().map(|view| view.delegation).collect();
        let mut routes = Vec::new();
        for delegation in open {
            let record = self.store.delegation(&delegation).await;
            let record = record.map_err(|error| format!("nothing was left: {error}"))?;
            for record in record.iter() {
                let children = record.children.iter().enumerate();
                let open = children.filter(|(_, child)| child.outcome().is_none());
                routes.extend(open.map(|(index, _)| record.accepted.setting_of(index).route));
            }
        }
        let mut invocation = self.invocation.clone();
        match self.models.one_for_all(&routes) {
            Ok(Some(name)) => invocation.common.model = Some(name),
            Ok(None) => {}
            Err(several) => {
                return Err(format!(
                    "nothing was left: the subagents ask several models ({}), and a worker asks one; wait for some of them or stop them",
                    several.join(", ")
                ));
            }
        }
        Ok(invocation)
    }

    fn session_line(&self, record: &SessionRecord) -> String {
        let session = &record.session;
        let here = if session.id == *self.conversation.session() { "  (this one)" } else { "" };
        let name = session.name.as_ref().map(|name| format!("  {name}")).unwrap_or_default();
        let opening = wording::one_line(record.opening.as_deref().unwrap_or(""), OPENING_WIDTH);
        let at = wording::instant(record.touched_at.0);
        format!("{}{name}  {at}  {} messages  {opening}{here}", session.id, record.messages)
    }
}

/// A failure and what to do about it, on one line.
fn words(error: &CliError) -> String {
    let text = error.to_text(Detail::Brief);
    text.trim_start_matches("error: ").replace("\n  hint: ", "; ")
}
