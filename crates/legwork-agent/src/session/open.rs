//! A session that this process holds: its messages in memory and in the store, its journal, and its agent's turns, one at
//! a time. After a write that failed everything is read again before the next one, so memory never runs ahead of the store.
//!
//! It does not decide which turn comes next.

use super::arrivals;
use super::history::History;
use super::line::SessionLine;
use super::setup::{OpenError, SessionSetup, Which};
use crate::journal::{Journal, Recorded};
use crate::models::Model;
use crate::patience::Patience;
use crate::prompt::{self, Standing};
use crate::room::Room;
use crate::tools::{DELEGATE_TASK, Site, known, tell_lost};
use crate::turn::{self, Agent, Context, Start};
use futures::FutureExt;
use legwork_core::batch::{Lineage, Route};
use legwork_core::ids::{ClaimId, SessionId};
use legwork_core::message::{Author, Message};
use legwork_core::outcome::{Ending, FailureKind, StopReason};
use legwork_core::ports::{Conversations, Facts, Held, Line, Liveness, Steps, StopNotice, StoreError};
use legwork_core::report::Report;
use legwork_core::step::Actor;
use std::path::PathBuf;
use std::sync::Arc;

/// An open session.
pub(crate) struct OpenSession {
    setup: SessionSetup,
    id: SessionId,
    journal: Journal,
    context: Context,
    /// A write failed: what is in memory may not be what is stored.
    in_doubt: bool,
    /// The stop of a turn of which the end could not be stored; whoever finishes that turn asks nothing more.
    broken_off: Option<StopNotice>,
    /// Messages whose append failed, with how many were stored before.
    unsaid: Option<(usize, Vec<Message>)>,
    /// The system text of a session in which nothing was said yet.
    system: Option<Message>,
    /// Whether it was created here.
    is_new: bool,
}

/// When messages became part of the history.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stored {
    /// With this call, together with the claims that it was given.
    Now,
    /// These, with an earlier call whose answer was an error. The claims of this call belong to nothing that is stored:
    /// whoever made them gives them back.
    Before(Vec<Message>),
}

/// What a session still has to answer.
#[derive(Debug)]
pub(crate) enum Left {
    /// Nothing.
    Nothing,
    /// The last messages have no answer, and no turn is under way.
    Unanswered,
    /// A turn was cut off.
    CutOff(Box<Recorded>),
}

impl OpenSession {
    /// Creates the session or opens the stored one. A holder that is proved dead is replaced; a living one, and one that
    /// cannot be told from it, is left alone.
    ///
    /// # Errors
    /// [`OpenError`]; the session is held as it was before, by this process too if that held it already.
    pub(crate) async fn open(setup: SessionSetup, which: Which) -> Result<(Self, Left), OpenError> {
        let id = which.id().clone();
        // What may fail for other reasons comes before anything is stored.
        let system = match &which {
            Which::New(_) => Some(system(&setup).await?),
            Which::Stored(_) => None,
        };
        let is_new = matches!(which, Which::New(_));
        let was_held = match which {
            Which::New(session) => {
                setup.store.create_session(session, &setup.fence.owner).await?;
                false
            }
            Which::Stored(_) => {
                let was_held = is_held(&setup, &id).await?;
                hold(&setup, &id).await?;
                was_held
            }
        };
        let read = async {
            let (journal, context, left) = read(&setup, &id).await?;
            let system = match system {
                None if context.messages().is_empty() => Some(self::system(&setup).await?),
                system => system,
            };
            Ok((journal, context, left, system))
        };
        match read.await {
            Ok((journal, context, left, system)) => {
                let (in_doubt, broken_off, unsaid) = (false, None, None);
                let session =
                    OpenSession { setup, id, journal, context, in_doubt, broken_off, unsaid, system, is_new };
                session.setup.commands.background.arrive(session.actor());
                session.tell_lost(&left).await;
                Ok((session, left))
            }
            Err(error) => {
                if is_new {
                    discard(&setup, &id).await;
                } else if !was_held {
                    release(&setup, &id).await;
                }
                Err(error)
            }
        }
    }

    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    pub(crate) fn setup(&self) -> &SessionSetup {
        &self.setup
    }

