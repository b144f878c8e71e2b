//! Ids that were drawn twice: 32 bits are few, and whoever has them first keeps them (invariant 36).

use crate::scene::{Scene, batch, options, owner};
use legwork_core::batch::{Completions, Ticket};
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::Outcome;
use legwork_core::ports::{Delegator, DispatchError, Heading, TranscriptError, Transcripts};
use legwork_core::pulse::LineEvent;
use legwork_core::time::Timestamp;
use legwork_engine::{Engine, Wiring};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Transcripts that note whose were discarded.
#[derive(Default)]
struct Discarding {
    discarded: Mutex<Vec<DelegationId>>,
}

impl Transcripts for Discarding {
    fn create(&self, headings: &[Heading]) -> Result<Vec<String>, TranscriptError> {
        Ok(headings.iter().map(|heading| format!("/live/task-{}.log", heading.task_index)).collect())
    }

    fn discard(&self, delegation: &DelegationId) {
        self.discarded.lock().unwrap_or_else(PoisonError::into_inner).push(delegation.clone());
    }

    fn reopen(
        &self,
        _: &[Heading],
        _: &[(usize, Outcome, Timestamp)],
        _: Timestamp,
    ) -> Result<(), TranscriptError> {
        Ok(())
    }

    fn append(&self, _: &ChildId, _: Timestamp, _: &LineEvent) {}

    fn finish(&self, _: &ChildId, _: Timestamp, _: Outcome, _: Option<&str>) {}
}

/// The bits of the second engine's first ids.
const FIRST: u64 = 2 << 24;

/// Draws that begin with `first`, and are new ones from then on. Ids are drawn in the order delegation, children.
fn draws(first: Vec<u64>) -> Arc<dyn Fn() -> u64 + Send + Sync> {
    let count = AtomicU64::new(0);
    Arc::new(move || {
        let n = count.fetch_add(1, Ordering::Relaxed);
        first.get(n as usize).copied().unwrap_or(FIRST + n)
    })
}

/// The number in an id.
fn bits(id: &str) -> u64 {
    let digits = id.rsplit(['_', '-']).next().expect("an id has digits");
    u64::from_str_radix(digits, 16).expect("they are hexadecimal")
}

fn ids(ticket: &Ticket) -> (u64, u64) {
    (bits(ticket.delegation.as_str()), bits(ticket.children[0].as_str()))
}

/// An engine of another process over the same store, with these draws.
async fn beside(scene: &Scene, draws: Arc<dyn Fn() -> u64 + Send + Sync>) -> (Engine, Arc<Discarding>) {
    let transcripts = Arc::new(Discarding::default());
    let wiring =
        Wiring { bits: draws, transcripts: transcripts.clone(), owner: owner(2), ..scene.wiring.clone() };
    (Engine::start(options(2), wiring).await.expect("it starts"), transcripts)
}

#[tokio::test(start_paused = true)]
async fn inv_36_ids_that_the_store_knows_are_drawn_again_and_the_older_work_is_left_alone() {
    for for_another in [false, true] {
        let scene = Scene::new(2).await;
        let older = scene.dispatch(&["answer"]).await;
        let before = scene.joined(&older).await;
        let (delegation, child) = ids(&older);
        // Once the id of the delegation is drawn again, and once that of its child.
        let (engine, transcripts) =
            beside(&scene, draws(vec![delegation, FIRST + 90, FIRST + 91, child])).await;
        let handle = engine.handle();
        let newer = match for_another {
            false => handle.dispatch(batch(&["answer"])).await,
            true => handle.accept_for_another(batch(&["answer"]), Completions::Together).await,
        };
        let newer = newer.expect("other ids are drawn");
        assert!(ids(&newer).0 != delegation && ids(&newer).1 != child, "{newer:?}");
        let discarded = transcripts.discarded.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert!(!discarded.contains(&older.delegation), "the transcripts of the older one are kept");
        assert_eq!(scene.stored(&older.delegation).await.accepted, before.accepted);
        assert_eq!(scene.stored(&newer.delegation).await.accepted.delegation, newer.delegation);
    }
}

#[tokio::test(start_paused = true)]
async fn inv_36_where_no_free_id_is_drawn_the_call_is_refused_and_nothing_is_taken_from_the_older_work() {
    let scene = Scene::new(2).await;
    let older = scene.dispatch(&["answer"]).await;
    scene.joined(&older).await;
    let (delegation, _) = ids(&older);
    let (engine, transcripts) = beside(&scene, draws(vec![delegation; 1000])).await;
    for answer in [
        engine.handle().dispatch(batch(&["answer"])).await,
        engine.handle().accept_for_another(batch(&["answer"]), Completions::Together).await,
    ] {
        let Err(DispatchError::Refused(error)) = answer else { panic!("{answer:?}") };
        assert!(error.to_string().contains("are in use; nothing was started"), "{error}");
    }
    let discarded = transcripts.discarded.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(discarded, []);
}

#[tokio::test(start_paused = true)]
async fn inv_36_ids_of_work_that_is_in_hand_are_drawn_again_and_it_ends_as_if_nothing_had_been() {
    let scene = Scene::new(2).await;
    let (engine, _) = beside(&scene, draws(vec![FIRST + 50, FIRST + 51, FIRST + 50, FIRST + 51])).await;
    let handle = engine.handle();
    let older = handle.dispatch(batch(&["until told"])).await.expect("it is accepted");
    assert_eq!(ids(&older), (FIRST + 50, FIRST + 51));
    let newer = handle.dispatch(batch(&["answer"])).await.expect("other ids are drawn");
    assert!(older.delegation != newer.delegation && older.children != newer.children, "{newer:?}");
    scene.troupe.until_here("until told").await;
    scene.troupe.say("told");
    for ticket in [older, newer] {
        let record = handle.join(&ticket.delegation).await.expect("it settles").record;
        assert_eq!(record.children[0].outcome(), Some(Outcome::Succeeded), "{ticket:?}");
    }
}
