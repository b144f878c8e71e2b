//! The journal of one agent: what makes a child resumable. Intent is stored before a model call or a tool call begins,
//! the result after it, and as many of them as possible in one commit. The conversation of a session grows in the same
//! commits, in whole legal records: after a kill at any byte what is stored may be sent to a strict provider as it is
//! (K43).
//!
//! It owns the sequence numbers of its actor. It does not decide what is done next; the turn loop does.

mod exchange;
mod recorded;
mod stored;

use crate::models::Link;
use crate::patience::Patience;
use crate::session::History;
use exchange::Exchange;
use legwork_core::ids::{ClaimId, RequestId};
use legwork_core::message::{Message, ToolResult};
use legwork_core::ports::{Steps, StoreError, WriteSteps};
use legwork_core::step::{Action, Actor, Fence, Product, Reply, StepChange, Summarised};
use legwork_core::time::Timestamp;
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub use recorded::{OpenExchange, Recorded};

/// What begins in the commit that ends something else.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Another model call, which reads what was said meanwhile.
    Model(Option<Said>),
    /// A summary of earlier messages, before the model call that reads what was said meanwhile.
    Compact(Option<Said>),
    /// These tool calls, side by side.
    Tools(Vec<Action>),
    /// Nothing: the turn is over. A session's conversation may close with a remark of ours.
    End(Option<Message>),
}

/// What was said to the running agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// The step that takes it in: what others said, or what legwork asks to be corrected.
    pub action: Action,
    /// What the agent reads.
    pub message: Message,
}

/// What a group of tool calls brought.
#[derive(Debug, Default)]
pub struct Outputs {
    /// How each of the begun calls ended, in the order in which they were begun.
    pub ended: Vec<Ended>,
    /// Later calls of the same reply that are not begun any more, with what is said of them.
    pub never_begun: Vec<(Action, ToolResult)>,
    /// Claims whose results they carry; they are acknowledged in the same commit, or for a session in the one that makes
    /// the results part of the conversation.
    pub acknowledge: Vec<ClaimId>,
}

/// How a begun tool call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// With this result.
    Output(ToolResult),
    /// In the middle; this is what the model is told of it. Its step counts as failed.
    CutOff(ToolResult),
}

impl Ended {
    /// What the model reads.
    pub fn result(&self) -> &ToolResult {
        match self {
            Ended::Output(result) | Ended::CutOff(result) => result,
        }
    }
}

/// Writes one actor's journal. Every method is one commit, and what it answers with `Ok` is durable. A store in trouble is
/// offered the same commit again for as long as the journal has patience. After an error nothing more may be asked or run:
/// what was begun could no longer be recorded.
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
    /// The reply whose calls have not all ended.
    exchange: Exchange,
    patience: Patience,
    /// Why the last commit was not made: what is here may not be what is stored.
    lost: Option<StoreError>,
}

/// What one commit holds.
#[derive(Default)]
struct Commit {
    changes: Vec<StepChange>,
    /// What the conversation of a session grows by.
    grown: Vec<Message>,
    acknowledge: Vec<ClaimId>,
    seen: Vec<(RequestId, u32)>,
}

impl Journal {
    /// The journal of an actor that has done nothing yet.
    pub fn fresh(store: Arc<dyn Steps>, actor: Actor, fence: Fence) -> Self {
        let (exchange, patience) = (Exchange::default(), Patience::none());
        Journal { store, actor, fence, next: 0, open: 0..0, history: None, exchange, patience, lost: None }
    }

