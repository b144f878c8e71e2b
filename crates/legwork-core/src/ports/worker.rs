//! Port `Worker`: runs one child. Asked by the engine's runner, answered by the agent.

use super::{Pending, StoreError};
use crate::batch::{Setting, Task};
use crate::ids::{ChildId, DelegationId, RequestId, SessionId};
use crate::outcome::{Force, StopReason};
use crate::pulse::{LineEvent, Pulse};
use crate::report::Report;
use crate::step::Fence;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Carries out assignments.
pub trait Worker: Send + Sync {
    /// Does the work and reports. The worker listens to its line: it ends at the next boundary when asked to.
    ///
    /// Dropping the future ends the run where it is; nothing it started may go on after that.
    ///
    /// # Errors
    /// [`Unrecorded`] when the store took nothing for longer than the worker has patience. Nothing is concluded of the
    /// child then: it stays open, for the next owner of its work to go on with.
    fn work(
        &self,
        assignment: Assignment,
        line: Arc<dyn Line>,
    ) -> Pending<'static, Result<Report, Unrecorded>>;

    /// What is not there in this process that a child with this setting needs, such as the key of its model; in words for
    /// the person who configures it. Work of a dead process is taken over only where nothing is lacking.
    fn lacks(&self, setting: &Setting) -> Option<String>;

    /// Tidies up after a run and completes its report by what is left of it: its worktree, its processes. It is called
    /// once after each run of [`Worker::work`], however that ended, also when it was dropped, and takes a bounded time. A
    /// process that dies does not call it, nor one whose runtime ends before.
    fn close(&self, _assignment: Assignment, end: RunEnd, _line: Arc<dyn Line>) -> Pending<'static, Report> {
        Box::pin(std::future::ready(end.report))
    }
}

/// Why a run ended without an end that counts: the store was in trouble for too long. Its journal is whole up to there, and
/// whoever owns the work next goes on from that.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("what the subagent did could not be recorded: {0}")]
pub struct Unrecorded(pub StoreError);

/// How a run ended, for the worker that tidies up after it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// What it handed in, or what its journal says; a failure of the store when it could not be recorded.
    pub report: Report,
    /// The stop that it was told, if any.
    pub stop: Option<StopNotice>,
    /// What was counted of it.
    pub pulse: Pulse,
    /// How long it ran.
    pub ran: Duration,
    /// How long it may be without progress in the phase that it was in, where the supervisor ended it for that.
    pub limit: Option<Duration>,
}

/// What one child is to do, and with what.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The child.
    pub child: ChildId,
    /// Its delegation.
    pub delegation: DelegationId,
    /// The conversation that owns the results.
    pub session: SessionId,
    /// The child whose model asked for it, when it was not the conversation's own.
    pub parent: Option<ChildId>,
    /// The task's position in its call.
    pub task_index: usize,
    /// The task.
    pub task: Task,
    /// The child's own depth: 1 for a child of a session.
    pub depth: u32,
    /// Which run of the child this is, from 1.
    pub attempt: u32,
    /// Who may write the child's journal.
    pub fence: Fence,
    /// Folder, model, rights and allowance.
    pub setting: Setting,
}

/// The child's line to the engine.
pub trait Line: Send + Sync {
    /// Tells what happened. It never waits for a reader, and a watcher may miss some; it may wait for the disk, as
    /// [`Transcripts::append`](super::Transcripts::append) says.
    fn tell(&self, event: LineEvent);

    /// Resolves once the child is asked to stop, and at once when it was asked before.
    fn stopped(&self) -> Pending<'_, StopNotice>;

    /// What was said to the child since the last time, in order. Whoever takes it stores it as seen.
    fn steered(&self) -> Vec<Steer>;

    /// Gives the slot back while the child waits for its own children.
    fn park(&self) -> Pending<'_, ()>;

    /// Waits for a slot after [`Line::park`].
    ///
    /// # Errors
    /// The stop that came instead of the slot.
    fn unpark(&self) -> Pending<'_, Result<(), StopNotice>>;
}

/// Something that was said to a running child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steer {
    /// The request that carries it.
    pub request: RequestId,
    /// What was said.
    pub text: String,
}

/// A stop as the child sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopNotice {
    /// Why.
    pub reason: StopReason,
    /// How hard.
    pub force: Force,
}
