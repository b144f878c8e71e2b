//! Every state of a delivery × every event.

use crate::alphabet::{delivery_events, delivery_states};
use crate::table::Table;
use legwork_core::delivery::{DeliveryEvent, DeliveryState, IllegalDelivery, Lead};
use legwork_core::ids::ClaimId;

/// What the machine must do with the claim that is current; `-` is a move that it does not have.
const TABLE: &str = "
in        | UnitSettled | Claimed | Acked     | Released    | Parked | Unparked | Dismissed | ToldAbove | GivenUpAbove
Held      | Ready(0)    | -       | -         | -           | -      | -        | -         | -         | -
Ready     | -           | Claimed | -         | -           | -      | -        | Dismissed | Delivered | Dismissed
Claimed   | -           | -       | Delivered | Ready(more) | Parked | -        | -         | Delivered | Dismissed
Parked    | -           | -       | -         | -           | -      | Ready(0) | Dismissed | Delivered | Dismissed
Delivered | -           | -       | -         | -           | -      | -        | -         | -         | -
Dismissed | -           | -       | -         | -           | -      | -        | -         | -         | -
";

pub fn state_name(state: &DeliveryState) -> &'static str {
    match state {
        DeliveryState::Held => "Held",
        DeliveryState::Ready { .. } => "Ready",
        DeliveryState::Claimed { .. } => "Claimed",
        DeliveryState::Parked(_) => "Parked",
        DeliveryState::Delivered => "Delivered",
        DeliveryState::Dismissed => "Dismissed",
    }
}

pub fn event_name(event: &DeliveryEvent) -> &'static str {
    match event {
        DeliveryEvent::UnitSettled => "UnitSettled",
        DeliveryEvent::Claimed(_) => "Claimed",
        DeliveryEvent::Acked(_) => "Acked",
        DeliveryEvent::Released(_) => "Released",
        DeliveryEvent::Parked(..) => "Parked",
        DeliveryEvent::Unparked => "Unparked",
        DeliveryEvent::Dismissed => "Dismissed",
        DeliveryEvent::Followed(Lead::Told) => "ToldAbove",
        DeliveryEvent::Followed(Lead::GivenUp) => "GivenUpAbove",
    }
}

/// The claim that an event speaks for; a new claim speaks for nobody yet.
pub fn speaks_for(event: &DeliveryEvent) -> Option<&ClaimId> {
    match event {
        DeliveryEvent::Acked(claim) | DeliveryEvent::Released(claim) | DeliveryEvent::Parked(claim, _) => {
            Some(claim)
        }
        DeliveryEvent::UnitSettled
        | DeliveryEvent::Claimed(_)
        | DeliveryEvent::Unparked
        | DeliveryEvent::Dismissed
        | DeliveryEvent::Followed(_) => None,
    }
}

pub fn is_stale(state: &DeliveryState, event: &DeliveryEvent) -> bool {
    match (state, speaks_for(event)) {
        (DeliveryState::Claimed { claim, .. }, Some(by)) => claim != by,
        (_, speaker) => speaker.is_some(),
    }
}

/// The state that a word of the table stands for.
fn meant(word: &str, state: &DeliveryState, event: &DeliveryEvent) -> Option<DeliveryState> {
    let given_back = match state {
        DeliveryState::Ready { tries } | DeliveryState::Claimed { tries, .. } => *tries,
        DeliveryState::Held
        | DeliveryState::Parked(_)
        | DeliveryState::Delivered
        | DeliveryState::Dismissed => 0,
    };
    match (word, event) {
        ("-", _) => None,
        ("Ready(0)", _) => Some(DeliveryState::Ready { tries: 0 }),
        ("Ready(more)", _) => Some(DeliveryState::Ready { tries: given_back + 1 }),
        ("Claimed", DeliveryEvent::Claimed(claim)) => {
            Some(DeliveryState::Claimed { claim: claim.clone(), tries: given_back })
        }
        ("Parked", DeliveryEvent::Parked(_, reason)) => Some(DeliveryState::Parked(*reason)),
        ("Delivered", _) => Some(DeliveryState::Delivered),
        ("Dismissed", _) => Some(DeliveryState::Dismissed),
        (word, event) => panic!("{word} means nothing for {state:?} and {event:?}"),
    }
}

/// Proves DUR-10.
#[test]
fn k06_the_delivery_machine_is_its_table() {
    let table = Table::parse(TABLE);
    for state in delivery_states() {
        for event in delivery_events() {
            let word = if is_stale(&state, &event) {
                "-"
            } else {
                table.cell(state_name(&state), event_name(&event))
            };
            let expected = meant(word, &state, &event);
            let refused = IllegalDelivery { state: state.clone(), event: event.clone() };
            assert_eq!(state.apply(event.clone()), expected.ok_or(refused), "{state:?} takes {event:?}");
        }
    }
}

#[test]
fn k05_final_are_those_that_never_move() {
    for state in delivery_states() {
        let is_end = matches!(state, DeliveryState::Delivered | DeliveryState::Dismissed);
        let moves = delivery_events().into_iter().filter(|event| state.apply(event.clone()).is_ok()).count();
        assert_eq!((state.is_final(), moves == 0), (is_end, is_end), "{state:?}");
    }
}
