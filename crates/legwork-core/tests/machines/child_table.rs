//! Every state of a child × every event.

use crate::alphabet::{child_events, child_states};
use crate::table::Table;
use legwork_core::child::{AfterLoss, ChildEvent, ChildState, IllegalTransition, Slot};
use legwork_core::ids::ChildId;
use legwork_core::outcome::{Ending, Outcome, StopReason};
use legwork_core::record::ChildRecord;
use legwork_core::time::Timestamp;

/// What the machine must do; `-` is a move that it does not have.
const TABLE: &str = "
in       | Started | Parked | Unparked | SlotGranted | StopAsked      | Answered  | CutShort | Failed         | Interrupted    | Requeued       | GivenUp
Queued   | Running | -      | -        | -           | Stopped(asked) | -         | -        | -              | -              | Queued         | Stopped(owner lost)
Running  | -       | Parked | -        | -           | Stopping(new)  | Succeeded | Partial  | Failed         | -              | Queued         | Lost
Parked   | -       | -      | Waiting  | -           | Stopping(new)  | Succeeded | Partial  | Failed         | -              | Queued         | Lost
Waiting  | -       | -      | -        | Running     | Stopping(new)  | Succeeded | Partial  | Failed         | -              | Queued         | Lost
Stopping | -       | -      | -        | -           | Stopping(more) | Succeeded | Partial  | Stopped(cause) | Stopped(cause) | Stopped(cause) | Stopped(cause)
Settled  | -       | -      | -        | -           | -              | -         | -        | -              | -              | -              | -
";

pub fn state_name(state: ChildState) -> &'static str {
    match state {
        ChildState::Queued { .. } => "Queued",
        ChildState::Running { .. } => "Running",
        ChildState::Parked { .. } => "Parked",
        ChildState::Waiting { .. } => "Waiting",
        ChildState::Stopping { .. } => "Stopping",
        ChildState::Settled(_) => "Settled",
    }
}

pub fn event_name(event: ChildEvent) -> &'static str {
    match event {
        ChildEvent::Started => "Started",
        ChildEvent::Parked => "Parked",
        ChildEvent::Unparked => "Unparked",
        ChildEvent::SlotGranted => "SlotGranted",
        ChildEvent::StopAsked { .. } => "StopAsked",
        ChildEvent::Returned(Ending::Answered) => "Answered",
        ChildEvent::Returned(Ending::CutShort(_)) => "CutShort",
        ChildEvent::Returned(Ending::Failed(_)) => "Failed",
        ChildEvent::Returned(Ending::Interrupted) => "Interrupted",
        ChildEvent::OwnerLost(AfterLoss::Requeue) => "Requeued",
        ChildEvent::OwnerLost(AfterLoss::GiveUp) => "GivenUp",
    }
}

/// How many runs of the child were begun.
fn runs(state: ChildState) -> u32 {
    match state {
        ChildState::Queued { attempts: runs }
        | ChildState::Running { attempt: runs }
        | ChildState::Parked { attempt: runs }
        | ChildState::Waiting { attempt: runs }
        | ChildState::Stopping { attempt: runs, .. } => runs,
        ChildState::Settled(_) => 0,
    }
}

/// The state that a word of the table stands for.
fn meant(word: &str, state: ChildState, event: ChildEvent) -> Option<ChildState> {
    let attempt = runs(state);
    let settled = |outcome| Some(ChildState::Settled(outcome));
    match (word, state, event) {
        ("-", _, _) => None,
        ("Queued", _, _) => Some(ChildState::Queued { attempts: attempt }),
        ("Running", ChildState::Queued { .. }, _) => Some(ChildState::Running { attempt: attempt + 1 }),
        ("Running", _, _) => Some(ChildState::Running { attempt }),
        ("Parked", _, _) => Some(ChildState::Parked { attempt }),
        ("Waiting", _, _) => Some(ChildState::Waiting { attempt }),
        ("Stopping(new)", _, ChildEvent::StopAsked { reason: cause, force }) => {
            let slot = if matches!(state, ChildState::Running { .. }) { Slot::Held } else { Slot::Free };
            Some(ChildState::Stopping { attempt, cause, force, slot })
        }
        (
            "Stopping(more)",
            ChildState::Stopping { cause, force, slot, .. },
            ChildEvent::StopAsked { force: more, .. },
        ) => Some(ChildState::Stopping { attempt, cause, force: force.max(more), slot }),
        ("Stopped(asked)", _, ChildEvent::StopAsked { reason, .. }) => settled(Outcome::Stopped(reason)),
        ("Stopped(cause)", ChildState::Stopping { cause, .. }, _) => settled(Outcome::Stopped(cause)),
        ("Stopped(owner lost)", _, _) => settled(Outcome::Stopped(StopReason::OwnerLost)),
        ("Succeeded", _, _) => settled(Outcome::Succeeded),
        ("Partial", _, ChildEvent::Returned(Ending::CutShort(limit))) => settled(Outcome::Partial(limit)),
        ("Failed", _, ChildEvent::Returned(Ending::Failed(kind))) => settled(Outcome::Failed(kind)),
        ("Lost", _, _) => settled(Outcome::Lost),
        (word, state, event) => panic!("{word} means nothing for {state:?} and {event:?}"),
    }
}

#[test]
fn k14_the_child_machine_is_its_table() {
    let table = Table::parse(TABLE);
    for state in child_states() {
        for event in child_events() {
            let expected = meant(table.cell(state_name(state), event_name(event)), state, event);
            let expected = expected.ok_or(IllegalTransition { state, event });
            assert_eq!(state.apply(event), expected, "{state:?} takes {event:?}");
        }
    }
}

/// Proves REG-3.
#[test]
fn k16_who_holds_a_slot_has_a_runner() {
    for state in child_states() {
        let (slot, runner) = match state {
            ChildState::Queued { .. } | ChildState::Settled(_) => (false, false),
            ChildState::Running { .. } | ChildState::Stopping { slot: Slot::Held, .. } => (true, true),
            ChildState::Parked { .. }
            | ChildState::Waiting { .. }
            | ChildState::Stopping { slot: Slot::Free, .. } => (false, true),
        };
        assert_eq!((state.holds_slot(), state.has_runner()), (slot, runner), "{state:?}");
    }
}

#[test]
fn k14_a_stored_row_takes_what_its_machine_takes_and_is_else_unchanged() {
    let (first, later) = (Timestamp(1), Timestamp(2));
    for state in child_states() {
        for event in child_events() {
            let id = ChildId::from_bits(0, 1);
            let before = ChildRecord { state, started_at: Some(first), ..ChildRecord::new(id) };
            let mut row = before.clone();
            match (row.apply(event, later), state.apply(event)) {
                (Ok(()), Ok(next)) => {
                    assert_eq!(row.state, next);
                    assert_eq!(row.started_at, Some(first), "a later run does not move the first start");
                    assert_eq!(row.ended_at, next.outcome().map(|_| later));
                }
                (Err(refused), Err(expected)) => assert_eq!((refused, row), (expected, before)),
                (row, machine) => panic!("{state:?} takes {event:?}: row {row:?}, machine {machine:?}"),
            }
        }
    }
}