    /// All messages so far.
    pub(crate) fn messages(&self) -> &[Arc<Message>] {
        self.context.messages()
    }

    /// The first step of the journal that is not taken yet.
    pub(crate) fn next_step(&self) -> u32 {
        self.journal.next_step()
    }

    /// From the next turn on the agent asks this model, and what it delegates does too unless children have a route of
    /// their own.
    pub(crate) fn ask(&mut self, model: Arc<dyn Model>, route: Route) {
        self.setup.model = model;
        self.setup.setting.route = route;
    }

    /// Stores a message for the agent together with the end of the claims that it carries, in one commit. A message that
    /// an earlier, failed try has stored after all is not stored again, and the answer says so.
    ///
    /// # Errors
    /// [`StoreError`]; whether the message is stored is found out at the next call with the same message. A conflict when
    /// a turn was cut off by a write that failed: nothing is said behind it until it is finished, or its reply and results
    /// would be lost (invariant 2). The next [`OpenSession::refresh`] gives it.
    pub(crate) async fn say(&mut self, message: &Message, claims: &[ClaimId]) -> Result<Stored, StoreError> {
        self.say_all(std::slice::from_ref(message), claims).await
    }

    /// As [`OpenSession::say`], for several messages in one commit. They are known again by the last of them.
    ///
    /// # Errors
    /// As [`OpenSession::say`].
    pub(crate) async fn say_all(
        &mut self,
        said: &[Message],
        claims: &[ClaimId],
    ) -> Result<Stored, StoreError> {
        let left = self.refresh().await?;
        if said.last().is_some_and(|last| self.is_stored_already(last)) {
            let (_, before) = self.unsaid.take().unwrap_or_default();
            return Ok(Stored::Before(before));
        }
        let mut messages: Vec<Message> = self.system.iter().cloned().collect();
        messages.extend_from_slice(said);
        if let Some(Left::CutOff(_)) = left {
            self.in_doubt = true;
            let error = "the turn before the message was cut off and has to be finished first";
            return Err(StoreError::Conflict(error.to_owned()));
        }
        match self.journal.append(messages.clone(), claims.to_vec()).await {
            Ok(()) => {
                messages.into_iter().for_each(|message| self.context.push(message));
                (self.system, self.unsaid) = (None, None);
                Ok(Stored::Now)
            }
            Err(error) => {
                self.in_doubt = true;
                self.unsaid = Some((self.context.messages().len(), messages));
                Err(error)
            }
        }
    }

    /// Whether a message whose append failed is stored after all, as far as was read since.
    pub(crate) fn is_stored_already(&self, message: &Message) -> bool {
        let Some((before, messages)) = &self.unsaid else { return false };
        let grown = self.context.messages().get(*before..).unwrap_or_default();
        let same = grown.iter().map(AsRef::as_ref).eq(messages.iter());
        same && messages.last() == Some(message)
    }

    /// Takes one turn. What the report says is stored, unless it says that storing failed.
    pub(crate) async fn turn(&mut self, start: Start, line: Arc<dyn Line>) -> Report {
        if let Err(error) = self.refresh().await {
            return unstored(&error);
        }
        let line = self.broken_off.take().map_or(line, told_to_stop);
        self.journal.be_patient(Patience::on(Arc::clone(&line), self.setup.limits.store_trouble_max));
        let agent = self.agent(Arc::clone(&line));
        // Also when the turn is dropped where it is: how much of it was stored is not known then.
        self.in_doubt = true;
        let report = turn::run(&agent, &mut self.journal, &mut self.context, start).await;
        self.in_doubt = self.journal.lost().is_some();
        if self.in_doubt {
            self.broken_off =
                line.stopped().now_or_never().filter(|notice| notice.reason != StopReason::Shutdown);
        }
        report
    }

