//! What is told of running children, to watchers, to hosts and to transcripts.

use crate::scene::{DEAD, Scene, options, pushed};
use futures::FutureExt;
use legwork_core::batch::NewBatch;
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::Outcome;
use legwork_core::ports::{Delegator, Heading, LiveEvent, TranscriptError, Transcripts, Watch};
use legwork_core::pulse::LineEvent;
use legwork_core::relay::{News, Relay};
use legwork_core::time::Timestamp;
use legwork_engine::recovery::Orphans;
use legwork_testkit::memory::MemoryStore;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Transcripts that remember what they were told, or cannot be made.
#[derive(Default)]
struct Kept {
    notes: Mutex<Vec<String>>,
    contexts: Mutex<Vec<Option<String>>>,
    fails: bool,
    /// Somebody who watches, and the ends that they had heard of whenever a transcript was finished.
    watch: Mutex<Option<Box<dyn Watch>>>,
    heard: Mutex<Vec<usize>>,
}

impl Kept {
    fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, headings: &[Heading]) {
        let contexts = headings.iter().map(|heading| heading.context.clone());
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner).extend(contexts);
    }
}

impl Transcripts for Kept {
    fn create(&self, headings: &[Heading]) -> Result<Vec<String>, TranscriptError> {
        if self.fails {
            let source = std::io::Error::other("no room");
            return Err(TranscriptError { path: "/live".to_owned(), source });
        }
        self.remember(headings);
        Ok(headings.iter().map(|heading| format!("/live/task-{}.log", heading.task_index)).collect())
    }

    fn discard(&self, _: &DelegationId) {}

    fn reopen(
        &self,
        headings: &[Heading],
        _: &[(usize, Outcome, Timestamp)],
        _: Timestamp,
    ) -> Result<(), TranscriptError> {
        self.remember(headings);
        Ok(())
    }

    fn append(&self, _: &ChildId, _: Timestamp, event: &LineEvent) {
        if let LineEvent::Note(note) = event {
            self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note.clone());
        }
    }

    fn finish(&self, _: &ChildId, _: Timestamp, _: Outcome, _: Option<&str>) {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ends = 0;
        while let Some(Some(event)) = watch.as_mut().and_then(|watch| watch.next().now_or_never()) {
            ends += usize::from(matches!(event, LiveEvent::Settled { .. }));
        }
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(ends);
    }
}

async fn scene(kept: Kept) -> (Scene, Arc<Kept>) {
    let kept = Arc::new(kept);
    let store = Arc::new(MemoryStore::new());
    (Scene::writing(store, kept.clone(), (1, options(2))).await, kept)
}

fn note(text: &str) -> LineEvent {
    LineEvent::Note(text.to_owned())
}

#[tokio::test(start_paused = true)]
async fn evtc_04_without_a_watcher_only_the_transcript_hears() {
    let (scene, kept) = scene(Kept::default()).await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    let line = scene.troupe.line("until told");
    line.tell(note("nobody watches"));
    let mut watch = scene.handle.watch();
    line.tell(note("somebody watches"));
    let Some(LiveEvent::Told { event, .. }) = watch.next().await else { panic!("it is told") };
    assert_eq!(event, note("somebody watches"));
    assert_eq!(kept.notes(), ["nobody watches", "somebody watches"]);
    scene.troupe.say("told");
    scene.joined(&ticket).await;
}

/// Proves LIVE-11.
#[tokio::test(start_paused = true)]
async fn work_goes_on_without_transcripts_that_cannot_be_made() {
    let (scene, _) = scene(Kept { fails: true, ..Kept::default() }).await;
    let ticket = scene.dispatch(&["answer", "answer too"]).await;
    assert!(ticket.transcripts.is_empty() && ticket.delegation.as_str().starts_with("deleg_"), "{ticket:?}");
    let record = scene.joined(&ticket).await;
    assert!(record.children.iter().all(|child| child.outcome() == Some(Outcome::Succeeded)));
}

/// Proves DISP-15: whoever hears of an end finds its transcript and the manifest as they stay.
#[tokio::test(start_paused = true)]
async fn disp_15_a_transcript_is_finished_before_anybody_hears_of_the_end() {
    let (scene, kept) = scene(Kept::default()).await;
    *kept.watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(scene.handle.watch());
    let ticket = scene.dispatch(&["answer", "answer too"]).await;
    scene.joined(&ticket).await;
    let heard = kept.heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(heard, [0, 1], "at the second finish the first end was told, and no sooner");
}

/// Proves LIVE-13, DISP-21.
#[tokio::test(start_paused = true)]
async fn the_places_of_transcripts_are_stored_with_the_call() {
    let (scene, _) = scene(Kept::default()).await;
    let ticket = scene.dispatch(&["answer", "answer too"]).await;
    let paths = ["/live/task-0.log", "/live/task-1.log"];
    assert_eq!(
        (
            ticket.transcripts.as_slice(),
            scene.stored(&ticket.delegation).await.accepted.transcripts.as_slice()
        ),
        (&paths.map(str::to_owned)[..], &paths.map(str::to_owned)[..])
    );
    scene.joined(&ticket).await;
}

/// What a host receives until so many children have ended, in short.
async fn heard(watch: &mut dyn Watch, ends: usize) -> Vec<(String, u32, bool, News)> {
    let mut relay = Relay::default();
    let (mut heard, mut ended) = (Vec::new(), 0);
    while ended < ends {
        let event = watch.next().await.expect("the engine runs");
        ended += usize::from(matches!(event, LiveEvent::Settled { .. }));
        let events = relay.take(&event).into_iter();
        heard.extend(
            events.map(|event| (event.who.goal, event.who.depth, event.who.parent_id.is_some(), event.news)),
        );
    }
    heard
}

