//! All states and events of both machines, with small numbers for what is counted. Each list follows a match without a
//! wildcard arm, so that a new variant does not compile before it is listed.

use legwork_core::child::{AfterLoss, ChildEvent, ChildState, Slot};
use legwork_core::delivery::{DeliveryEvent, DeliveryState, Lead, ParkReason};
use legwork_core::ids::ClaimId;
use legwork_core::outcome::{Ending, FailureKind, Force, Limit, Outcome, StopReason};

/// Runs are told apart up to this number.
pub const ATTEMPTS_MAX: u32 = 3;

fn all<T: Copy>(first: T, next: impl Fn(T) -> Option<T>) -> Vec<T> {
    std::iter::successors(Some(first), |value| next(*value)).collect()
}

pub fn reasons() -> Vec<StopReason> {
    use StopReason as R;
    all(R::Cancelled, |reason| match reason {
        R::Cancelled => Some(R::ParentStopped),
        R::ParentStopped => Some(R::Stalled),
        R::Stalled => Some(R::TimedOut),
        R::TimedOut => Some(R::SessionEnded),
        R::SessionEnded => Some(R::OwnerLost),
        R::OwnerLost => Some(R::Shutdown),
        R::Shutdown => None,
    })
}

pub fn forces() -> Vec<Force> {
    all(Force::Ask, |force| match force {
        Force::Ask => Some(Force::Abort),
        Force::Abort => None,
    })
}

pub fn limits() -> Vec<Limit> {
    all(Limit::Steps, |limit| match limit {
        Limit::Steps => Some(Limit::Spend),
        Limit::Spend => Some(Limit::Output),
        Limit::Output => None,
    })
}

pub fn failures() -> Vec<FailureKind> {
    use FailureKind as F;
    all(F::Setup, |kind| match kind {
        F::Setup => Some(F::Model),
        F::Model => Some(F::Tool),
        F::Tool => Some(F::EmptyAnswer),
        F::EmptyAnswer => Some(F::Store),
        F::Store => Some(F::Panicked),
        F::Panicked => None,
    })
}

fn slots() -> Vec<Slot> {
    all(Slot::Held, |slot| match slot {
        Slot::Held => Some(Slot::Free),
        Slot::Free => None,
    })
}

fn park_reasons() -> Vec<ParkReason> {
    all(ParkReason::SessionGone, |reason| match reason {
        ParkReason::SessionGone => Some(ParkReason::NoConversation),
        ParkReason::NoConversation => Some(ParkReason::WriteFailed),
        ParkReason::WriteFailed => None,
    })
}

fn leads() -> Vec<Lead> {
    all(Lead::Told, |lead| match lead {
        Lead::Told => Some(Lead::GivenUp),
        Lead::GivenUp => None,
    })
}

pub fn endings() -> Vec<Ending> {
    let cut = limits().into_iter().map(Ending::CutShort);
    let failed = failures().into_iter().map(Ending::Failed);
    [Ending::Answered, Ending::Interrupted].into_iter().chain(cut).chain(failed).collect()
}

pub fn outcomes() -> Vec<Outcome> {
    let partial = limits().into_iter().map(Outcome::Partial);
    let failed = failures().into_iter().map(Outcome::Failed);
    let stopped = reasons().into_iter().map(Outcome::Stopped);
    [Outcome::Succeeded, Outcome::Lost].into_iter().chain(partial).chain(failed).chain(stopped).collect()
}

/// Every child state whose runs are numbered up to `ATTEMPTS_MAX`.
pub fn child_states() -> Vec<ChildState> {
    let mut states: Vec<ChildState> = outcomes().into_iter().map(ChildState::Settled).collect();
    states.extend((0..=ATTEMPTS_MAX).map(|attempts| ChildState::Queued { attempts }));
    for attempt in 1..=ATTEMPTS_MAX {
        states.push(ChildState::Running { attempt });
        states.push(ChildState::Parked { attempt });
        states.push(ChildState::Waiting { attempt });
        for (cause, force) in stops() {
            for slot in slots() {
                states.push(ChildState::Stopping { attempt, cause, force, slot });
            }
        }
    }
    states
}

pub fn child_events() -> Vec<ChildEvent> {
    let plain =
        [ChildEvent::Started, ChildEvent::Parked, ChildEvent::Unparked, ChildEvent::SlotGranted].into_iter();
    let asked = stops().into_iter().map(|(reason, force)| ChildEvent::StopAsked { reason, force });
    let returned = endings().into_iter().map(ChildEvent::Returned);
    let lost = [AfterLoss::Requeue, AfterLoss::GiveUp].into_iter().map(ChildEvent::OwnerLost);
    plain.chain(asked).chain(returned).chain(lost).collect()
}

pub fn stops() -> Vec<(StopReason, Force)> {
    reasons().into_iter().flat_map(|reason| forces().into_iter().map(move |force| (reason, force))).collect()
}

/// Two takers are enough to have a current and a stale one.
pub fn claims() -> Vec<ClaimId> {
    vec![ClaimId::from_bits(1), ClaimId::from_bits(2)]
}

/// Every delivery state that was given back up to twice.
pub fn delivery_states() -> Vec<DeliveryState> {
    let mut states = vec![DeliveryState::Held, DeliveryState::Delivered, DeliveryState::Dismissed];
    for tries in 0..=2 {
        states.push(DeliveryState::Ready { tries });
        states.extend(claims().into_iter().map(|claim| DeliveryState::Claimed { claim, tries }));
    }
    states.extend(park_reasons().into_iter().map(DeliveryState::Parked));
    states
}

pub fn delivery_events() -> Vec<DeliveryEvent> {
    let mut events = vec![DeliveryEvent::UnitSettled, DeliveryEvent::Unparked, DeliveryEvent::Dismissed];
    events.extend(leads().into_iter().map(DeliveryEvent::Followed));
    for claim in claims() {
        events.push(DeliveryEvent::Claimed(claim.clone()));
        events.push(DeliveryEvent::Acked(claim.clone()));
        events.push(DeliveryEvent::Released(claim.clone()));
        events.extend(park_reasons().into_iter().map(|reason| DeliveryEvent::Parked(claim.clone(), reason)));
    }
    events
}
