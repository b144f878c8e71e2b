//! The journal of one agent: what makes a child resumable. Intent is stored before a model call or a tool call begins,
//! the result after it, and as many of them as possible in one commit.
//!
//! It owns the sequence numbers of its actor. It does not decide what is done next; the turn loop does.

mod recorded;

use crate::session::History;
use legwork_core::ids::ClaimId;
use legwork_core::message::{Message, ToolResult};
use legwork_core::ports::{Steps, StoreError, WriteSteps};
use legwork_core::step::{Action, Actor, Fence, Product, Reply, StepChange};
use legwork_core::time::Timestamp;
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub use recorded::Recorded;

/// What begins in the commit that ends something else.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Another model call.
    Model,
    /// These tool calls, side by side.
    Tools(Vec<Action>),
    /// Nothing: the turn is over.
    Nothing,
}

/// What a group of tool calls brought, in the order in which the calls were begun.
#[derive(Debug, Default)]
pub struct Outputs {
    /// One result for each begun call.
    pub results: Vec<ToolResult>,
    /// Claims whose results they carry; they are acknowledged in the same commit.
    pub acknowledge: Vec<ClaimId>,
}

/// Writes one actor's journal. Every method is one commit, and what it answers with `Ok` is durable. After an error
/// nothing more may be asked or run: what was begun could no longer be recorded.
pub struct Journal {
    store: Arc<dyn Steps>,
    actor: Actor,
    fence: Fence,
    /// The next free sequence number.
    next: u32,
    /// The steps that were begun and have not ended.
    open: Range<u32>,
    /// The conversation that grows along with the journal, for the agent of a session.
    history: Option<History>,
}

impl Journal {
    /// The journal of an actor that has done nothing yet.
    pub fn fresh(store: Arc<dyn Steps>, actor: Actor, fence: Fence) -> Self {
        Journal { store, actor, fence, next: 0, open: 0..0, history: None }
    }

    /// The journal of an actor that may have run before, with what it recorded then.
    ///
    /// # Errors
    /// [`StoreError`] when the steps cannot be read.
    pub async fn open(
        store: Arc<dyn Steps>,
        actor: Actor,
        fence: Fence,
    ) -> Result<(Self, Recorded), StoreError> {
        let steps = store.steps(&actor).await?;
        let next = steps.last().map_or(0, |step| step.seq + 1);
        let journal = Journal { next, open: next..next, ..Journal::fresh(store, actor, fence) };
        Ok((journal, Recorded::fold(steps)))
    }

    /// Lets a conversation grow along with this journal.
    pub(crate) fn with_history(mut self, history: History) -> Self {
        self.history = Some(history);
        self
    }

    /// Fixes the first messages and begins what comes next.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is stored then.
    pub async fn begin(&mut self, opening: &[Arc<Message>], next: Next) -> Result<(), StoreError> {
        let opened = opening.iter().map(|message| Message::clone(message)).collect();
        let mut changes = Vec::with_capacity(3);
        self.intend(&mut changes, Next::Tools(vec![Action::Open]));
        self.finish(&mut changes, [Product::Opened(opened)]);
        self.intend(&mut changes, next);
        self.commit(changes, Vec::new()).await
    }

    /// Ends the model call with its reply and begins what comes next. An answer becomes part of the conversation.
    ///
    /// # Errors
    /// [`StoreError`]; nothing of it is stored then.
    pub async fn replied(&mut self, reply: Reply, next: Next) -> Result<(), StoreError> {
        if let Some(history) = &mut self.history {
            history.replied(&reply.message).await?;
        }
        let mut changes = Vec::with_capacity(2);
        self.finish(&mut changes, [Product::Reply(reply)]);
        self.intend(&mut changes, next);
        self.commit(changes, Vec::new()).await
    }

    /// Ends the begun tool calls and begins what comes next. When those were the last calls of a reply, the reply and
    /// all its results become part of the conversation, and the claims are acknowledged with that.
    ///
    /// # Errors
    /// [`StoreError`]; nothing of it is stored then.
    pub async fn ran(&mut self, outputs: Outputs, next: Next) -> Result<(), StoreError> {
        let Outputs { results, mut acknowledge } = outputs;
        debug_assert_eq!(results.len(), self.open.len(), "BUG: every begun call has one result");
        if let Some(history) = &mut self.history {
            history.ran(&results, std::mem::take(&mut acknowledge));
            if !matches!(next, Next::Tools(_)) {
                history.keep_exchange().await?;
            }
        }
        let mut changes = Vec::with_capacity(results.len() + 1);
        self.finish(&mut changes, results.into_iter().map(Product::Output));
        self.intend(&mut changes, next);
        self.commit(changes, acknowledge).await
    }

    /// Ends the model call without a reply.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is stored then.
    pub async fn failed(&mut self, error: &str) -> Result<(), StoreError> {
        let open = std::mem::replace(&mut self.open, self.next..self.next);
        let changes = open.map(|seq| StepChange::Fail { seq, error: error.to_owned() }).collect();
        self.commit(changes, Vec::new()).await
    }

    fn intend(&mut self, changes: &mut Vec<StepChange>, next: Next) {
        let actions = match next {
            Next::Model => vec![Action::Model],
            Next::Tools(actions) => actions,
            Next::Nothing => Vec::new(),
        };
        let first = self.next;
        for action in actions {
            changes.push(StepChange::Intend { seq: self.next, action });
            self.next += 1;
        }
        self.open = first..self.next;
    }

    fn finish(&mut self, changes: &mut Vec<StepChange>, products: impl IntoIterator<Item = Product>) {
        let open = std::mem::replace(&mut self.open, self.next..self.next);
        changes.extend(open.zip(products).map(|(seq, product)| StepChange::Finish { seq, product }));
    }

    async fn commit(&self, changes: Vec<StepChange>, acknowledge: Vec<ClaimId>) -> Result<(), StoreError> {
        let write = WriteSteps {
            actor: self.actor.clone(),
            fence: self.fence.clone(),
            at: wall_clock(),
            changes,
            acknowledge,
            turn: None,
            seen: Vec::new(),
        };
        self.store.write_steps(write).await
    }
}

/// The wall clock, for times that are stored and shown; no decision depends on it.
pub(crate) fn wall_clock() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