/// Proves BUILD-1, BUILD-28.
#[tokio::test(start_paused = true)]
async fn evtc_01_evtc_02_a_host_hears_of_a_tree_from_the_request_to_the_end() {
    let (scene, _) = scene(Kept::default()).await;
    let mut watch = scene.handle.watch();
    let ticket = scene.dispatch(&["tree 1 1"]).await;
    let heard = heard(watch.as_mut(), 2).await;
    scene.joined(&ticket).await;
    let course = |goal: &str| -> Vec<&(String, u32, bool, News)> {
        heard.iter().filter(|(told, ..)| told == goal).collect()
    };
    for (goal, depth, is_below) in [("tree 1 1", 1, false), ("tree 1 0", 2, true)] {
        let course = course(goal);
        assert!(course.iter().all(|event| (event.1, event.2) == (depth, is_below)), "{course:?}");
        let [(.., News::SpawnRequested), (.., News::Start), .., (.., News::Complete(end))] =
            course.as_slice()
        else {
            panic!("{course:?}")
        };
        assert_eq!(end.status.as_str(), "completed");
    }
    let place = |wanted: fn(&News) -> bool, goal: &str| {
        heard.iter().position(|(told, .., news)| told == goal && wanted(news)).expect("it is told")
    };
    let ended = |news: &News| matches!(news, News::Complete(_));
    assert!(place(ended, "tree 1 0") < place(ended, "tree 1 1"), "{heard:?}");
}

/// Proves DISP-25.
#[tokio::test(start_paused = true)]
async fn reg_16_reg_17_a_child_is_listed_with_its_facts_from_its_acceptance_to_its_end() {
    let (scene, _) = scene(Kept::default()).await;
    let ticket = scene.dispatch(&["until told"]).await;
    let other = scene.dispatch(&["until later"]).await;
    scene.troupe.until_here("until told").await;
    let (call, arguments) = ("c1".to_owned(), "make".to_owned());
    let event = LineEvent::ToolStarted { call, tool: "terminal".to_owned(), arguments };
    scene.troupe.line("until told").tell(event);
    let views = scene.handle.view(None).await;
    let view = views.iter().find(|view| view.child == ticket.children[0]).expect("it is listed");
    assert_eq!(
        (&view.delegation, view.goal.as_str(), view.task_count),
        (&ticket.delegation, "until told", 1)
    );
    assert_eq!((view.model.as_str(), &view.parent), ("scripted/troupe", &None));
    assert_eq!(view.transcript.as_deref(), Some("/live/task-0.log"));
    assert_eq!((view.pulse.tool_calls, view.pulse.phase_text()), (1, "tool terminal".to_owned()));
    assert_eq!(view.state.as_str(), "running");
    scene.troupe.say("told");
    scene.joined(&ticket).await;
    let left: Vec<ChildId> = scene.handle.view(None).await.into_iter().map(|view| view.child).collect();
    assert_eq!(left, other.children, "the end of one takes no other off the list");
    scene.troupe.say("later");
    scene.joined(&other).await;
    assert_eq!(scene.handle.view(None).await, []);
}

#[tokio::test(start_paused = true)]
async fn task_06_a_transcript_is_headed_by_the_context_of_the_call_where_its_task_has_none() {
    let memory = MemoryStore::new();
    let kept = Arc::new(Kept::default());
    let here = Scene::writing(Arc::new(memory.clone()), kept.clone(), (DEAD, options(2))).await;
    let mut batch =
        NewBatch { context: Some("for all".to_owned()), ..pushed(7, &["until told", "until then"]) };
    batch.tasks[1].context = Some("own".to_owned());
    here.handle.dispatch(batch).await.expect("it is accepted");
    here.troupe.until_here("until then").await;
    let contexts = |kept: &Kept| kept.contexts.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let expected = ["for all", "own"].map(|text| Some(text.to_owned()));
    assert_eq!(contexts(&kept), expected);
    here.pass(Duration::from_secs(2)).await;
    drop(here);
    let again = Arc::new(Kept::default());
    let there = Scene::writing(Arc::new(memory), again.clone(), (2, options(2))).await;
    there.recover(&Orphans::All).await;
    there.troupe.until_here("until then").await;
    assert_eq!(contexts(&again), expected, "also where another process goes on");
}

/// Whether each end is the last of its unit, as watchers hear of it.
async fn ends_of_units(watch: &mut dyn Watch, ends: usize) -> Vec<bool> {
    let mut heard = Vec::new();
    while heard.len() < ends {
        if let LiveEvent::Settled { ends_unit, .. } = watch.next().await.expect("the engine runs") {
            heard.push(ends_unit);
        }
    }
    heard
}

/// Proves FIN-5.
#[tokio::test(start_paused = true)]
async fn the_last_end_of_a_unit_is_known_as_that_however_many_end_at_once() {
    let (scene, _) = scene(Kept::default()).await;
    let mut watch = scene.handle.watch();
    scene.dispatch(&["until told", "until told"]).await;
    scene.troupe.until(|counts| counts.here.len() == 2).await;
    scene.troupe.say("told");
    assert_eq!(ends_of_units(&mut *watch, 2).await, [false, true]);
}
