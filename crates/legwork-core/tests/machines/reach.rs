//! What can be reached from the start, and what no road leads to.

use crate::alphabet::{ATTEMPTS_MAX, child_events, child_states, delivery_events, delivery_states, stops};
use crate::delivery_table::is_stale;
use legwork_core::child::{ChildEvent, ChildState};
use legwork_core::delivery::{DeliveryEvent, DeliveryState, Lead};
use legwork_core::outcome::{Ending, Outcome};

/// Every state that some sequence of events leads to from `start`, within `bounds`.
fn reachable<S: Clone + PartialEq>(
    start: S,
    moves: impl Fn(&S) -> Vec<S>,
    bounds: impl Fn(&S) -> bool,
) -> Vec<S> {
    let mut found = vec![start];
    let mut next = 0;
    while next < found.len() {
        let state = found[next].clone();
        let new = moves(&state).into_iter().filter(|state| bounds(state));
        for state in new {
            if !found.contains(&state) {
                found.push(state);
            }
        }
        next += 1;
    }
    found
}

fn child_moves(state: &ChildState) -> Vec<ChildState> {
    child_events().into_iter().filter_map(|event| state.apply(event).ok()).collect()
}

fn reachable_children() -> Vec<ChildState> {
    let known = child_states();
    reachable(ChildState::NEW, child_moves, |state| known.contains(state))
}

fn delivery_moves(state: &DeliveryState) -> Vec<DeliveryState> {
    delivery_events().into_iter().filter_map(|event| state.apply(event).ok()).collect()
}

fn reachable_deliveries() -> Vec<DeliveryState> {
    let known = delivery_states();
    reachable(DeliveryState::Held, delivery_moves, |state| known.contains(state))
}

/// Proves REG-3.
#[test]
fn every_child_state_is_reached_and_no_other() {
    let reached = reachable_children();
    let unreached: Vec<ChildState> =
        child_states().into_iter().filter(|state| !reached.contains(state)).collect();
    assert_eq!(unreached, [], "states that the machine has for nothing, with runs up to {ATTEMPTS_MAX}");
}

/// Proves REG-6.
#[test]
fn k14_settled_absorbs_everything() {
    for state in reachable_children().into_iter().filter(|state| state.outcome().is_some()) {
        assert_eq!(child_moves(&state), [], "{state:?}");
    }
}

#[test]
fn k16_every_open_child_can_settle_by_one_event() {
    for state in reachable_children().into_iter().filter(|state| state.outcome().is_none()) {
        let settles = child_moves(&state).into_iter().any(|next| next.outcome().is_some());
        assert!(settles, "{state:?}");
    }
}

#[test]
fn k20_the_first_cause_stays_and_force_never_falls() {
    for state in reachable_children() {
        let ChildState::Stopping { cause, force, slot, .. } = state else { continue };
        for event in child_events() {
            match state.apply(event) {
                Ok(ChildState::Stopping { cause: kept, force: now, slot: still, .. }) => {
                    assert_eq!((kept, still), (cause, slot), "{state:?} takes {event:?}");
                    assert!(now >= force, "{state:?} takes {event:?}");
                }
                Ok(ChildState::Settled(Outcome::Stopped(reported))) => assert_eq!(reported, cause),
                Ok(ChildState::Settled(outcome)) => {
                    assert!(matches!(outcome, Outcome::Succeeded | Outcome::Partial(_)), "{outcome:?}");
                }
                Ok(next) => panic!("{state:?} came back as {next:?} by {event:?}"),
                Err(_) => {}
            }
        }
    }
}

#[test]
fn k12_no_stop_leaves_an_open_child_as_it_was() {
    for state in reachable_children().into_iter().filter(|state| state.outcome().is_none()) {
        for (reason, force) in stops() {
            let next = state.apply(ChildEvent::StopAsked { reason, force });
            let next = next.expect("every open child takes a stop");
            assert!(
                matches!(next, ChildState::Stopping { .. } | ChildState::Settled(Outcome::Stopped(_))),
                "{next:?}"
            );
        }
    }
}

#[test]
fn k14_a_runner_that_answered_is_believed_whatever_came_before() {
    for state in reachable_children().into_iter().filter(|state| state.has_runner()) {
        let answered = state.apply(ChildEvent::Returned(Ending::Answered));
        assert_eq!(answered, Ok(ChildState::Settled(Outcome::Succeeded)), "{state:?}");
    }
}

#[test]
fn k12_nothing_starts_after_it_was_stopped() {
    let stopped =
        reachable_children().into_iter().filter(|state| matches!(state, ChildState::Stopping { .. }));
    for state in stopped {
        let onward = reachable(state, child_moves, |_| true);
        let revived = onward
            .iter()
            .find(|state| !matches!(state, ChildState::Stopping { .. } | ChildState::Settled(_)));
        assert_eq!(revived, None, "from {state:?}");
    }
}

#[test]
fn every_delivery_state_is_reached_and_no_other() {
    let reached = reachable_deliveries();
    let unreached: Vec<DeliveryState> =
        delivery_states().into_iter().filter(|state| !reached.contains(state)).collect();
    assert_eq!(unreached, []);
}

/// Proves DUR-13.
#[test]
fn k05_a_final_delivery_never_moves_and_an_open_one_can_always_become_final() {
    for state in reachable_deliveries() {
        if state.is_final() {
            assert_eq!(delivery_moves(&state), [], "{state:?}");
        } else {
            let known = delivery_states();
            let onward = reachable(state.clone(), delivery_moves, |state| known.contains(state));
            assert!(onward.contains(&DeliveryState::Delivered), "{state:?}");
        }
    }
}

#[test]
fn k06_a_stale_claim_can_neither_ack_nor_release_nor_park() {
    for state in reachable_deliveries() {
        for event in delivery_events().into_iter().filter(|event| is_stale(&state, event)) {
            assert!(state.apply(event.clone()).is_err(), "{state:?} takes {event:?}");
        }
    }
}

/// Or the claim of what is above, for what nobody had read.
#[test]
fn k06_only_the_current_claim_delivers() {
    let others = |event: &DeliveryEvent| *event != DeliveryEvent::Followed(Lead::Told);
    for state in reachable_deliveries() {
        for event in delivery_events().into_iter().filter(others) {
            if state.apply(event.clone()) == Ok(DeliveryState::Delivered) {
                let DeliveryState::Claimed { claim, .. } = &state else { panic!("{state:?} by {event:?}") };
                assert_eq!(event, DeliveryEvent::Acked(claim.clone()));
            }
        }
    }
}