    /// The journal of an actor that may have run before, with what it recorded then: a child's whole run, or the last
    /// turn of a session.
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
        let recorded = Recorded::fold(steps);
        let first = recorded.unfinished.first().map_or(next, |step| step.seq);
        // A switch of models may stand behind the call that was under way.
        let open = first..recorded.unfinished.last().map_or(next, |step| step.seq + 1);
        let exchange = recorded.exchange.as_ref().map(Exchange::reopened).unwrap_or_default();
        let journal = Journal { next, open, exchange, ..Journal::fresh(store, actor, fence) };
        Ok((journal, recorded))
    }

    /// The number of the step that begins next.
    pub(crate) fn next_step(&self) -> u32 {
        self.next
    }

    /// From now on a store in trouble is waited for like this.
    pub(crate) fn be_patient(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// Why the last commit was not made, if it was not. What is in memory may not be what is stored then.
    pub(crate) fn lost(&self) -> Option<&StoreError> {
        self.lost.as_ref()
    }

    /// Takes the claims of results that an exchange which was cut off carries already.
    pub(crate) fn hold(&mut self, claims: Vec<ClaimId>) {
        self.exchange.hold(claims);
    }

    /// Takes out the claims of results that are not part of the conversation: nobody acknowledges them here any more.
    pub(crate) fn let_go(&mut self) -> Vec<ClaimId> {
        self.exchange.let_go()
    }

    /// Lets a conversation grow along with this journal.
    pub(crate) fn with_history(mut self, history: History) -> Self {
        self.history = Some(history);
        self
    }

    /// Begins a run or a turn: fixes the first messages of a child, or marks the beginning of a session's turn when there
    /// are none.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is stored then.
    pub async fn begin(&mut self, opening: &[Arc<Message>], next: &Next) -> Result<(), StoreError> {
        let opened = opening.iter().map(|message| Message::clone(message)).collect();
        let mut commit = Commit::default();
        self.intend(&mut commit, [Action::Open]);
        self.finish(&mut commit, [Product::Opened(opened)]);
        self.onward(&mut commit, next);
        self.write(commit).await
    }

    /// Ends the model call with its reply and begins what comes next. An answer becomes part of the conversation; a reply
    /// with calls waits for their results, and one that says nothing is left out, since no provider takes it back.
    ///
    /// # Errors
    /// [`StoreError`]; nothing of it is stored then.
    pub async fn replied(&mut self, reply: Reply, next: &Next) -> Result<(), StoreError> {
        let mut commit = Commit::default();
        if says_something(&reply.message) {
            if reply.message.calls().next().is_some() {
                self.exchange = Exchange::of(reply.message.clone());
            } else {
                commit.grown.push(reply.message.clone());
            }
        }
        self.finish(&mut commit, [Product::Reply(reply)]);
        self.onward(&mut commit, next);
        self.write(commit).await
    }

    /// Ends the begun tool calls and begins what comes next. When those were the last calls of a reply, the reply and
    /// all its results become part of the conversation.
    ///
    /// # Errors
    /// [`StoreError`]; nothing of it is stored then.
    pub async fn ran(&mut self, outputs: Outputs, next: &Next) -> Result<(), StoreError> {
        let Outputs { ended, never_begun, acknowledge } = outputs;
        debug_assert_eq!(ended.len(), self.open.len(), "BUG: every begun call has one result");
        let results = ended.iter().map(Ended::result).chain(never_begun.iter().map(|(_, result)| result));
        self.exchange.ran(results.cloned());
        let mut commit = Commit::default();
        for (seq, ended) in self.take_open().zip(ended) {
            commit.changes.push(match ended {
                Ended::Output(result) => StepChange::Finish { seq, product: Product::Output(result) },
                Ended::CutOff(result) => StepChange::Fail { seq, error: result.content },
            });
        }
        for (action, result) in never_begun {
            self.intend(&mut commit, [action]);
            self.finish(&mut commit, [Product::Output(result)]);
        }
        match (&self.history, self.exchange.is_whole()) {
            (None, _) => commit.acknowledge = acknowledge,
            (Some(_), false) => self.exchange.hold(acknowledge),
            (Some(_), true) => {
                self.exchange.hold(acknowledge);
                let (messages, claims) = std::mem::take(&mut self.exchange).whole();
                commit.grown.extend(messages);
                commit.acknowledge = claims;
            }
        }
        self.onward(&mut commit, next);
        self.write(commit).await
    }

    /// Ends the summary and begins what comes next. The summary becomes part of the conversation, and what it took is
    /// counted with it.
    ///
    /// # Errors
    /// [`StoreError`]; nothing of it is stored then.
    pub async fn compacted(&mut self, summary: Summarised, next: &Next) -> Result<(), StoreError> {
        let mut commit = Commit { grown: vec![summary.message.clone()], ..Commit::default() };
        self.finish(&mut commit, [Product::Compacted(summary)]);
        self.onward(&mut commit, next);
        self.write(commit).await
    }

    /// Notes which model of the chain is asked from now on, before it is. What is under way stays so.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is stored then.
    pub(crate) async fn switched(&mut self, link: Link) -> Result<(), StoreError> {
        let (seq, Link { place, model }) = (self.next, link);
        self.next += 1;
        let intend = StepChange::Intend { seq, action: Action::Switch { place, model } };
        let finish = StepChange::Finish { seq, product: Product::Switched };
        self.write(Commit { changes: vec![intend, finish], ..Commit::default() }).await
    }

    /// Ends what was begun without a result, and begins what comes next.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is stored then.
    pub async fn failed(&mut self, error: &str, next: &Next) -> Result<(), StoreError> {
        let mut commit = Commit::default();
        let fail = |seq| StepChange::Fail { seq, error: error.to_owned() };
        commit.changes.extend(self.take_open().map(fail));
        self.onward(&mut commit, next);
        self.write(commit).await
    }

    /// Lets the conversation of a session grow by messages that no step brings, such as a user's, and acknowledges the
    /// claims that they carry.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is stored then.
    pub(crate) async fn append(
        &mut self,
        messages: Vec<Message>,
        acknowledge: Vec<ClaimId>,
    ) -> Result<(), StoreError> {
        match &mut self.history {
            Some(history) => history.append(messages, acknowledge).await,
            None => Err(StoreError::Conflict("this agent has no conversation of its own".to_owned())),
        }
    }

    /// Begins what comes next, after the step that takes in what was said meanwhile.
    fn onward(&mut self, commit: &mut Commit, next: &Next) {
        match next {
            Next::Model(said) => {
                self.take_in(commit, said.as_ref());
                self.intend(commit, [Action::Model]);
            }
            Next::Compact(said) => {
                self.take_in(commit, said.as_ref());
                self.intend(commit, [Action::Compact]);
            }
            Next::Tools(actions) => self.intend(commit, actions.iter().cloned()),
            Next::End(remark) => commit.grown.extend(remark.clone()),
        }
    }

    fn take_in(&mut self, commit: &mut Commit, said: Option<&Said>) {
        let Some(Said { action, message }) = said else { return };
        if let Action::Steer { requests } = action {
            commit.seen.extend(requests.iter().map(|request| (request.clone(), self.next)));
        }
        self.intend(commit, [action.clone()]);
        self.finish(commit, [Product::Steered(message.clone())]);
        commit.grown.push(message.clone());
    }

    fn intend(&mut self, commit: &mut Commit, actions: impl IntoIterator<Item = Action>) {
        let first = self.next;
        for action in actions {
            commit.changes.push(StepChange::Intend { seq: self.next, action });
            self.next += 1;
        }
        self.open = first..self.next;
    }

    fn finish(&mut self, commit: &mut Commit, products: impl IntoIterator<Item = Product>) {
        let finished = self.take_open().zip(products);
        commit.changes.extend(finished.map(|(seq, product)| StepChange::Finish { seq, product }));
    }

    fn take_open(&mut self) -> Range<u32> {
        std::mem::replace(&mut self.open, self.next..self.next)
    }

    async fn write(&mut self, commit: Commit) -> Result<(), StoreError> {
        let Commit { changes, grown, acknowledge, seen } = commit;
        let growth = grown.len() as u64;
        if changes.is_empty() && growth == 0 {
            return Ok(());
        }
        let turn = self.history.as_ref().filter(|_| growth > 0).map(|history| history.turn(grown));
        let (actor, fence) = (self.actor.clone(), self.fence.clone());
        let write = WriteSteps { actor, fence, at: wall_clock(), changes, acknowledge, turn, seen };
        let stored = self.offer(&write).await;
        self.lost = stored.clone().err();
        stored?;
        if let Some(history) = &mut self.history {
            history.grew(growth);
        }
        Ok(())
    }

    /// Offers a commit until it is stored or patience is over. One that failed after the fact is refused when it is offered
    /// again, so that it is stored once.
    async fn offer(&self, write: &WriteSteps) -> Result<(), StoreError> {
        let mut trial = self.patience.begin();
        loop {
            let error = match self.store.write_steps(write.clone()).await {
                Ok(()) => return Ok(()),
                Err(refused @ StoreError::Conflict(_)) if trial.has_failed() => match self.has(write).await {
                    Ok(true) => return Ok(()),
                    Ok(false) => refused,
                    Err(unreadable) => unreadable,
                },
                Err(error) => error,
            };
            trial.failed(error).await?;
        }
    }

    /// Whether a commit is stored already.
    async fn has(&self, write: &WriteSteps) -> Result<bool, StoreError> {
        match (&self.history, &write.turn) {
            (Some(history), Some(turn)) if write.changes.is_empty() => history.holds(turn).await,
            (Some(_) | None, Some(_) | None) => {
                let steps = self.store.steps(&self.actor).await?;
                Ok(write.changes.iter().all(|change| stored::holds(&steps, change)))
            }
        }
    }
}

/// Whether a provider would take the message back.
pub(crate) fn says_something(message: &Message) -> bool {
    message.calls().next().is_some() || !message.plain_text().trim().is_empty()
}

/// The wall clock, for times that are stored and shown; no decision depends on it.
pub(crate) fn wall_clock() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
