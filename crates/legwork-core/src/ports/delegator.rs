//! Port `Delegator`: the engine as its front doors see it. Asked by tools and commands, answered by the engine's handle.

use super::{Inbox, Pending, StoreError, Watch};
use crate::batch::{Lineage, NewBatch, Task, Ticket};
use crate::below::Below;
use crate::child::ChildState;
use crate::fact::Accepted;
use crate::ids::{CallKey, ChildId, ClaimId, DelegationId, RequestId, SessionId, UnitId};
use crate::outcome::{Force, StopReason};
use crate::pulse::Pulse;
use crate::record::DelegationRecord;
use crate::steering::Scope;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Accepts work, and answers for it.
pub trait Delegator: Send + Sync {
    /// Accepts a delegation. A ticket means that it is durable: a crash right after loses nothing. A second
    /// dispatch under the same call key gets the first one's ticket, or is refused if it asks for something else (invariant 6).
    ///
    /// Dropping the future does not take the delegation back once it was recorded.
    fn dispatch(&self, batch: NewBatch) -> Pending<'_, Result<Ticket, DispatchError>>;

    /// What was accepted under `key`, if anything was: a call that is asked again rejoins that, whatever limits hold by
    /// now (invariant 6).
    ///
    /// # Errors
    /// [`LookError`]: that is not known, so nobody may conclude that nothing was.
    fn accepted(&self, key: &CallKey) -> Pending<'_, Result<Option<Accepted>, LookError>>;

    /// Why a call of this caller would be refused whatever its tasks are, if it would: a pause, an end, its depth. Nothing is
    /// promised for later.
    fn objection(&self, caller: &Lineage) -> Pending<'_, Option<Refusal>>;

    /// Waits until every child of the delegation has settled, and claims its units. The caller owes the store an
    /// acknowledgement of the claims, in the commit of the turn that carries the results.
    ///
    /// Dropping the future ends the wait and stops nothing.
    fn join(&self, delegation: &DelegationId) -> Pending<'_, Result<Joined, JoinError>>;

    /// As [`Delegator::join`], for one unit of the delegation.
    fn join_unit(&self, delegation: &DelegationId, unit: &UnitId) -> Pending<'_, Result<Joined, JoinError>>;

    /// Waits until every child of the delegation has settled, whoever runs it, and claims nothing. What loses its process meanwhile
    /// is gone on with here.
    ///
    /// # Errors
    /// [`JoinError`]: nobody can go on with it now, or that cannot be found out.
    ///
    /// Dropping the future ends the wait and stops nothing.
    fn until_settled(&self, delegation: &DelegationId) -> Pending<'_, Result<(), JoinError>>;

    /// Asks everything in `scope`, present and being born, to end. The answer does not wait for the ends; it waits until it is
    /// stored who was asked, so that no crash lets them go on. A delegation, unit or child that another process runs is asked
    /// through the store; a session, and everything, mean this process.
    fn stop(&self, scope: Scope, reason: StopReason, force: Force) -> Pending<'_, Stopped>;

    /// Says something to a child; it reads it at its next step. The answer is a receipt: the text is stored, and
    /// becomes seen or missed. A child that is unknown, has ended or belongs to another session than `session` gets
    /// one and the same answer (CTRL-4); `None` stands for whoever sits at the terminal and may reach every child.
    fn steer(
        &self,
        child: &ChildId,
        text: String,
        session: Option<&SessionId>,
    ) -> Pending<'_, Result<RequestId, SteerError>>;

    /// Lets the finished units of `session` go to `inbox`, one at a time, in the order in which they became ready,
    /// also those that were finished before. It goes on until the inbox says that it is closed.
    /// A session that is attached again has its newest inbox only. The caller holds the session.
    fn attach(&self, session: &SessionId, inbox: Arc<dyn Inbox>) -> Pending<'_, ()>;

    /// The children of this process that have not settled, and those of `delegation` that have.
    fn view(&self, delegation: Option<&DelegationId>) -> Pending<'_, Vec<ChildView>>;

    /// The children of `session` that have not settled, in whichever process they run (TOOL-16, CTRL-2).
    fn view_session(&self, session: &SessionId) -> Pending<'_, SessionView>;

    /// What happens from now on. A watcher that falls behind loses events and is told how many.
    fn watch(&self) -> Box<dyn Watch>;
}

/// Why a call was not accepted. Nothing of it exists then, but for [`DispatchError::Unclear`] and [`DispatchError::Unread`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DispatchError {
    /// A rule or a limit forbids it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store could not record it.
    #[error("the delegation could not be recorded: {0}; nothing was started, and calling again is safe")]
    Store(String),
    /// The store failed, and it cannot be read whether it recorded the call all the same.
    #[error(
        "{why}, and it cannot be read whether the call was accepted all the same, as {delegation}. Once the state folder can be read, `legwork show {delegation}` tells; call again only if there is no such delegation"
    )]
    Unclear {
        /// What the store said.
        why: String,
        /// What the call would have become.
        delegation: DelegationId,
    },
    /// It may have been accepted before, and that cannot be read.
    #[error(transparent)]
    Unread(#[from] LookError),
    /// Another call was accepted under its key before.
    #[error(transparent)]
    Reused(Box<OtherCall>),
    /// The session that was to receive the results is not there any more.
    #[error("the session {0}, to which the results would come, is not there any more; nothing was started")]
    NoSession(SessionId),
    /// The engine has ended.
    #[error("the engine is shutting down; nothing was started")]
    Closed,
}

