//! Callers that wait for an answer of the dispatcher.

use crate::book::ReplyTo;
use crate::handle::other_call;
use legwork_core::batch::{NewBatch, Task, Ticket};
use legwork_core::ids::{CallKey, ChildId, DelegationId, RequestId, UnitId};
use legwork_core::ports::{DispatchError, StopNotice, Stopped};
use legwork_core::steering::Scope;
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// Where the answer to a call goes.
pub(super) type Caller = oneshot::Sender<Result<Ticket, DispatchError>>;

#[derive(Default)]
pub(super) struct Waiting {
    next_reply: u64,
    dispatches: BTreeMap<ReplyTo, Undecided>,
    pub(super) stops: BTreeMap<ReplyTo, Stopper>,
    pub(super) joins: BTreeMap<DelegationId, Vec<oneshot::Sender<Result<(), String>>>>,
    pub(super) unit_joins: BTreeMap<UnitId, Vec<oneshot::Sender<Result<(), String>>>>,
    pub(super) slots: BTreeMap<ChildId, oneshot::Sender<Result<(), StopNotice>>>,
}

/// Who wanted a stop.
pub(super) enum Stopper {
    /// Somebody in this process, who is told what it reached.
    Caller(oneshot::Sender<Stopped>),
    /// Another process, by this request, which is aimed at this.
    Request(RequestId, Scope),
}

/// A call that is neither refused nor durable yet.
struct Undecided {
    /// What makes it one and the same, with what it asks for.
    repeatable: Option<(CallKey, Vec<Task>)>,
    /// Whoever made it.
    callers: Vec<Caller>,
    /// Whoever came later under the same key, with what they ask for.
    later: Vec<(Caller, Vec<Task>)>,
}

impl Waiting {
    pub(super) fn new_reply(&mut self) -> ReplyTo {
        self.next_reply += 1;
        ReplyTo(self.next_reply)
    }

    /// Somebody wants a stop.
    pub(super) fn stop(&mut self, stopper: Stopper) -> ReplyTo {
        let reply = self.new_reply();
        self.stops.insert(reply, stopper);
        reply
    }

    /// Whether somebody in this process waits for the answer to the stop.
    pub(super) fn is_stop_of_a_caller(&self, reply: ReplyTo) -> bool {
        matches!(self.stops.get(&reply), Some(Stopper::Caller(_)))
    }

    /// A call is made. `None` when one with its key is under way already: what becomes of that is told to this caller
    /// too, unless it asks for something else.
    pub(super) fn call(&mut self, batch: &NewBatch, caller: Caller) -> Option<ReplyTo> {
        let key = batch.call_key.as_ref();
        let same = |undecided: &&mut Undecided| {
            key.is_some() && undecided.repeatable.as_ref().map(|(known, _)| known) == key
        };
        if let Some(first) = self.dispatches.values_mut().find(same) {
            first.later.push((caller, batch.tasks.clone()));
            return None;
        }
        let reply = self.new_reply();
        let repeatable = key.map(|key| (key.clone(), batch.tasks.clone()));
        self.dispatches.insert(reply, Undecided { repeatable, callers: vec![caller], later: Vec::new() });
        Some(reply)
    }

    /// The call is decided. Callers that went away need no answer.
    pub(super) fn decide(&mut self, reply: ReplyTo, answer: &Result<Ticket, DispatchError>) {
        let Some(Undecided { repeatable, callers, later }) = self.dispatches.remove(&reply) else { return };
        for caller in callers {
            caller.send(answer.clone()).ok();
        }
        for (caller, now) in later {
            let other = match (answer, &repeatable) {
                (Ok(ticket), Some((key, first))) => other_call(key, &ticket.delegation, first, &now),
                (Ok(_) | Err(_), _) => None,
            };
            caller.send(other.map_or_else(|| answer.clone(), Err)).ok();
        }
    }
}
