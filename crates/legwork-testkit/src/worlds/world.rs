//! One world: a book, the world around it, and the loop of their life. It does what the dispatcher does, with a store,
//! workers and clocks that are made up from a seed, and it checks the laws after every step.

use super::account::{Account, Gate};
use super::audit::Audit;
use super::chance::Chance;
use super::expectation::Expectation;
use super::figures::Figures;
use super::law::{Broken, Law};
use super::runner::{Runner, Stage};
use super::sabotage::Sabotage;
use super::saboteur::Saboteur;
use super::storage::Storage;
use super::terms::{End, Scenario, Terms};
use super::trail;
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ChildId, DelegationId, OwnerId};
use legwork_core::outcome::{Force, Outcome};
use legwork_core::time::{Moment, Now, Timestamp};
use legwork_engine::book::{Book, Effect, Event, ReplyTo};
use std::collections::{BTreeMap, BTreeSet};

/// When every world begins.
pub(super) const START: Now = Now { wall: Timestamp(1_700_000_000_000), mono: Moment(1_000_000) };

pub(super) struct World {
    pub(super) chance: Chance,
    pub(super) terms: Terms,
    pub(super) book: Book,
    saboteur: Saboteur,
    pub(super) account: Account,
    pub(super) storage: Storage,
    pub(super) runners: BTreeMap<ChildId, Runner>,
    pub(super) now: Now,
    pub(super) figures: Figures,
    /// Calls that wait for an answer, and the child that made them if one did.
    pub(super) calls: BTreeMap<ReplyTo, Option<ChildId>>,
    pub(super) next_reply: u64,
    /// Delegations whose caller has its ticket.
    pub(super) tickets: BTreeSet<DelegationId>,
    /// Delegations that were told to have settled.
    pub(super) joined: BTreeSet<DelegationId>,
    /// Children whose runners began.
    pub(super) begun: BTreeSet<ChildId>,
    /// Outcomes that were told.
    pub(super) told: BTreeMap<ChildId, Outcome>,
    /// What happened, when somebody wants to read it.
    pub(super) trail: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(scenario: Scenario, seed: u64, bug: Option<Sabotage>) -> Self {
        let mut chance = Chance::new(seed);
        let terms = Terms::of(scenario, &mut chance);
        let saboteur = Saboteur::new(bug);
        let owner = OwnerId::from_bits(chance.bits());
        World {
            book: Book::new(saboteur.options(&terms.options), owner),
            account: Account::new(terms.options.clone()),
            chance,
            terms,
            saboteur,
            storage: Storage::default(),
            runners: BTreeMap::new(),
            now: START,
            figures: Figures { worlds: 1, ..Figures::default() },
            calls: BTreeMap::new(),
            next_reply: 0,
            tickets: BTreeSet::new(),
            joined: BTreeSet::new(),
            begun: BTreeSet::new(),
            told: BTreeMap::new(),
            trail: None,
        }
    }

    /// The whole life of the world.
    pub(super) fn live(&mut self) -> Result<(), Broken> {
        for _ in 0..self.terms.actions {
            self.act()?;
            self.storage.begin();
        }
        match self.terms.end {
            End::Drain => self.drain(),
            End::Release => self.release(),
            End::Death => self.die(),
        }
    }

    /// Steps the book, checks what comes out, and performs what does not wait for a record.
    pub(super) fn step(&mut self, event: Event) -> Result<(), Broken> {
        self.figures.steps += 1;
        let said = self.trail.as_ref().map(|_| trail::event(&event));
        let expected = Expectation::of(&event, &self.account, self.now.mono);
        self.account.note(&event, self.now.mono);
        let is_tick = event == Event::Tick;
        let effects = self.saboteur.step(&mut self.book, event, self.now);
        if let Some(trail) = &mut self.trail {
            let (at, said) = (self.now.mono.0, said.unwrap_or_default());
            trail.push(format!("{at} ms: {said}{}", trail::effects(&effects)));
        }
        Audit::new(&mut self.account, &expected, self.now).check(&effects)?;
        self.account.compare(&self.book)?;
        // A grace of no time at all ends in the moment it begins.
        let overdue = self.book.next_deadline().filter(|due| is_tick && *due < self.now.mono);
        Broken::unless(overdue.is_none(), Law::Time, || format!("a tick leaves {overdue:?} behind"))?;
        for effect in effects {
            match effect {
                Effect::Record(append) => self.storage.record(append),
                effect if effect.waits_for_record() => self.storage.then(effect),
                effect => self.perform(effect)?,
            }
        }
        Ok(())
    }

    /// Performs an effect whose facts are durable, or that needs none.
    pub(super) fn perform(&mut self, effect: Effect) -> Result<(), Broken> {
        match effect {
            Effect::Record(append) => self.storage.record(append),
            Effect::Accept(reply, ticket) => {
                let durable = self.storage.rows.contains_key(&ticket.delegation);
                Broken::unless(durable, Law::RecordFirst, || format!("{ticket:?} is handed out too early"))?;
                self.tickets.insert(ticket.delegation.clone());
                self.answer(reply, Stage::Called(ticket.delegation))?;
            }
            Effect::Refuse(reply, _) => {
                self.figures.refusals += 1;
                self.answer(reply, Stage::Working)?;
            }
            Effect::Start(child) => self.start(child)?,
            Effect::GrantSlot(child) => {
                self.figures.granted += 1;
                if let Some(runner) = self.runners.get_mut(&child) {
                    runner.stage = Stage::Working;
                }
            }
            Effect::Settled(child, outcome) => {
                let durable = self.storage.child(&child).and_then(|row| row.outcome());
                Broken::unless(durable == Some(outcome), Law::RecordFirst, || {
                    format!("{child} is told {outcome:?}, durable is {durable:?}")
                })?;
                self.figures.settled += 1;
                self.told.insert(child, outcome);
            }
            Effect::AllSettled(delegation) => self.settled(delegation)?,
            Effect::Ask(child, notice) => self.press(&child, notice.force),
            Effect::Abort(child) => self.press(&child, Force::Abort),
            Effect::Warn(..) | Effect::Stopped(..) | Effect::LetGo(_) => {}
        }
        Ok(())
    }

    /// Gives a caller its answer.
    pub(super) fn answer(&mut self, reply: ReplyTo, next: Stage) -> Result<(), Broken> {
        let caller = self.calls.remove(&reply);
        let Some(caller) = caller else {
            return Err(Broken { law: Law::OneAnswer, how: format!("{reply:?} is answered again") });
        };
        let runner = caller.and_then(|child| self.runners.get_mut(&child));
        if let Some(runner) = runner.filter(|runner| runner.stage == Stage::Calling(reply)) {
            runner.stage = next;
        }
        Ok(())
    }

    fn press(&mut self, child: &ChildId, force: Force) {
        if let Some(runner) = self.runners.get_mut(child) {
            runner.pressed = runner.pressed.max(Some(force));
        }
    }

    fn settled(&mut self, delegation: DelegationId) -> Result<(), Broken> {
        let row = self.storage.rows.get(&delegation);
        let ready = row.is_some_and(|row| {
            row.deliveries.iter().all(|state| *state == DeliveryState::Ready { tries: 0 })
        });
        Broken::unless(ready, Law::UnitSettled, || format!("{delegation} is told settled and is not ready"))?;
        self.joined.insert(delegation);
        Ok(())
    }

    /// The gate as the world last turned it.
    pub(super) fn gate(&self) -> Gate {
        self.account.gate
    }
}