/// It cannot be read whether a call was accepted before; what the store said. Of one that was, everything goes on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "whether this call was accepted before cannot be read: {0}. If it was, its subagents go on and their results are kept, so do not delegate it again under a new id as long as that cannot be read; once it can, `list` shows what is at work"
)]
pub struct LookError(pub String);

/// A call that asks under the key of an earlier one for something else (invariant 6).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the call {call} was accepted before as {delegation}, which is to do {first}; now it asks for {now}. Nothing was started, and {delegation} goes its way; give a new call an id of its own"
)]
pub struct OtherCall {
    /// The call's id.
    pub call: String,
    /// What was accepted under it.
    pub delegation: DelegationId,
    /// What that is to do, in a few words.
    pub first: String,
    /// What is asked for now.
    pub now: String,
}

impl OtherCall {
    /// Characters of a goal that are quoted.
    const GOAL_CHARS_MAX: usize = 80;

    /// A call for `now` under the key of one that was for `first`.
    pub fn new(key: &CallKey, delegation: &DelegationId, first: &[Task], now: &[Task]) -> OtherCall {
        OtherCall {
            call: key.call.clone(),
            delegation: delegation.clone(),
            first: worded(first),
            now: worded(now),
        }
    }
}

/// The first goal of a call, and how many others there are.
fn worded(tasks: &[Task]) -> String {
    let goal = tasks.first().map(|task| task.goal.as_str()).unwrap_or_default();
    let begin: String = goal.chars().take(OtherCall::GOAL_CHARS_MAX).collect();
    let cut = if begin.len() < goal.len() { "…" } else { "" };
    match tasks.len() {
        0 => "nothing".to_owned(),
        1 => format!("{begin:?}{cut}"),
        count => format!("{begin:?}{cut} and {} more", count - 1),
    }
}

/// A sentence that the calling model can act on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No new children may start (KILL-1).
    #[error(
        "delegation is paused; running subagents go on. Whoever paused it must resume it before you call again"
    )]
    Paused,
    /// The caller is as deep as agents may be (TOOL-19).
    #[error(
        "depth limit reached: this agent is at depth {depth} and delegation.max_spawn_depth is {depth_max}. Do the work yourself"
    )]
    TooDeep {
        /// The caller's depth.
        depth: u32,
        /// The limit.
        depth_max: u32,
    },
    /// The queue has no room for the whole call.
    #[error(
        "{asked} tasks do not fit: {waiting} subagents wait already and delegation.queue_max is {queue_max}. Nothing was started; send fewer tasks, or call again when some have ended"
    )]
    QueueFull {
        /// Tasks of the call.
        asked: usize,
        /// Children waiting now.
        waiting: usize,
        /// The limit.
        queue_max: usize,
    },
    /// There is no slot for every task, and calls do not wait (CAP-7).
    #[error(
        "{asked} tasks do not fit: slots free: {free}, delegation.max_concurrent_children is {children_max}, and delegation.at_capacity is \"reject\". Nothing was started; wait until a running subagent has ended and call again, or send fewer tasks"
    )]
    NoSlots {
        /// Tasks of the call.
        asked: usize,
        /// Slots that are free.
        free: usize,
        /// All slots.
        children_max: usize,
    },
    /// A call may have no more tasks than there are slots (TASK-3).
    #[error(
        "the call has {asked} tasks and delegation.max_concurrent_children is {tasks_max}. Nothing was started; send fewer tasks in one call, or have whoever runs this raise that key"
    )]
    TooManyTasks {
        /// Tasks of the call.
        asked: usize,
        /// The most that one call may have.
        tasks_max: usize,
    },
    /// The process is ending (CAP-10).
    #[error(
        "this process is ending and takes nothing new; nothing was started. Call again when the session is open again"
    )]
    Ending,
    /// The caller is being stopped.
    #[error("this agent is being stopped; nothing was started")]
    Stopping,
    /// Ids that were drawn for it belong to older work (invariant 36).
    #[error(
        "the ids that were drawn for the call are in use; nothing was started, and calling again is safe"
    )]
    IdsInUse,
    /// There is no task.
    #[error("the call has no task; send `tasks` with at least one `goal`")]
    Empty,
}

