//! How worlds end: drained, released or dead; and what must be true then.

use super::account::Gate;
use super::law::{Broken, Law};
use super::runner::Mood;
use super::storage::{Mishap, Row};
use super::world::World;
use legwork_core::child::{AfterLoss, ChildEvent, ChildState};
use legwork_core::delivery::DeliveryState;
use legwork_core::fact::Fact;
use legwork_core::ids::ChildId;
use legwork_core::outcome::{Outcome, StopReason};
use legwork_engine::book::Event;

/// More rounds than any world needs.
const ROUNDS_MAX: usize = 5_000;

impl World {
    /// Everything answers or is aborted, and nothing is left.
    pub(super) fn drain(&mut self) -> Result<(), Broken> {
        if self.gate() == Gate::Paused {
            self.step(Event::Resumed)?;
        }
        for _ in 0..ROUNDS_MAX {
            if self.runners.is_empty() && self.storage.is_idle() && self.book.is_idle() {
                return self.nothing_is_left();
            }
            if self.go_on()? {
                continue;
            }
            // Nobody moves by itself any more; time must do it.
            let due = self.book.next_deadline().filter(|_| self.terms.trouble_in > 0);
            let Some(due) = due else {
                return Err(Broken { law: Law::Drains, how: format!("nobody moves: {:?}", self.runners) });
            };
            self.jump_to(due);
            self.strike()?;
        }
        Err(Broken { law: Law::Drains, how: format!("still busy: {:?}", self.runners) })
    }

    /// The store takes what there is and every runner acts once; says whether anything came of it.
    fn go_on(&mut self) -> Result<bool, Broken> {
        self.storage.begin();
        let mut moved = !self.storage.is_idle();
        self.commit_with(Mishap::None)?;
        let live: Vec<ChildId> = self.runners.keys().cloned().collect();
        for child in live {
            moved |= self.move_runner(&child, Mood::Closing)?;
        }
        Ok(moved)
    }

    fn nothing_is_left(&self) -> Result<(), Broken> {
        let (calls, slots) = (&self.calls, self.book.slots_used());
        Broken::unless(calls.is_empty(), Law::OneAnswer, || format!("{calls:?} wait for an answer"))?;
        Broken::unless(slots == 0, Law::Slots, || format!("{slots} slots are still taken"))?;
        for kept in self.account.present() {
            for kid in &kept.children {
                let told = self.told.get(&kid.row.id).copied();
                Broken::unless(told.is_some() && told == kid.row.outcome(), Law::OneOutcome, || {
                    format!("{} has the outcome {:?} and was told {told:?}", kid.row.id, kid.row.outcome())
                })?;
            }
            let row = self.storage.rows.get(&kept.accepted.delegation);
            let ready = |state: &DeliveryState| matches!(state, DeliveryState::Ready { .. });
            let ready = row.is_some_and(|row| row.deliveries.iter().all(ready));
            Broken::unless(ready, Law::UnitSettled, || format!("{} is not ready", kept.accepted.delegation))?;
        }
        Ok(())
    }

    /// The process lets go: runs get their grace and are cut, and the next owner finds what is stored.
    pub(super) fn release(&mut self) -> Result<(), Broken> {
        self.figures.releases += 1;
        self.step(Event::Released)?;
        for _ in 0..self.chance.below(6) {
            self.disturb()?;
        }
        for _ in 0..ROUNDS_MAX {
            if self.runners.is_empty() && self.storage.is_idle() {
                return self.judge_the_dead();
            }
            if !self.go_on()? {
                let Some(due) = self.book.next_deadline() else {
                    return Err(Broken {
                        law: Law::Release,
                        how: format!("nothing ends: {:?}", self.runners),
                    });
                };
                self.jump_to(due);
                self.strike()?;
            }
        }
        Err(Broken { law: Law::Release, how: format!("still busy: {:?}", self.runners) })
    }

    /// The process dies: only what is durable is left.
    pub(super) fn die(&mut self) -> Result<(), Broken> {
        self.figures.deaths += 1;
        self.judge_the_dead()
    }

    /// Replays what is stored into rows of its own, settles them as recovery does, and compares with what was told.
    fn judge_the_dead(&mut self) -> Result<(), Broken> {
        for delegation in &self.tickets {
            let kept = self.storage.rows.contains_key(delegation);
            Broken::unless(kept, Law::Recovery, || format!("{delegation} was promised and is not stored"))?;
        }
        let mut rows: Vec<Row> = self.storage.rows.values().cloned().collect();
        for row in &mut rows {
            for index in 0..row.children.len() {
                self.recover(row, index)?;
            }
            let ready = row.deliveries.iter().all(|state| matches!(state, DeliveryState::Ready { .. }));
            Broken::unless(ready, Law::Recovery, || format!("{:?} are not ready", row.accepted.units))?;
        }
        Ok(())
    }

    fn recover(&self, row: &mut Row, index: usize) -> Result<(), Broken> {
        let child = row.children[index].id.clone();
        let before = row.children[index].state;
        if before.outcome().is_none() {
            let at = self.now.wall;
            let event = ChildEvent::OwnerLost(AfterLoss::GiveUp);
            row.apply(&Fact::Moved { child: child.clone(), event, report: None }, at)?;
            self.resumable(before)?;
            let units: Vec<usize> = (0..row.deliveries.len()).collect();
            for place in units {
                if row.deliveries[place] == DeliveryState::Held && row.is_unit_settled(place) {
                    row.apply(&Fact::UnitSettled { unit: row.accepted.units[place].id.clone() }, at)?;
                }
            }
        }
        let outcome = row.children[index].outcome();
        let told = self.told.get(&child).copied();
        Broken::unless(told.is_none() || told == outcome, Law::Recovery, || {
            format!("{child} was told {told:?} and is recovered as {outcome:?}")
        })?;
        let right = match before {
            ChildState::Queued { .. } => Outcome::Stopped(StopReason::OwnerLost),
            ChildState::Running { .. } | ChildState::Parked { .. } | ChildState::Waiting { .. } => {
                Outcome::Lost
            }
            ChildState::Stopping { cause, .. } => Outcome::Stopped(cause),
            ChildState::Settled(outcome) => outcome,
        };
        Broken::unless(outcome == Some(right), Law::Recovery, || {
            format!("{child} was {before:?} and is recovered as {outcome:?}")
        })?;
        let unknown_run = self.begun.contains(&child) && matches!(before, ChildState::Queued { .. });
        Broken::unless(!unknown_run, Law::Recovery, || format!("{child} ran and nobody can know"))
    }

    /// An owner that goes on with the work instead finds every run that was not told to stop in its queue.
    fn resumable(&self, before: ChildState) -> Result<(), Broken> {
        let next = before.apply(ChildEvent::OwnerLost(AfterLoss::Requeue));
        let right = match before {
            ChildState::Queued { attempts: runs }
            | ChildState::Running { attempt: runs }
            | ChildState::Parked { attempt: runs }
            | ChildState::Waiting { attempt: runs } => ChildState::Queued { attempts: runs },
            ChildState::Stopping { cause, .. } => ChildState::Settled(Outcome::Stopped(cause)),
            ChildState::Settled(outcome) => ChildState::Settled(outcome),
        };
        Broken::unless(next == Ok(right), Law::Recovery, || format!("{before:?} would go on as {next:?}"))
    }
}
