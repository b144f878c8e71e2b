//! Stands between a world and its book and makes the seeded bugs happen: before the book by what it is told, after it by
//! what is seen of its effects.

use super::sabotage::Sabotage;
use super::world::START;
use legwork_core::batch::Lineage;
use legwork_core::child::ChildEvent;
use legwork_core::fact::{Append, Fact};
use legwork_core::ids::{ChildId, SessionId, UnitId};
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::StopNotice;
use legwork_core::steering::Scope;
use legwork_core::time::{Moment, Now};
use legwork_engine::Options;
use legwork_engine::book::{Book, Effect, Event};

/// An honest book with at most one bug.
#[derive(Debug)]
pub(super) struct Saboteur {
    bug: Option<Sabotage>,
    /// What it remembers of earlier steps.
    stopped: Vec<ChildId>,
    last_reason: Option<StopReason>,
    lineage: Option<Lineage>,
}

impl Saboteur {
    pub(super) fn new(bug: Option<Sabotage>) -> Self {
        Saboteur { bug, stopped: Vec::new(), last_reason: None, lineage: None }
    }

    pub(super) fn options(&self, honest: &Options) -> Options {
        match self.bug {
            Some(Sabotage::RunsOneTooMany) => {
                Options { children_max: honest.children_max + 1, ..honest.clone() }
            }
            Some(Sabotage::QueuesWithoutLimit) => Options { queue_max: usize::MAX / 2, ..honest.clone() },
            _ => honest.clone(),
        }
    }

    pub(super) fn step(&mut self, book: &mut Book, event: Event, now: Now) -> Vec<Effect> {
        let Some(bug) = self.bug else { return book.step(event, now) };
        if let Event::Stop { notice, .. } = &event {
            self.last_reason = Some(notice.reason);
        }
        if let Event::Dispatch { batch, .. } = &event {
            self.lineage = Some(batch.lineage.clone());
        }
        let Some(event) = bent_event(bug, event, book) else { return Vec::new() };
        let now = match bug {
            Sabotage::GoesByTheWallClock => by_the_wall_clock(now),
            _ => now,
        };
        let effects = book.step(event, now);
        self.bent_effects(bug, effects)
    }

    fn bent_effects(&mut self, bug: Sabotage, mut effects: Vec<Effect>) -> Vec<Effect> {
        match bug {
            Sabotage::RecordsLast => effects.sort_by_key(|effect| matches!(effect, Effect::Record(_))),
            Sabotage::StartsBeforeRecord => {
                if let Some(start) = effects.iter().position(|effect| matches!(effect, Effect::Start(_))) {
                    effects.swap(start - 1, start);
                }
            }
            Sabotage::SettlesUnitOnFirst => facts(&mut effects, settle_unit_at_once),
            Sabotage::LosesUnitSettled => facts(&mut effects, |append| {
                append.facts.retain(|fact| !matches!(fact, Fact::UnitSettled { .. }));
            }),
            Sabotage::TellsTwice => double(&mut effects, |effect| matches!(effect, Effect::Settled(..))),
            Sabotage::AnswersTwice => double(&mut effects, |effect| matches!(effect, Effect::Accept(..))),
            Sabotage::StartsTheStopped => self.start_a_stopped_one(&mut effects),
            Sabotage::GrantsToTheStopped => grant_to_stopped(&mut effects),
            Sabotage::DropsAborts => effects.retain(|effect| !matches!(effect, Effect::Abort(_))),
            Sabotage::DropsAsks => effects.retain(|effect| !matches!(effect, Effect::Ask(..))),
            Sabotage::ReportsLastCause => self.report_last_cause(&mut effects),
            Sabotage::LosesAFact => facts(&mut effects, |append| {
                append.facts.retain(|fact| !matches!(fact, Fact::Moved { event: ChildEvent::Unparked, .. }));
            }),
            // What is recorded is right; only the book's own idea of it is not.
            Sabotage::ForgetsParents | Sabotage::ServesInOrderOfArrival => {
                facts(&mut effects, |append| self.restore_lineage(append));
            }
            Sabotage::RunsOneTooMany
            | Sabotage::QueuesWithoutLimit
            | Sabotage::LowersForce
            | Sabotage::StopsSiblings
            | Sabotage::MissesAnEnd
            | Sabotage::MissesBeats
            | Sabotage::GoesByTheWallClock
            | Sabotage::IgnoresPauses
            | Sabotage::StartsAfterRelease => {}
        }
        effects
    }

