//! One random call to both stores.

use super::appends::{self, DELEGATIONS, OWNERS};
use super::pair::Pair;
use super::{sessions, steers};
use crate::store_suite::sample;
use legwork_core::delivery::{DeliveryState, ParkReason};
use legwork_core::ids::{ClaimId, DelegationId, Epoch, UnitId};
use legwork_core::ports::{Filter, Takeover, WriteSteps};
use legwork_core::pulse::{Deaths, Pulse};
use legwork_core::step::{Action, Actor, Fence, Product, StepChange};
use legwork_core::time::Timestamp;

/// Sessions that there can be.
pub(super) const SESSIONS: u32 = 3;

/// Makes the next call.
pub(super) async fn make_one(pair: &mut Pair) {
    match pair.dice.below(100) {
        0..40 => appends::append(pair).await,
        40..58 => claim_or_end(pair).await,
        58..72 => write_steps(pair).await,
        72..79 => sessions::append_turn(pair).await,
        79..82 => enter(pair).await,
        82..86 => sessions::hold_or_let_go(pair).await,
        86..90 => steers::ask_or_settle(pair).await,
        90..93 => groups(pair).await,
        93..96 => pulses(pair).await,
        96..98 => take_over(pair).await,
        _ => prune(pair).await,
    }
}

async fn enter(pair: &mut Pair) {
    let owner = sample::owner(pair.dice.upto(OWNERS - 1));
    let at = pair.at();
    pair.both(&owner, |store| store.enter(owner.clone(), at)).await;
    let session = sample::session(pair.dice.upto(SESSIONS));
    pair.both(&session, |store| store.create_session(session.clone(), &owner.id)).await;
}

async fn claim_or_end(pair: &mut Pair) {
    let at = pair.at();
    let unit = random_unit(pair);
    let claims = some_claims(pair).await;
    match pair.dice.below(8) {
        0..3 => {
            let claim = ClaimId::from_bits(pair.at().0.unsigned_abs());
            pair.both(&(&unit, &claim), |store| store.claim(&unit, claim.clone(), "taker", at)).await;
        }
        3 => pair.both(&claims, |store| store.acknowledge(claims.clone(), at)).await,
        4 => pair.both(&claims, |store| store.release(claims.clone(), at, "busy")).await,
        5 => pair.both(&claims, |store| store.park(claims.clone(), at, ParkReason::SessionGone)).await,
        6 => pair.both(&unit, |store| store.unpark(&unit, at)).await,
        _ => pair.both(&unit, |store| store.dismiss(&unit, at, "unwanted")).await,
    }
}

fn random_unit(pair: &mut Pair) -> UnitId {
    let n = pair.dice.upto(DELEGATIONS);
    pair.dice.pick(&appends::accepted(n).units).id
}

/// Up to two claims, mostly current ones.
pub(super) async fn some_claims(pair: &mut Pair) -> Vec<ClaimId> {
    let records =
        pair.reference.delegations(Filter::Recent(usize::MAX)).await.expect("memory can be read").rows;
    let states = records.iter().flat_map(|record| &record.deliveries).map(|delivery| &delivery.state);
    let current = states.filter_map(|state| match state {
        DeliveryState::Claimed { claim, .. } => Some(claim.clone()),
        DeliveryState::Held
        | DeliveryState::Ready { .. }
        | DeliveryState::Parked(_)
        | DeliveryState::Delivered
        | DeliveryState::Dismissed => None,
    });
    let mut choices: Vec<_> = current.collect();
    if choices.is_empty() || pair.dice.chance(5) {
        choices.push(ClaimId::from_bits(u64::MAX));
    }
    let count = pair.dice.pick(&[0, 1, 1, 1, 2]);
    (0..count).map(|_| pair.dice.pick(&choices)).collect()
}

