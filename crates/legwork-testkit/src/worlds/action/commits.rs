//! Commits: the store takes what waits, or refuses, or fails; and what follows, as the dispatcher does it.

use crate::worlds::account::{Gate, Runs};
use crate::worlds::law::{Broken, Law};
use crate::worlds::runner::{Runner, Stage};
use crate::worlds::storage::{Done, Mishap};
use crate::worlds::world::World;
use legwork_core::child::ChildState;
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::Ending;
use legwork_core::report::Report;
use legwork_engine::book::{Effect, Event};

impl World {
    /// The commit under way ends, well or not.
    pub(super) fn commit(&mut self) -> Result<(), Broken> {
        let touched = self.storage.under_way();
        let mishap = if self.chance.once_in(self.terms.failed_in) {
            Mishap::Fails
        } else if !touched.is_empty() && self.chance.once_in(self.terms.refused_in) {
            Mishap::Refuses(self.chance.pick(&touched).clone())
        } else {
            Mishap::None
        };
        self.commit_with(mishap)
    }

    pub(in crate::worlds) fn commit_with(&mut self, mishap: Mishap) -> Result<(), Broken> {
        let Done { mut effects, refused } = self.storage.end(mishap)?;
        for delegation in refused {
            self.give_up(&delegation, &mut effects)?;
        }
        effects.into_iter().try_for_each(|effect| self.perform(effect))
    }

    /// The store does not take a delegation: whoever waits is told, and its starts do not happen.
    fn give_up(&mut self, delegation: &DelegationId, durable: &mut Vec<Effect>) -> Result<(), Broken> {
        self.figures.withdrawals += 1;
        let kept = self.account.delegations.get(delegation);
        let children: Vec<ChildId> =
            kept.into_iter().flat_map(|kept| &kept.children).map(|kid| kid.row.id.clone()).collect();
        let mine = |effect: &Effect| match effect {
            Effect::Accept(_, ticket) => ticket.delegation == *delegation,
            Effect::AllSettled(id) => id == delegation,
            Effect::Start(child) | Effect::GrantSlot(child) | Effect::Settled(child, _) => {
                children.contains(child)
            }
            _ => false,
        };
        let mut given_up: Vec<Effect> = durable.extract_if(.., |effect| mine(effect)).collect();
        given_up.extend(self.storage.forget(delegation, mine));
        self.step(Event::Withdrawn(delegation.clone()))?;
        for effect in given_up {
            match effect {
                Effect::Accept(reply, _) => self.answer(reply, Stage::Working)?,
                Effect::Start(child) => {
                    self.step(Event::Returned(child, Box::new(Report::bare(Ending::Interrupted))))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A recorded start is performed.
    pub(in crate::worlds) fn start(&mut self, child: ChildId) -> Result<(), Broken> {
        let durable = self.storage.child(&child).is_some_and(|row| row.started_at.is_some());
        Broken::unless(durable, Law::RecordFirst, || format!("{child} begins and its start is not durable"))?;
        if self.gate() == Gate::Released {
            // A process that is ending begins nothing any more.
            return self.step(Event::Returned(child, Box::new(Report::bare(Ending::Interrupted))));
        }
        let state = self.book.child(&child).map(|(live, index)| live.children[index].state);
        let pressed = match state {
            Some(ChildState::Running { .. }) => None,
            Some(ChildState::Stopping { force, .. }) => Some(force),
            other => return Err(Broken { law: Law::Slots, how: format!("{child} begins and is {other:?}") }),
        };
        let first = self.begun.insert(child.clone());
        Broken::unless(first, Law::Slots, || format!("{child} has two runners"))?;
        if let Some(kid) = self.account.kid_mut(&child) {
            kid.runner = Runs::Live;
        }
        let runner = Runner::new(pressed, &self.terms, &mut self.chance);
        self.runners.insert(child, runner);
        self.figures.peak = self.figures.peak.max(self.account.slots() as u64);
        Ok(())
    }
}
