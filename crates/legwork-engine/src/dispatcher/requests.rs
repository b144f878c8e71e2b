//! Carries out what the store told: stops and texts for children, the switch, and work that somebody took over.

use super::Dispatcher;
use super::commit::Refused;
use super::housekeeping::{self, Found};
use super::waiting::Stopper;
use crate::book::{Effect, Event, ReplyTo};
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::ports::{AppendError, Pause, Steer, StopNotice, Stopped};
use legwork_core::steering::{Request, Scope, Wish};

impl Dispatcher {
    pub(super) fn carry_out(&mut self, found: Found) {
        self.left(&found.left);
        for delegation in found.lost {
            let why = Refused::Append(AppendError::Stale(delegation.clone()));
            self.give_up(&delegation, &why, &mut Vec::new());
        }
        if let Some(pause) = found.pause {
            self.turn_gate(pause);
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
    pub(super) fn turned(&mut self, pause: Pause) {
        if self.chores.turn(pause) {
            self.turn_gate(pause);
        }
    }

    fn turn_gate(&mut self, pause: Pause) {
        self.step(match pause {
            Pause::On => Event::Paused,
            Pause::Off => Event::Resumed,
        });
    }

    fn fulfil(&mut self, request: Request) {
        match (request.wish, request.scope) {
            (Wish::Stop { reason, force }, scope) => {
                let is_only_ours = housekeeping::is_for_one_process(&scope);
                let stopper = is_only_ours.then(|| Stopper::Request(request.id, scope.clone()));
                let reply = stopper.map(|stopper| self.waiting.stop(stopper));
                self.step(Event::Stop { scope, notice: StopNotice { reason, force }, reply });
            }
            (Wish::Steer { text }, Scope::Child(child)) => {
                self.say(child, Steer { request: request.id, text });
            }
            (Wish::Steer { .. }, Scope::Delegation(_) | Scope::Unit(_) | Scope::Session(_) | Scope::All) => {
                tracing::warn!(request = %request.id, "BUG: a message is aimed at more than one subagent; nobody gets it")
            }
        }
    }

    /// Nobody who asks for a stop in this process waits for a store in trouble: the answer says that it is not stored yet.
    pub(super) fn answer_stops_in_trouble(&mut self) {
        let Some(why) = self.commits.trouble() else { return };
        let waiting = &self.waiting;
        for effect in self.commits.take_stops(|reply| waiting.is_stop_of_a_caller(reply)) {
            if let Effect::Stopped(reply, children) = effect {
                self.stopped(reply, children, Some(why.clone()));
            }
        }
    }

    /// Everything that a stop did is recorded, or will not be, and why. One that another process asked for counts as carried
    /// out only when it is recorded: it is for the next owner otherwise, who looks for what is open (invariant 11).
    pub(super) fn stopped(&mut self, reply: ReplyTo, children: Vec<ChildId>, untold: Option<String>) {
        match self.waiting.stops.remove(&reply) {
            // A caller that went away while it waited needs no answer.
            Some(Stopper::Caller(caller)) => drop(caller.send(Stopped { children, untold })),
            Some(Stopper::Request(request, scope))
                if untold.is_none() && housekeeping::is_ours(&scope, &self.book) =>
            {
                self.chores.carried_out(request);
            }
            // What was given up meanwhile is not of this process any more.
            Some(Stopper::Request(..)) | None => {}
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