/// Why nothing was said to a child.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SteerError {
    /// It is unknown, has ended, or is somebody else's.
    #[error("there is no running subagent {0} of yours; `list` shows those there are")]
    NotFound(ChildId),
    /// It is ending.
    #[error("{0} is ending and reads no more messages; its result comes in the usual way")]
    Ending(ChildId),
    /// There is nothing to say.
    #[error("the message is empty; say what the subagent should do differently")]
    Blank,
    /// The text is too long.
    #[error(
        "the message has {bytes} bytes and at most {bytes_max} are taken; say it shorter, or put it into a file and name that"
    )]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The child has not read what was said before.
    #[error(
        "{waiting} messages wait for {child} already and at most {waiting_max} may; nothing was said. Wait until it has read them, or stop it"
    )]
    Full {
        /// The child.
        child: ChildId,
        /// Messages that wait for it.
        waiting: usize,
        /// The limit.
        waiting_max: usize,
    },
    /// The store could not record it.
    #[error("the message could not be recorded: {0}; nothing was said, and saying it again is safe")]
    Store(String),
    /// The engine has ended.
    #[error("the engine is shutting down; nothing was said")]
    Closed,
}

/// The settled results of a delegation, claimed by the caller.
#[derive(Debug, Clone, PartialEq)]
pub struct Joined {
    /// The delegation with all children settled.
    pub record: DelegationRecord,
    /// The claims to acknowledge, one a unit that was not delivered before.
    pub claims: Vec<ClaimId>,
    /// What was said to its children too late for them to read, in the order in which it was said (CTRL-11).
    pub missed: Vec<(ChildId, String)>,
    /// What its children have sent out themselves, with what of it they had not read.
    pub below: Below,
}

impl Joined {
    /// What one of the children has missed.
    pub fn missed_by(&self, child: &ChildId) -> Vec<&str> {
        self.missed.iter().filter(|(id, _)| id == child).map(|(_, text)| text.as_str()).collect()
    }
}

/// Why a join gave no results.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JoinError {
    /// There is no such delegation here.
    #[error("there is no delegation {0} in this process")]
    Unknown(DelegationId),
    /// The process that ran it is dead, and this one could not go on with it.
    #[error(
        "the process that ran {0} has died and nobody goes on with it yet; `legwork ps` says what is lacking"
    )]
    Orphaned(DelegationId),
    /// The store could not be read or written.
    #[error("the results could not be stored or read: {0}; what is stored is kept, see `legwork results`")]
    Store(#[from] StoreError),
    /// The store took nothing of it for too long, so that it was given up here; the reason. Whoever asks for it again begins it
    /// again.
    #[error(
        "the results could not be stored, and the work was given up here: {0}; what is stored is kept, see `legwork results`"
    )]
    GivenUp(String),
    /// The engine ended before all children had settled.
    #[error("the engine is shutting down; finished results are kept, see `legwork results`")]
    Closed,
}

/// The answer to a stop.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stopped {
    /// The children that were told to end, or ended before they began.
    pub children: Vec<ChildId>,
    /// Why the store did not take that, if it did not: those of another process were not told, and those of this one end with
    /// this attempt only.
    pub untold: Option<String>,
}

/// The children of one conversation that have not settled.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionView {
    /// Those of this process first.
    pub children: Vec<ChildView>,
    /// Why those of other processes are lacking, if they are: the store could not be read.
    pub unreadable: Option<String>,
}

/// Which process runs a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Runner {
    /// This one.
    #[default]
    Here,
    /// Another one, which lives as far as can be told.
    Elsewhere {
        /// Its process id.
        pid: u32,
    },
    /// One that has died; whoever goes on with the work runs it then.
    Nobody,
}

/// One child as a live view shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildView {
    /// The delegation.
    pub delegation: DelegationId,
    /// The conversation that owns its results.
    pub session: SessionId,
    /// The child that delegated to it, when that was not the conversation's own agent.
    pub parent: Option<ChildId>,
    /// The child.
    pub child: ChildId,
    /// Its task's position in the call.
    pub task_index: usize,
    /// How many tasks the call has.
    pub task_count: usize,
    /// Its goal.
    pub goal: String,
    /// The model it was given.
    pub model: String,
    /// Its transcript, if it has one.
    pub transcript: Option<String>,
    /// Where it stands.
    pub state: ChildState,
    /// Who runs it.
    pub runner: Runner,
    /// Its counted facts.
    pub pulse: Pulse,
    /// How long its attempts took together, by clocks that only go forward; frozen when it settled.
    pub elapsed: Duration,
    /// Since its pulse last moved.
    pub quiet: Duration,
}

impl ChildView {
    /// The view of a child of which nothing is known but what was accepted: it waits, here, and nothing has moved.
    /// Whoever sees more of it says so.
    ///
    /// `task_index` is the position of a task of `accepted`.
    #[must_use]
    pub fn accepted(accepted: &Accepted, task_index: usize, child: ChildId) -> ChildView {
        ChildView {
            delegation: accepted.delegation.clone(),
            session: accepted.lineage.session.clone(),
            parent: accepted.lineage.parent.clone(),
            child,
            task_index,
            task_count: accepted.tasks.len(),
            goal: accepted.tasks[task_index].goal.clone(),
            model: accepted.model_of(task_index).to_owned(),
            transcript: accepted.transcripts.get(task_index).filter(|path| !path.is_empty()).cloned(),
            state: ChildState::NEW,
            runner: Runner::Here,
            pulse: Pulse::default(),
            elapsed: Duration::ZERO,
            quiet: Duration::ZERO,
        }
    }
}
