//! What can happen in a world, and how often it does.

mod calls;
mod commits;
mod moves;

use super::account::Gate;
use super::law::Broken;
use super::runner::Mood;
use super::world::World;
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::StopNotice;
use legwork_core::steering::Scope;
use legwork_core::time::{Moment, Timestamp};
use legwork_engine::book::{Event, ReplyTo};

impl World {
    /// One thing happens.
    pub(super) fn act(&mut self) -> Result<(), Broken> {
        self.pass(0, 50);
        let roll = self.chance.below(100);
        match roll {
            0..8 => self.call(),
            8..58 => self.move_some_runner(Mood::Free),
            58..78 => self.commit(),
            _ if !self.chance.once_in(self.terms.trouble_in) => self.move_some_runner(Mood::Free),
            78..86 => self.let_time_pass(),
            86..91 => self.stop_something(),
            91..94 => self.turn_gate(),
            94..97 => {
                self.forget_something();
                Ok(())
            }
            _ => {
                self.jump_wall_clock();
                Ok(())
            }
        }
    }

    /// Both clocks go on.
    fn pass(&mut self, low: usize, high: usize) {
        let passed = self.chance.between(low, high) as u64;
        self.now.mono = Moment(self.now.mono.0 + passed);
        self.now.wall = Timestamp(self.now.wall.0 + passed.cast_signed());
    }

    /// Somebody sets the wall clock, back or forth.
    fn jump_wall_clock(&mut self) {
        let jump = self.chance.below(20_000_000) as i64 - 10_000_000;
        self.now.wall = Timestamp(self.now.wall.0 + jump);
    }

    /// Time goes by, a little, up to the next deadline, or very much; then the clock strikes.
    pub(super) fn let_time_pass(&mut self) -> Result<(), Broken> {
        match (self.chance.below(4), self.book.next_deadline()) {
            (0, Some(due)) => self.jump_to(due),
            // A moment too early must change nothing.
            (1, Some(due)) => self.jump_to(Moment(due.0.saturating_sub(1))),
            (2, _) => self.pass(0, 100_000),
            (_, _) => self.pass(0, 2_000),
        }
        self.strike()
    }

    pub(super) fn jump_to(&mut self, moment: Moment) {
        let passed = moment.0.saturating_sub(self.now.mono.0);
        self.now.mono = Moment(self.now.mono.0 + passed);
        self.now.wall = Timestamp(self.now.wall.0 + passed.cast_signed());
    }

    /// Every pulse is read before the clock strikes, so that no verdict is passed on an old one.
    pub(super) fn strike(&mut self) -> Result<(), Broken> {
        let live: Vec<ChildId> = self.runners.keys().cloned().collect();
        live.iter().try_for_each(|child| self.hear(child))?;
        self.step(Event::Tick)
    }

    fn stop_something(&mut self) -> Result<(), Broken> {
        let Some(scope) = self.some_scope() else { return Ok(()) };
        let reason =
            *self.chance.pick(&[StopReason::Cancelled, StopReason::SessionEnded, StopReason::TimedOut]);
        let force = if self.chance.once_in(3) { Force::Abort } else { Force::Ask };
        self.next_reply += 1;
        let reply = self.chance.once_in(2).then_some(ReplyTo(self.next_reply));
        self.figures.stops += 1;
        self.step(Event::Stop { scope, notice: StopNotice { reason, force }, reply })
    }

    /// Something to stop, settled or not, now and then everything.
    fn some_scope(&mut self) -> Option<Scope> {
        let all: Vec<DelegationId> = self.account.delegations.keys().cloned().collect();
        if all.is_empty() || self.chance.once_in(12) {
            return Some(Scope::All);
        }
        let accepted = &self.account.delegations[self.chance.pick(&all)].accepted;
        Some(match self.chance.below(5) {
            0 => Scope::Delegation(accepted.delegation.clone()),
            1 => Scope::Unit(self.chance.pick(&accepted.units).id.clone()),
            2 => Scope::Session(accepted.lineage.session.clone()),
            _ => Scope::Child(self.chance.pick(&accepted.children).clone()),
        })
    }

    /// What people may still do while a process is ending.
    pub(super) fn disturb(&mut self) -> Result<(), Broken> {
        match self.chance.below(4) {
            0 => self.step(Event::Paused),
            1 => self.step(Event::Resumed),
            2 => self.call(),
            _ => self.stop_something(),
        }
    }

    fn turn_gate(&mut self) -> Result<(), Broken> {
        let event = if self.gate() == Gate::Paused { Event::Resumed } else { Event::Paused };
        self.step(event)
    }

    /// The dispatcher forgets settled delegations of old.
    fn forget_something(&mut self) {
        let settled = self
            .account
            .present()
            .filter(|kept| kept.is_settled() && self.joined.contains(&kept.accepted.delegation));
        let settled: Vec<DelegationId> = settled.map(|kept| kept.accepted.delegation.clone()).collect();
        if !settled.is_empty() {
            let oldest = self.chance.pick(&settled).clone();
            self.book.forget(&oldest);
            self.account.forget(&oldest);
        }
    }
}