/// A child or a session, and a fence that mostly lets it write.
async fn random_actor(pair: &mut Pair) -> (Actor, Fence) {
    let mut fence = Fence { owner: sample::owner_id(pair.dice.upto(OWNERS)), epoch: Epoch(1) };
    if pair.dice.chance(20) {
        let session = sample::session_id(pair.dice.upto(SESSIONS));
        fence.owner = sessions::likely_writer(pair, &session).await;
        return (Actor::Session(session), fence);
    }
    let n = pair.dice.upto(DELEGATIONS);
    let child = pair.dice.pick(&appends::accepted(n).children);
    let stored = pair.reference.delegation(&DelegationId::from_bits(n)).await.expect("memory can be read");
    if let Some(record) = stored.filter(|_| pair.dice.chance(90)) {
        let off = u64::from(pair.dice.chance(5));
        fence = Fence { owner: record.owner.id, epoch: Epoch(record.epoch.0 + off) };
    }
    (Actor::Child(child), fence)
}

async fn write_steps(pair: &mut Pair) {
    let (actor, fence) = random_actor(pair).await;
    let acknowledge = if pair.dice.chance(10) { some_claims(pair).await } else { vec![] };
    let journal = pair.reference.steps(&actor).await.expect("memory can be read");
    let mut next = journal.len() as u32;
    let mut changes = Vec::new();
    for _ in 0..pair.dice.upto(3) {
        let seq = if pair.dice.chance(90) { next.saturating_sub(1) } else { pair.dice.below(6) as u32 };
        changes.push(match pair.dice.below(4) {
            0 => StepChange::Finish { seq, product: Product::Opened(vec![]) },
            1 => StepChange::Fail { seq, error: "no".to_owned() },
            _ => {
                next += 1;
                StepChange::Intend {
                    seq: if pair.dice.chance(95) { next - 1 } else { seq },
                    action: Action::Model,
                }
            }
        });
    }
    let turn = match &actor {
        Actor::Session(session) if pair.dice.chance(50) => Some(sessions::random_turn(pair, session).await),
        Actor::Session(_) => None,
        Actor::Child(_) if pair.dice.chance(3) => {
            Some(sessions::random_turn(pair, &sample::session_id(1)).await)
        }
        Actor::Child(_) => None,
    };
    let seen = steers::some_seen(pair, &actor, &changes).await;
    let write = WriteSteps { actor, fence, at: pair.at(), changes, acknowledge, turn, seen };
    pair.both(&write, |store| store.write_steps(write.clone())).await;
}

async fn groups(pair: &mut Pair) {
    let (actor, fence) = random_actor(pair).await;
    let group = sample::group(pair.dice.upto(2));
    let what = (&actor, &fence, &group);
    if pair.dice.chance(60) {
        pair.both(&what, |store| store.note_group(fence.clone(), actor.clone(), group.clone())).await;
    } else {
        pair.both(&what, |store| store.drop_group(actor.clone(), group.clone())).await;
    }
}

async fn pulses(pair: &mut Pair) {
    let (actor, fence) = random_actor(pair).await;
    let Actor::Child(child) = actor else { return };
    let deaths = Deaths { attempt: pair.dice.upto(4), ..Deaths::default() };
    let pulse = Pulse { beat: pair.at().0.unsigned_abs(), deaths, ..Pulse::default() };
    let (pulses, at) = (vec![(child, pulse)], pair.at());
    pair.both(&pulses, |store| store.note_pulses(fence.clone(), at, pulses.clone())).await;
}

async fn take_over(pair: &mut Pair) {
    let (from, to) = (sample::owner_id(pair.dice.upto(OWNERS)), sample::owner_id(pair.dice.upto(OWNERS)));
    let at = pair.at();
    let open = pair.reference.delegations(Filter::Open).await.expect("the reference reads").rows;
    let mut pulses = Vec::new();
    for child in open.iter().flat_map(|record| &record.accepted.children) {
        if pair.dice.chance(50) {
            let deaths = Deaths { attempt: pair.dice.upto(4), ..Deaths::default() };
            pulses.push((child.clone(), Pulse { beat: at.0.unsigned_abs(), deaths, ..Pulse::default() }));
        }
    }
    let mut delegations: Vec<DelegationId> =
        open.into_iter().map(|record| record.accepted.delegation).collect();
    delegations.retain(|_| pair.dice.chance(70));
    let takeover = Takeover { from, to, delegations, at, pulses };
    pair.both(&takeover, |store| store.take_over(takeover.clone())).await;
}

async fn prune(pair: &mut Pair) {
    let before = Timestamp(pair.at().0 - pair.dice.below(40) as i64);
    pair.both(&before, |store| store.prune(before)).await;
}
