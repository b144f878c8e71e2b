//! What stands behind the terminal: the conversation and the engine, as far as the terminal asks them for anything.

use legwork_agent::session::SayError;
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::ports::{Pending, SessionView};

/// Whom a stop is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// One subagent and everything below it.
    One(ChildId),
    /// All subagents of the conversation, in whichever process they run.
    All,
    /// Those of them that run in this process.
    Here,
}

/// The conversation and the engine. Texts in answers are for people; an `Err` says why nothing was done.
pub trait Host: Send + Sync {
    /// Says something to the agent. It becomes a turn once those before it have ended.
    ///
    /// # Errors
    /// [`SayError`]; the message was not taken then.
    fn say(&self, text: String) -> Result<(), SayError>;

    /// Ends the turn that runs, and no subagent.
    fn stop_turn(&self);

    /// Another model answers from the next turn on; gives the name under which it is known.
    fn use_model(&self, name: String) -> Pending<'_, Result<String, String>>;

    /// The subagents of the conversation that have not ended, in whichever process they run.
    fn children(&self) -> Pending<'_, SessionView>;

    /// Tells a subagent something.
    fn steer(&self, child: ChildId, text: String) -> Pending<'_, Result<String, String>>;

    /// Stops subagents, and says how many were told to end.
    fn stop(&self, whom: Whom) -> Pending<'_, Result<String, String>>;

    /// Starts a process that goes on with the subagents of the conversation once this one has ended, and says so. Until then
    /// they run here.
    fn leave_to_worker(&self) -> Pending<'_, Result<String, String>>;

    /// The conversations of this folder, a line each.
    fn sessions(&self) -> Pending<'_, Result<Vec<String>, String>>;

    /// The end of a subagent's transcript.
    fn transcript(&self, child: ChildId) -> Pending<'_, Result<Vec<String>, String>>;

    /// Whether nothing is going on any more: no subagent runs, no result is about to come in, and the conversation is idle. What
    /// it told before is in the feed by then, and may not have been taken from there.
    ///
    /// # Errors
    /// Why that cannot be told.
    fn is_settled(&self) -> Pending<'_, Result<bool, String>>;

    /// The delegations of this process whose results wait for the conversation and were not told in it. Where nothing is going
    /// on any more they do not come in by themselves.
    ///
    /// # Errors
    /// Why that cannot be told.
    fn untold(&self) -> Pending<'_, Result<Vec<DelegationId>, String>>;
}
