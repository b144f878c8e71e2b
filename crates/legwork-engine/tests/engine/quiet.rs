//! A child that was ended for want of progress, and whose process died in its grace: whoever finds it says the same reason.

use crate::scene::{DEAD, STALL_GRACE, Scene, TOOL_PATIENCE, options, owner};
use legwork_core::batch::Ticket;
use legwork_core::child::ChildState;
use legwork_core::completion::{BatchResult, Entry};
use legwork_core::outcome::{StopReason, WireStatus};
use legwork_core::ports::Facts;
use legwork_core::pulse::LineEvent;
use legwork_core::record::DelegationRecord;
use legwork_engine::recovery::{Conclusion, Orphans, Rescuer, settle};
use legwork_engine::{Options, Patience};
use legwork_testkit::memory::MemoryStore;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Who finds what is left.
#[derive(Clone, Copy)]
enum Heir {
    /// It goes on with what may go on.
    Engine,
    /// It only concludes.
    Nobody,
    /// It stops everything.
    Stopper,
}

/// The child is told to end by the supervisor, does not, and its process dies before its grace is over.
async fn died_in_the_grace(memory: &MemoryStore, options: Options, quiet: Duration) -> Ticket {
    let dead = Scene::over(memory.clone(), DEAD, options).await;
    let ticket = dead.dispatch(&["deaf"]).await;
    dead.troupe.until_here("deaf").await;
    dead.troupe.line("deaf").tell(LineEvent::ModelCalled);
    let tool = LineEvent::ToolStarted {
        call: "c1".to_owned(),
        tool: "terminal".to_owned(),
        arguments: "make".to_owned(),
    };
    dead.troupe.line("deaf").tell(tool);
    dead.pass(quiet).await;
    let record = memory.delegation(&ticket.delegation).await.expect("it reads").expect("it is stored");
    assert!(matches!(record.children[0].state, ChildState::Stopping { .. }), "{record:?}");
    ticket
}

async fn found_by(heir: Heir, memory: &MemoryStore, ticket: &Ticket) -> Entry {
    let scene = Scene::over(memory.clone(), 2, options(1)).await;
    let conclusion = match heir {
        Heir::Engine => {
            let recovered = scene.recover(&Orphans::All).await;
            assert_eq!(recovered.stopping, 1);
            return entry_of(&scene.joined(ticket).await);
        }
        Heir::Nobody => Conclusion::Reported,
        Heir::Stopper => Conclusion::Stopped(StopReason::Cancelled),
    };
    let processes = scene.wiring.processes.as_ref();
    let rescuer = Rescuer { store: memory, clock: scene.wiring.clock, owner: &owner(2), processes };
    let recovered = settle(rescuer, &Orphans::All, conclusion).await.expect("the store works");
    assert_eq!(recovered.stopping, 1);
    entry_of(&scene.stored(&ticket.delegation).await)
}

fn entry_of(record: &DelegationRecord) -> Entry {
    BatchResult::of(record).results.remove(0)
}

/// Proves RUN-15, RUN-16.
#[tokio::test(start_paused = true)]
async fn k14_why_a_child_was_ended_at_its_limit_outlives_its_process() {
    for heir in [Heir::Engine, Heir::Nobody, Heir::Stopper] {
        let memory = MemoryStore::new();
        let patience = Patience { inactivity: Some(LIMIT), ..options(1).patience };
        let with_limit = Options { patience, stop_grace: LIMIT, ..options(1) };
        let ticket = died_in_the_grace(&memory, with_limit, LIMIT + LIMIT / 2).await;
        let entry = found_by(heir, &memory, &ticket).await;
        assert_eq!(entry.status, WireStatus::Timeout);
        let keys = entry.aside.timeout.expect("the keys of a timeout");
        let phase = keys.timeout_phase.as_deref();
        assert_eq!((keys.timeout_seconds, phase), (Some(60.0), Some("after_llm_calls")));
        assert!(keys.last_event_age.is_some_and(|age| (60.0..70.0).contains(&age)), "{keys:?}");
        assert!(entry.error.is_some_and(|error| error.starts_with("timed out")));
    }
}

/// Proves STALL-6.
#[tokio::test(start_paused = true)]
async fn k14_why_a_child_was_ended_because_nothing_moved_outlives_its_process() {
    for heir in [Heir::Engine, Heir::Nobody, Heir::Stopper] {
        let memory = MemoryStore::new();
        let quiet = TOOL_PATIENCE + STALL_GRACE / 2;
        let ticket = died_in_the_grace(&memory, options(1), quiet).await;
        let entry = found_by(heir, &memory, &ticket).await;
        assert_eq!((entry.status, entry.exit_reason.as_str()), (WireStatus::Stalled, "stalled"));
        let stall = entry.aside.stall.expect("the facts of a stall");
        let patience = TOOL_PATIENCE.as_secs_f64();
        assert!((patience..patience + 10.0).contains(&stall.stalled_after_quiet_seconds), "{stall:?}");
        assert_eq!((stall.stall_threshold_seconds, stall.stall_phase.as_str()), (patience, "in_tool"));
        assert_eq!(stall.stall_grace_seconds, STALL_GRACE.as_secs_f64());
    }
}
