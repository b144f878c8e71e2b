//! Random appends: mostly what an owner would write next, sometimes what no sane one would.

use super::dice::Dice;
use super::pair::{Pair, bare};
use crate::store_suite::sample;
use legwork_core::child::{AfterLoss, ChildEvent};
use legwork_core::fact::{Accepted, Append, Fact};
use legwork_core::ids::{CallKey, ChildId, DelegationId, Epoch};
use legwork_core::outcome::{Ending, FailureKind, Force, Limit, StopReason};

/// Delegations that there can be.
pub(super) const DELEGATIONS: u32 = 6;

/// Processes that there can be; the last one never enters.
pub(super) const OWNERS: u32 = 4;

/// The `n`-th delegation, always the same.
pub(super) fn accepted(n: u32) -> Accepted {
    let shapes: [&[&[usize]]; 6] =
        [&[&[0]], &[&[0], &[1]], &[&[0, 1, 2]], &[&[0, 2], &[1]], &[&[1], &[0]], &[&[3, 1], &[0], &[2]]];
    let mut accepted = sample::accepted(n, shapes[(n as usize - 1) % shapes.len()]);
    accepted.call_key = match n {
        // Two of them are calls of children of others.
        3 | 5 => {
            let caller = ChildId::from_bits(0, n - 2);
            accepted.lineage.parent = Some(caller.clone());
            Some(CallKey { caller: caller.as_str().to_owned(), call: "call".to_owned() })
        }
        n => n.is_multiple_of(2).then(|| sample::call_key(n / 4)),
    };
    accepted
}

/// One to three appends in one call.
pub(super) async fn append(pair: &mut Pair) {
    let mut appends = Vec::new();
    for _ in 0..pair.dice.upto(3) {
        appends.push(random_append(pair).await);
    }
    pair.both(&appends, |store| {
        let answers = store.append(appends.clone());
        Box::pin(async move {
            let answers = answers.await?;
            Ok(answers.into_iter().map(|answer| answer.map_err(bare)).collect::<Vec<_>>())
        })
    })
    .await;
}

async fn random_append(pair: &mut Pair) -> Append {
    let n = pair.dice.upto(DELEGATIONS);
    let stored = pair.reference.delegation(&DelegationId::from_bits(n)).await.expect("memory can be read");
    let at = pair.at();
    let dice = &mut pair.dice;
    let accepted = accepted(n);
    let mut append = Append {
        delegation: accepted.delegation.clone(),
        expected_seq: stored.as_ref().map_or(0, |record| record.seq),
        owner: stored
            .as_ref()
            .map_or_else(|| sample::owner_id(dice.upto(OWNERS)), |record| record.owner.id.clone()),
        epoch: stored.as_ref().map_or(Epoch(1), |record| record.epoch),
        at,
        facts: facts(dice, &accepted),
    };
    if stored.is_none() && dice.chance(90) || dice.chance(3) {
        let rest = if dice.chance(80) { 0 } else { append.facts.len() };
        append.facts.truncate(rest);
        append.facts.insert(0, Fact::Accepted(Box::new(accepted)));
    }
    spoil(dice, &mut append);
    append
}

fn spoil(dice: &mut Dice, append: &mut Append) {
    if dice.chance(4) {
        append.expected_seq = append.expected_seq.wrapping_add(1);
    }
    if dice.chance(3) {
        append.owner = sample::owner_id(dice.upto(OWNERS));
    }
    if dice.chance(3) {
        append.epoch = Epoch(append.epoch.0 + 1);
    }
}

fn facts(dice: &mut Dice, accepted: &Accepted) -> Vec<Fact> {
    let count = dice.pick(&[1, 1, 1, 1, 2, 2, 3]);
    (0..count).map(|_| fact(dice, accepted)).collect()
}

fn fact(dice: &mut Dice, accepted: &Accepted) -> Fact {
    if dice.chance(25) {
        return Fact::UnitSettled { unit: dice.pick(&accepted.units).id };
    }
    let event = event(dice);
    let report = match event {
        ChildEvent::Returned(ending) => {
            dice.chance(90).then(|| Box::new(sample::report(ending, "an answer")))
        }
        ChildEvent::OwnerLost(_) => {
            dice.chance(50).then(|| Box::new(sample::report(Ending::Interrupted, "rest")))
        }
        ChildEvent::Started
        | ChildEvent::Parked
        | ChildEvent::Unparked
        | ChildEvent::SlotGranted
        | ChildEvent::StopAsked { .. } => None,
    };
    Fact::Moved { child: dice.pick(&accepted.children), event, report }
}

fn event(dice: &mut Dice) -> ChildEvent {
    let reason = dice.pick(&[StopReason::Cancelled, StopReason::Stalled]);
    let force = dice.pick(&[Force::Ask, Force::Abort]);
    let failed = Ending::Failed(FailureKind::Model);
    let endings =
        [Ending::Answered, Ending::Answered, Ending::CutShort(Limit::Steps), failed, Ending::Interrupted];
    let ending = dice.pick(&endings);
    dice.pick(&[
        ChildEvent::Started,
        ChildEvent::Started,
        ChildEvent::Parked,
        ChildEvent::Unparked,
        ChildEvent::SlotGranted,
        ChildEvent::StopAsked { reason, force },
        ChildEvent::Returned(ending),
        ChildEvent::Returned(ending),
        ChildEvent::OwnerLost(AfterLoss::Requeue),
        ChildEvent::OwnerLost(AfterLoss::GiveUp),
    ])
}