    /// Reads the session again if a write failed, and says what is left to answer then.
    ///
    /// # Errors
    /// [`StoreError`]; it is tried again at the next call.
    pub(crate) async fn refresh(&mut self) -> Result<Option<Left>, StoreError> {
        if !self.in_doubt {
            return Ok(None);
        }
        let (journal, context, left) = read(&self.setup, &self.id).await?;
        if !context.messages().is_empty() {
            self.system = None;
        }
        (self.journal, self.context, self.in_doubt) = (journal, context, false);
        if !matches!(left, Left::CutOff(_)) {
            self.broken_off = None;
        }
        Ok(Some(left))
    }

    /// Closes the session: what was claimed for it and is not part of the conversation is given back. A new one in which
    /// nothing was said leaves no trace. Any other stays held, for what it delegated may go on in this process: whoever
    /// opened it elsewhere meanwhile would find that in living hands, and go on with none of it (docs/design/044).
    pub(crate) async fn close(mut self) {
        self.setup.commands.background.depart(&self.actor());
        if let Err(error) = self.refresh().await {
            tracing::debug!(session = %self.id, %error, "results that a session has taken come free with this process");
        }
        for claim in self.journal.let_go() {
            if !arrivals::give_back(&self.setup, &claim).await {
                tracing::debug!(session = %self.id, "results that a session has taken come free with this process");
            }
        }
        if self.is_new && self.system.is_some() {
            discard(&self.setup, &self.id).await;
        }
    }

    /// Lets the agent hear of processes that subagents had handed over to it and that went with an earlier process of legwork.
    async fn tell_lost(&self, left: &Left) {
        let open = match left {
            Left::CutOff(recorded) => recorded.exchange.as_ref(),
            Left::Nothing | Left::Unanswered => None,
        };
        let known = known(self.messages(), open);
        let facts: &dyn Facts = self.setup.store.as_ref();
        tell_lost(&self.setup.commands.background, facts, &self.actor(), &known).await;
    }

    fn actor(&self) -> Actor {
        Actor::Session(self.id.clone())
    }

    fn agent(&self, line: Arc<dyn Line>) -> Agent {
        let SessionSetup { model, toolbox, limits, fence, setting, reach, spill, .. } = &self.setup;
        let asked = self.messages().iter().rev().find(|message| message.author == Author::User);
        let asked = asked.map(|message| message.plain_text()).unwrap_or_default();
        Agent {
            offered: Room::of(model.facts().window).offered(toolbox.specs(&setting.rights), &asked),
            model: Arc::clone(model),
            toolbox: Arc::clone(toolbox),
            site: Arc::new(Site {
                actor: self.actor(),
                lineage: Lineage::of_session(self.id.clone()),
                fence: fence.clone(),
                setting: setting.clone(),
                reach: *reach,
                spill: spill.clone(),
                line,
            }),
            facts: Arc::clone(&self.setup.store) as Arc<dyn Facts>,
            limits: *limits,
            contract: None,
        }
    }
}

/// A line on which a stop has come.
fn told_to_stop(notice: StopNotice) -> Arc<dyn Line> {
    let (line, stop) = SessionLine::new(Box::new(|_| ()));
    stop.stop(notice);
    Arc::new(line)
}

/// The report of a turn that could not begin because the session cannot be stored.
pub(crate) fn unstored(error: &StoreError) -> Report {
    Report { error: Some(error.to_string()), ..Report::bare(Ending::Failed(FailureKind::Store)) }
}

async fn hold(setup: &SessionSetup, id: &SessionId) -> Result<(), OpenError> {
    let owner = &setup.fence.owner;
    let mut instead_of = None;
    loop {
        match setup.store.hold_session(id, owner, instead_of.as_ref()).await? {
            Held::Here => return Ok(()),
            Held::Unknown => return Err(OpenError::Unknown(id.clone())),
            Held::By(holder) => {
                let liveness = holder.liveness(setup.processes.as_ref());
                let replaced = instead_of.replace(holder.id.clone());
                if liveness != Liveness::Dead || replaced == instead_of {
                    let (session, pid) = (id.clone(), holder.process.pid);
                    return Err(OpenError::Held { session, pid, is_alive: liveness == Liveness::Alive });
                }
            }
        }
    }
}

