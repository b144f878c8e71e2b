//! Goes through the effects of one step, enters what they say into the account, and checks the laws about them.

mod facts;
mod missing;

use super::account::Account;
use super::expectation::{Call, Expectation};
use super::law::{Broken, Law};
use legwork_core::child::ChildEvent;
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::{Force, Outcome};
use legwork_core::ports::Refusal;
use legwork_core::time::Now;
use legwork_engine::book::{Effect, ReplyTo, Warning};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Audit<'a> {
    account: &'a mut Account,
    expected: &'a Expectation,
    now: Now,
    /// The moves recorded so far in this step.
    moves: Vec<(ChildId, ChildEvent)>,
    accepted: Option<DelegationId>,
    /// Children that were asked or aborted, and the hardest that was.
    pressed: BTreeMap<ChildId, Force>,
    warnings: BTreeSet<ChildId>,
    answered: bool,
    listed: bool,
}

impl<'a> Audit<'a> {
    pub(super) fn new(account: &'a mut Account, expected: &'a Expectation, now: Now) -> Self {
        Audit {
            account,
            expected,
            now,
            moves: Vec::new(),
            accepted: None,
            pressed: BTreeMap::new(),
            warnings: BTreeSet::new(),
            answered: false,
            listed: false,
        }
    }

    pub(super) fn check(mut self, effects: &[Effect]) -> Result<(), Broken> {
        for effect in effects {
            match effect {
                Effect::Record(append) => self.record(append)?,
                Effect::Accept(reply, ticket) => {
                    let first = self.accepted.as_ref() == Some(&ticket.delegation);
                    Broken::unless(first, Law::RecordFirst, || {
                        format!("{} is told unrecorded", ticket.delegation)
                    })?;
                    self.answer(*reply, None)?;
                }
                Effect::Refuse(reply, refusal) => self.answer(*reply, Some(refusal))?,
                Effect::Start(child) => self.follows(child, ChildEvent::Started)?,
                Effect::GrantSlot(child) => self.follows(child, ChildEvent::SlotGranted)?,
                Effect::Settled(child, outcome) => self.told(child, *outcome)?,
                Effect::AllSettled(delegation) => self.all_told(delegation)?,
                Effect::Ask(child, notice) => self.press(child, notice.force),
                Effect::Warn(child, warning) => self.warned(child, *warning)?,
                Effect::Abort(child) => self.press(child, Force::Abort),
                Effect::Stopped(reply, children) => self.list(*reply, children)?,
                // Nothing is lacking in these worlds.
                Effect::LetGo(left) => Broken::unless(left.is_empty(), Law::RecordFirst, || {
                    format!("{left:?} is left to another process")
                })?,
            }
        }
        let (expected, warned) = (&self.expected.warnings, &self.warnings);
        Broken::unless(expected == warned, Law::Time, || {
            format!("warned {warned:?}, expected {expected:?}")
        })?;
        self.nothing_is_missing()
    }

    fn follows(&mut self, child: &ChildId, event: ChildEvent) -> Result<(), Broken> {
        let place = self.moves.iter().position(|(moved, by)| moved == child && *by == event);
        let Some(place) = place else {
            return Err(Broken {
                law: Law::RecordFirst,
                how: format!("{child}: {event:?} is performed unrecorded"),
            });
        };
        // Each fact is good for one effect.
        self.moves.remove(place);
        Ok(())
    }

    fn told(&mut self, child: &ChildId, outcome: Outcome) -> Result<(), Broken> {
        let kid = self.account.kid_mut(child).ok_or_else(|| unknown(child))?;
        let recorded = kid.row.outcome();
        Broken::unless(recorded.is_some(), Law::RecordFirst, || {
            format!("{child} is told settled and is open")
        })?;
        Broken::unless(!kid.told, Law::SettlesOnce, || format!("{child} is told settled again"))?;
        kid.told = true;
        if let Outcome::Stopped(reason) = outcome {
            let cause = kid.cause;
            Broken::unless(cause == Some(reason), Law::FirstCause, || {
                format!("{child} is told stopped as {reason:?}; the first cause was {cause:?}")
            })?;
        }
        Broken::unless(recorded == Some(outcome), Law::OneOutcome, || {
            format!("{child} is told {outcome:?} and recorded {recorded:?}")
        })
    }

    fn all_told(&mut self, delegation: &DelegationId) -> Result<(), Broken> {
        let kept = self.account.delegations.get_mut(delegation);
        let Some(kept) = kept else {
            return Err(Broken {
                law: Law::RecordFirst,
                how: format!("{delegation} is told settled and unknown"),
            });
        };
        let whole = kept.children.iter().all(|kid| kid.told);
        Broken::unless(whole, Law::RecordFirst, || {
            format!("{delegation} is told settled before its children")
        })?;
        Broken::unless(!kept.told, Law::SettlesOnce, || format!("{delegation} is told settled again"))?;
        kept.told = true;
        Ok(())
    }

    fn press(&mut self, child: &ChildId, force: Force) {
        let pressed = self.pressed.entry(child.clone()).or_insert(force);
        *pressed = (*pressed).max(force);
    }

    fn warned(&mut self, child: &ChildId, warning: Warning) -> Result<(), Broken> {
        let due = self.expected.warnings.contains(child) && self.warnings.insert(child.clone());
        let limit = self.account.options.patience.inactivity;
        Broken::unless(due && limit == Some(warning.limit), Law::Time, || {
            format!("{child} is warned: {warning:?}")
        })?;
        let kid = self.account.kid_mut(child).ok_or_else(|| unknown(child))?;
        kid.warned = true;
        Ok(())
    }

    fn answer(&mut self, reply: ReplyTo, refusal: Option<&Refusal>) -> Result<(), Broken> {
        let call = self.expected.call.as_ref().filter(|call| call.reply == reply && !self.answered);
        let Some(Call { objections, .. }) = call else {
            return Err(Broken {
                law: Law::OneAnswer,
                how: format!("{reply:?} is answered and nobody asked"),
            });
        };
        self.answered = true;
        let right = refusal.map_or(objections.is_empty(), |refusal| objections.contains(refusal));
        Broken::unless(right, Law::Refusals, || format!("{refusal:?} where the rules say {objections:?}"))
    }

    fn list(&mut self, reply: ReplyTo, children: &[ChildId]) -> Result<(), Broken> {
        let asked = self.expected.list_for == Some(reply) && !self.listed;
        Broken::unless(asked, Law::OneAnswer, || format!("{reply:?} gets a list and did not ask"))?;
        self.listed = true;
        let mut listed = children.to_vec();
        listed.sort();
        let stopped: Vec<ChildId> = self.expected.stops.keys().cloned().collect();
        Broken::unless(listed == stopped, Law::StopAnswer, || {
            format!("listed {listed:?}, stopped {stopped:?}")
        })
    }
}

fn unknown(child: &ChildId) -> Broken {
    Broken { law: Law::Replay, how: format!("nobody knows {child}") }
}