    /// Puts a child that was stopped in the queue into the place of the next one that starts.
    fn start_a_stopped_one(&mut self, effects: &mut [Effect]) {
        let stopped: Vec<ChildId> = effects.iter().filter_map(stopped_child).cloned().collect();
        for effect in effects {
            let Some(child) = self.stopped.last().cloned() else { break };
            match effect {
                Effect::Record(append) => {
                    for fact in &mut append.facts {
                        if let Fact::Moved { child: moved, event: ChildEvent::Started, .. } = fact {
                            *moved = child.clone();
                        }
                    }
                }
                Effect::Start(started) => *started = child,
                _ => {}
            }
        }
        self.stopped.extend(stopped);
    }

    fn restore_lineage(&self, append: &mut Append) {
        if let (Some(Fact::Accepted(accepted)), Some(lineage)) = (append.facts.first_mut(), &self.lineage) {
            accepted.lineage = lineage.clone();
        }
    }

    fn report_last_cause(&self, effects: &mut [Effect]) {
        for effect in effects {
            if let (Effect::Settled(_, Outcome::Stopped(reason)), Some(last)) = (effect, self.last_reason) {
                *reason = last;
            }
        }
    }
}

/// The same moment for as long as nobody sets the wall clock.
fn by_the_wall_clock(now: Now) -> Now {
    let passed = now.wall.0 - START.wall.0;
    Now { mono: Moment(START.mono.0.saturating_add_signed(passed)), ..now }
}

/// What the book is told instead; nothing when the bug swallows the event.
fn bent_event(bug: Sabotage, event: Event, book: &Book) -> Option<Event> {
    match (bug, event) {
        (Sabotage::LowersForce, Event::Stop { scope, notice, reply }) => {
            Some(Event::Stop { scope, notice: StopNotice { force: Force::Ask, ..notice }, reply })
        }
        (Sabotage::StopsSiblings, Event::Stop { scope: Scope::Child(child), notice, reply }) => {
            let delegation = book.child(&child).map(|(live, _)| live.accepted.delegation.clone());
            let scope = delegation.map_or(Scope::Child(child), Scope::Delegation);
            Some(Event::Stop { scope, notice, reply })
        }
        (Sabotage::ForgetsParents, Event::Dispatch { mut batch, ids, reply }) => {
            batch.lineage.parent = None;
            Some(Event::Dispatch { batch, ids, reply })
        }
        (Sabotage::ServesInOrderOfArrival, Event::Dispatch { mut batch, ids, reply }) => {
            batch.lineage.session = SessionId::from_bits(0);
            Some(Event::Dispatch { batch, ids, reply })
        }
        (Sabotage::MissesAnEnd, Event::Returned(..))
        | (Sabotage::MissesBeats, Event::Heard(..))
        | (Sabotage::IgnoresPauses, Event::Paused)
        | (Sabotage::StartsAfterRelease, Event::Released) => None,
        (_, event) => Some(event),
    }
}

fn facts(effects: &mut [Effect], mut bend: impl FnMut(&mut Append)) {
    for effect in effects {
        if let Effect::Record(append) = effect {
            bend(append);
        }
    }
}

/// Says of a unit that it settled as soon as one of its children has; the delegation's own id is that of its unit.
fn settle_unit_at_once(append: &mut Append) {
    let is_end = |fact: &Fact| matches!(fact, Fact::Moved { event: ChildEvent::Returned(_), .. });
    if append.facts.iter().any(is_end) && append.facts.len() == 1 {
        let unit = UnitId::whole(&append.delegation);
        append.facts.push(Fact::UnitSettled { unit });
    }
}

fn double(effects: &mut Vec<Effect>, which: impl Fn(&Effect) -> bool) {
    if let Some(place) = effects.iter().position(which) {
        effects.insert(place, effects[place].clone());
    }
}

fn stopped_child(effect: &Effect) -> Option<&ChildId> {
    match effect {
        Effect::Settled(child, Outcome::Stopped(_)) => Some(child),
        _ => None,
    }
}

fn grant_to_stopped(effects: &mut Vec<Effect>) {
    let asked = effects.iter().find_map(|effect| match effect {
        Effect::Ask(child, _) => Some(child.clone()),
        _ => None,
    });
    effects.extend(asked.map(Effect::GrantSlot));
}
