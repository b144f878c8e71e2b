//! Carries out what the store told: stops and texts for children, the switch, and work that somebody took over.

use super::Dispatcher;
use super::commit::Refused;
use super::housekeeping::{self, Found};
use crate::book::Event;
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::ports::{AppendError, Steer, StopNotice};
use legwork_core::steering::{Request, Scope, Wish};

impl Dispatcher {
    pub(super) fn carry_out(&mut self, found: Found) {
        self.left(&found.left);
        for delegation in found.lost {
            let why = Refused::Append(AppendError::Stale(delegation.clone()));
            self.give_up(&delegation, &why, &mut Vec::new());
        }
        if let Some(paused) = found.paused {
            self.turn_gate(paused);
        }
        for request in found.requests {
            if housekeeping::is_ours(&request.scope, &self.book) {
                self.fulfil(request);
            }
        }
    }

    /// Another process took this one for dead, and the store takes nothing of it any more: its runs are dropped, and it
    /// begins nothing new (invariant 30).
    pub(super) fn be_gone(&mut self) {
        let mine: Vec<DelegationId> =
            self.book.delegations().map(|delegated| delegated.accepted.delegation.clone()).collect();
        tracing::warn!(
            delegations = mine.len(),
            "this process stood still for so long that another one has taken its work over; what it ran is dropped here"
        );
        for delegation in mine {
            let why = Refused::Append(AppendError::Stale(delegation.clone()));
            self.give_up(&delegation, &why, &mut Vec::new());
        }
        self.routes.close();
        self.step(Event::Released);
    }

    /// The switch was turned in this process, and that is stored.
    pub(super) fn turned(&mut self, paused: bool) {
        if self.chores.turn(paused) {
            self.turn_gate(paused);
        }
    }

    fn turn_gate(&mut self, paused: bool) {
        self.step(if paused { Event::Paused } else { Event::Resumed });
    }

    fn fulfil(&mut self, request: Request) {
        match (request.wish, request.scope) {
            (Wish::Stop { reason, force }, scope) => {
                if housekeeping::is_for_one_process(&scope) {
                    self.chores.carried_out(request.id);
                }
                self.step(Event::Stop { scope, notice: StopNotice { reason, force }, reply: None });
            }
            (Wish::Steer { text }, Scope::Child(child)) => {
                self.say(child, Steer { request: request.id, text });
            }
            (Wish::Steer { .. }, Scope::Delegation(_) | Scope::Unit(_) | Scope::Session(_) | Scope::All) => {
                tracing::warn!(request = %request.id, "BUG: a message is aimed at more than one subagent; nobody gets it")
            }
        }
    }

    /// Puts a text where the child finds it at its next step, also when its run has not begun. One that has settled
    /// reads nothing any more, and the commit of its end says that the text was missed.
    pub(super) fn say(&mut self, child: ChildId, steer: Steer) {
        if !self.has_settled(&child) {
            self.said.entry(child).or_default().add(steer);
        }
    }
}
