//! Callers that wait for an answer of the dispatcher.

use crate::book::ReplyTo;
use legwork_core::batch::Ticket;
use legwork_core::ids::{CallKey, ChildId, DelegationId, RequestId, UnitId};
use legwork_core::ports::{DispatchError, StopNotice, Stopped};
use legwork_core::steering::Scope;
use std::collections::HashMap;
use tokio::sync::oneshot;

/// Where the answer to a call goes.
pub(super) type Caller = oneshot::Sender<Result<Ticket, DispatchError>>;

#[derive(Default)]
pub(super) struct Waiting {
    next_reply: u64,
    dispatches: HashMap<ReplyTo, Undecided>,
    pub(super) stops: HashMap<ReplyTo, Stopper>,
    pub(super) joins: HashMap<DelegationId, Vec<oneshot::Sender<Result<(), String>>>>,
    pub(super) unit_joins: HashMap<UnitId, Vec<oneshot::Sender<Result<(), String>>>>,
    pub(super) slots: HashMap<ChildId, oneshot::Sender<Result<(), StopNotice>>>,
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
    key: Option<CallKey>,
    /// Whoever made it, again and again where its key is the same.
    callers: Vec<Caller>,
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

    /// A call is made. `None` when it is under way already: whatever becomes of that is told to this caller too.
    pub(super) fn call(&mut self, key: Option<&CallKey>, caller: Caller) -> Option<ReplyTo> {
        let same = |undecided: &&mut Undecided| key.is_some() && undecided.key.as_ref() == key;
        if let Some(first) = self.dispatches.values_mut().find(same) {
            first.callers.push(caller);
            return None;
        }
        let reply = self.new_reply();
        self.dispatches.insert(reply, Undecided { key: key.cloned(), callers: vec![caller] });
        Some(reply)
    }

    /// The call is decided. Callers that went away need no answer.
    pub(super) fn decide(&mut self, reply: ReplyTo, answer: &Result<Ticket, DispatchError>) {
        for caller in self.dispatches.remove(&reply).into_iter().flat_map(|undecided| undecided.callers) {
            caller.send(answer.clone()).ok();
        }
    }
}