/// Whether this process holds the session.
async fn is_held(setup: &SessionSetup, id: &SessionId) -> Result<bool, StoreError> {
    let holder = setup.store.session(id).await?.and_then(|record| record.holder);
    Ok(holder.is_some_and(|holder| holder.id == setup.fence.owner))
}

async fn release(setup: &SessionSetup, id: &SessionId) {
    if let Err(error) = setup.store.release_session(id, &setup.fence.owner).await {
        tracing::warn!(session = %id, %error, "the session could not be closed in the store; it comes free with this process");
    }
}

/// Removes the session, unless somebody has used it.
async fn discard(setup: &SessionSetup, id: &SessionId) {
    if let Err(error) = setup.store.discard_session(id, &setup.fence.owner).await {
        tracing::debug!(session = %id, %error, "a session in which nothing was said stays");
    }
}

/// Asks whether a stored session could be talked in here if nobody else had it open. For whoever would take it from a
/// process that stands still: that one loses its work by it, which must not be for nothing. Nothing is stored, and
/// nobody's session is touched.
///
/// # Errors
/// [`OpenError`], as it would be met once the session is held.
pub async fn could_be_opened(setup: &SessionSetup, id: &SessionId) -> Result<(), OpenError> {
    let messages = setup.store.history(id).await?;
    let (steps, actor) = (Arc::clone(&setup.store) as Arc<dyn Steps>, Actor::Session(id.clone()));
    Journal::open(steps, actor, setup.fence.clone()).await?;
    if messages.is_empty() {
        system(setup).await?;
    }
    Ok(())
}

/// Messages, journal, and what is left to answer, as they are stored; only for the process that holds the session. A
/// message is answered by a plain message of the model behind it; every turn that ended and is not to be tried again
/// has stored one.
async fn read(setup: &SessionSetup, id: &SessionId) -> Result<(Journal, Context, Left), StoreError> {
    let holder = setup.store.session(id).await?.and_then(|record| record.holder);
    if holder.as_ref().is_none_or(|holder| holder.id != setup.fence.owner) {
        let who =
            holder.map_or_else(|| "nobody".to_owned(), |holder| format!("process {}", holder.process.pid));
        return Err(StoreError::Fenced(format!("the session {id} is held by {who}")));
    }
    let messages = setup.store.history(id).await?;
    let (steps, actor) = (Arc::clone(&setup.store) as Arc<dyn Steps>, Actor::Session(id.clone()));
    let (mut journal, recorded) = Journal::open(steps, actor.clone(), setup.fence.clone()).await?;
    if let Some(open) = &recorded.exchange {
        journal.hold(arrivals::carried(setup, &actor, open).await?);
    }
    let last = messages.iter().rev().map(|message| message.author).find(|author| *author != Author::Summary);
    let is_let_go = recorded.awaits_reply && last == Some(Author::Tool);
    let is_open = !recorded.unfinished.is_empty() || recorded.exchange.is_some() || is_let_go;
    let left = match last {
        None | Some(Author::System | Author::Assistant) => Left::Nothing,
        Some(Author::User | Author::Completion | Author::Tool | Author::Summary) if is_open => {
            Left::CutOff(Box::new(recorded))
        }
        Some(Author::User | Author::Completion | Author::Tool | Author::Summary) => Left::Unanswered,
    };
    let conversations = Arc::clone(&setup.store) as Arc<dyn Conversations>;
    let stored = messages.len() as u64;
    let history = History::new(conversations, id.clone(), setup.fence.owner.clone(), stored);
    let context = Context::new(messages.into_iter().map(Arc::new).collect());
    Ok((journal.with_history(history), context, left))
}

async fn system(setup: &SessionSetup) -> Result<Message, OpenError> {
    let folder = PathBuf::from(&setup.setting.folder);
    let room = Room::of(setup.model.facts().window);
    let standing = Standing { depth: 0, depth_max: setup.depth_max };
    let standing = setup.setting.rights.allow(DELEGATE_TASK).then_some(standing);
    let written = tokio::task::spawn_blocking(move || system_text(folder, room, standing));
    let text = written.await.unwrap_or_else(|error| Err(error.to_string())).map_err(OpenError::Folder)?;
    Ok(Message::text(Author::System, text))
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
