//! A store that does not take facts for a while.

use crate::scene::{FOR_EVER, Scene, batch, batch_from, options, owner, stopped, takeover};
use crate::troupe::LACKING;
use legwork_core::batch::Ticket;
use legwork_core::child::ChildState;
use legwork_core::fact::Fact;
use legwork_core::ids::{DelegationId, RequestId};
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, DispatchError, Facts, JoinError, StoreError};
use legwork_core::pulse::LineEvent;
use legwork_core::steering::{Request, Scope, Wish};
use legwork_core::time::Timestamp;
use legwork_engine::Hold;
use legwork_engine::recovery::Orphans;
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::{Luck, ShakyStore};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

fn full() -> StoreError {
    StoreError::Full("no space left on device".to_owned())
}

fn says_why(answer: &Result<Ticket, DispatchError>) -> bool {
    matches!(answer, Err(DispatchError::Store(why)) if why.contains("no space left"))
}

#[tokio::test(start_paused = true)]
async fn k35_a_call_that_cannot_be_recorded_is_refused_with_the_reason_and_the_next_one_is_tried() {
    let scene = Scene::new(1).await;
    scene.store.fail(full());
    for _ in 0..3 {
        let refused = scene.handle.dispatch(batch(&["answer"])).await;
        assert!(says_why(&refused), "{refused:?}");
    }
    assert_eq!(scene.troupe.counts().came, 0);
    scene.store.open();
    let ticket = scene.dispatch(&["answer"]).await;
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [Some(Outcome::Succeeded)]);
}

/// Proves DUR-6.
#[tokio::test(start_paused = true)]
async fn k35_running_work_goes_on_and_is_stored_once_the_store_is_back() {
    let scene = Scene::new(2).await;
    let ticket = scene.dispatch(&["until told", "until told"]).await;
    scene.troupe.until(|counts| counts.here.len() == 2).await;
    scene.store.fail(full());
    scene.troupe.say("told");
    scene.troupe.until(|counts| counts.here.is_empty()).await;
    let offered = scene.store.arrived();
    scene.store.until_arrived(offered + 2).await;
    assert_eq!(scene.outcomes(&ticket).await, [None, None]);
    let refused = scene.handle.dispatch(batch(&["answer"])).await;
    assert!(says_why(&refused), "{refused:?}");
    scene.store.open();
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [Some(Outcome::Succeeded); 2]);
    let next = scene.dispatch(&["answer"]).await;
    scene.joined(&next).await;
}

#[tokio::test(start_paused = true)]
async fn k08_work_that_can_never_be_recorded_is_given_up_with_the_reason() {
    let scene = Scene::new(3).await;
    let ticket = scene.dispatch(&["answer", "until told", "deaf"]).await;
    scene.troupe.until(|counts| counts.here.len() == 2).await;
    scene.store.fail(full());
    scene.troupe.say("told");
    let begun = Instant::now();
    let joined = scene.handle.join(&ticket.delegation).await;
    assert!(matches!(&joined, Err(JoinError::GivenUp(why)) if why.contains("no space left")), "{joined:?}");
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_secs(60) && waited < Duration::from_secs(70), "{waited:?}");
    scene.troupe.until(|counts| counts.here.is_empty()).await;
    assert_eq!(scene.handle.view(None).await, []);
    scene.store.open();
    assert_eq!(
        scene.outcomes(&ticket).await,
        [Some(Outcome::Succeeded), None, None],
        "left to the next owner"
    );
    let next = scene.dispatch(&["answer"]).await;
    scene.joined(&next).await;
}

#[tokio::test(start_paused = true)]
async fn k35_work_that_was_given_up_is_in_nobodys_hand_and_goes_on_once_the_store_is_back() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["until told"]).await;
    let id = &ticket.delegation;
    let hold = || async { scene.handle.hold(id).await.expect("the engine runs") };
    scene.troupe.until_here("until told").await;
    scene.store.fail(full());
    scene.troupe.say("told");
    scene.troupe.until(|counts| counts.here.is_empty()).await;
    assert_eq!(hold().await, Hold::InHand, "its end waits for the store");
    let joined = scene.handle.join(id).await;
    assert!(matches!(joined, Err(JoinError::GivenUp(_))), "{joined:?}");
    assert_eq!(hold().await, Hold::GivenUp(full().remarked("for 60 s").to_string()));
    scene.store.open();
    let recovered = scene.recover(&Orphans::Of(id.clone())).await;
    assert_eq!((recovered.taken.as_slice(), recovered.resumed), (std::slice::from_ref(id), 1));
    assert_eq!(hold().await, Hold::InHand);
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [Some(Outcome::Succeeded)]);
    let other = scene.handle.hold(&DelegationId::from_bits(9)).await.expect("the engine runs");
    assert_eq!(other, Hold::NotHere);
}

#[tokio::test(start_paused = true)]
async fn k35_a_stop_works_while_the_store_fails() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    scene.store.fail(full());
    let told = scene.begin_stop(Scope::All, Force::Ask).await;
    scene.troupe.until(|counts| counts.here.is_empty()).await;
    scene.store.open();
    assert_eq!(told.await.children, ticket.children);
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::Cancelled)]);
}

#[tokio::test(start_paused = true)]
async fn k12_a_stop_that_is_never_recorded_says_so_and_stays_open_for_the_next_owner() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    scene.store.fail(full());
    let told = scene.begin_stop(Scope::All, Force::Ask).await;
    let wish = Wish::Stop { reason: StopReason::Cancelled, force: Force::Ask };
    let scope = Scope::Delegation(ticket.delegation.clone());
    let request = Request { id: RequestId::from_bits(1), at: Timestamp(0), scope, wish };
    scene.store.ask(request).await.expect("requests are taken");
    let told = told.await;
    assert_eq!(told.children, ticket.children);
    assert!(told.untold.as_ref().is_some_and(|why| why.contains("no space left")), "{told:?}");
    // The fact of the stop is given up, and with it the work.
    scene.pass(Duration::from_secs(70)).await;
    scene.store.open();
    scene.pass(Duration::from_secs(10)).await;
    assert_eq!(scene.store.news(0).await.expect("it reads").requests.len(), 1);
    let recovered = scene.handle.recover(&Orphans::Of(ticket.delegation.clone())).await;
    assert_eq!(recovered.map(|recovered| recovered.taken.len()).expect("the store is back"), 1);
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::Cancelled)]);
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.store.news(0).await.expect("it reads").requests, [], "now it is carried out");
}

#[tokio::test(start_paused = true)]
async fn k16_a_call_that_the_store_refused_gives_its_slots_back() {
    let scene = Scene::new(1).await;
    scene.store.fail(full());
    let (first, second) = tokio::join!(
        scene.handle.dispatch(batch(&["answer", "answer"])),
        scene.handle.dispatch(batch(&["answer"])),
    );
    assert!(says_why(&first) && says_why(&second), "{first:?} {second:?}");
    assert_eq!(scene.handle.view(None).await, []);
    scene.store.open();
    let ticket = scene.dispatch(&["answer", "answer"]).await;
    scene.joined(&ticket).await;
    assert_eq!(scene.troupe.counts().came, 2);
}

#[tokio::test(start_paused = true)]
async fn k35_a_delegation_that_the_store_refuses_is_dropped_and_no_other() {
    let scene = Scene::new(3).await;
    let ours = scene.dispatch(&["until told"]).await;
    let refused = scene.dispatch(&["until told", "deaf"]).await;
    scene.troupe.until(|counts| counts.here.len() == 3).await;
    let join = scene.handle.join(&refused.delegation);
    scene.store.refuse(refused.delegation.clone());
    scene.handle.stop(Scope::Child(refused.children[0].clone()), StopReason::Cancelled, Force::Ask).await;
    // Deadline: in paused time a wait for something that never comes would turn for ever.
    let joined = timeout(Duration::from_secs(3600), join).await.expect("it does not wait for ever");
    assert!(
        matches!(&joined, Err(JoinError::GivenUp(why)) if why.contains("does not want it")),
        "{joined:?}"
    );
    scene.troupe.until(|counts| counts.here == ["until told"]).await;
    scene.troupe.say("told");
    scene.joined(&ours).await;
    assert_eq!(scene.outcomes(&ours).await, [Some(Outcome::Succeeded)]);
    assert_eq!(scene.outcomes(&refused).await, [None, None], "nothing is said of what is not ours");
}

#[tokio::test(start_paused = true)]
async fn k35_facts_of_a_call_that_was_given_up_are_not_offered_again() {
    let scene = Scene::new(1).await;
    let running = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    scene.store.close();
    // A commit is under way, and two new calls go into the next one; the first frees a slot for the second when it is
    // given up.
    scene.handle.pause().await.expect("the store takes it");
    scene.handle.resume().await.expect("the store takes it");
    scene.troupe.say("told");
    let arrived = scene.store.arrived();
    scene.store.until_arrived(arrived + 1).await;
    let calls = (scene.handle.dispatch(batch(&["answer"])), scene.handle.dispatch(batch(&["answer"])));
    let fail = async {
        scene.handle.view(None).await;
        scene.store.fail(full());
    };
    let (first, second, ()) = tokio::join!(calls.0, calls.1, fail);
    assert!(says_why(&first) && says_why(&second), "{first:?} {second:?}");
    scene.store.open();
    scene.joined(&running).await;
    let new = |fact: &Fact| matches!(fact, Fact::Accepted(_));
    for append in scene.store.offered() {
        let ours = append.delegation == running.delegation;
        assert!(ours || append.facts.iter().any(new) || append.expected_seq > 0, "{append:?}");
    }
}

/// Proves CAP-2.
#[tokio::test(start_paused = true)]
async fn k16_a_child_that_is_taken_away_while_its_start_is_being_recorded_gives_its_slot_back() {
    let memory = MemoryStore::new();
    let shaky = Arc::new(ShakyStore::new(Arc::new(memory.clone())));
    let scene = Scene::over_store(shaky.clone(), 1, options(2)).await;
    let first = scene.dispatch(&["until gone"]).await;
    let taken = scene.dispatch(&["until told", "until told too"]).await;
    scene.troupe.until(|counts| counts.here.len() == 2).await;
    shaky.let_decide(|name| match name {
        "append" => Luck::Slow(Duration::from_secs(5)),
        _other => Luck::Good,
    });
    scene.troupe.say("gone");
    scene.troupe.until(|counts| counts.here == ["until told"]).await;
    scene.pass(Duration::from_millis(300)).await;
    let record = memory.delegation(&taken.delegation).await.expect("it reads").expect("it is stored");
    assert!(matches!(record.children[1].state, ChildState::Running { .. }), "{record:?}");
    let (mine, other) = (owner(1), owner(3));
    memory.enter(other.clone(), Timestamp(0)).await.expect("it enters");
    memory.take_over(takeover((&mine, &other), &taken.delegation)).await.expect("it works");
    scene.troupe.line("until told").tell(LineEvent::ToolMoved);
    scene.troupe.until(|counts| counts.here.is_empty()).await;
    scene.pass(Duration::from_secs(10)).await;
    shaky.recover();
    assert!(scene.joined(&first).await.is_settled());
    scene.dispatch(&["until more", "until more too"]).await;
    scene.troupe.until(|counts| counts.here.len() == 2).await;
    assert_eq!(scene.troupe.counts().came, 4, "what was taken away did not begin");
}

/// Proves K35.
#[tokio::test(start_paused = true)]
async fn inv_28_a_run_that_could_not_be_recorded_is_not_settled_and_its_tree_goes_on_elsewhere() {
    let memory = MemoryStore::new();
    let scene = Scene::over(memory.clone(), 1, options(4)).await;
    let ticket = scene.dispatch(&["until gone", "answer"]).await;
    scene.outcome(&ticket, &ticket.children[1]).await;
    let below =
        batch_from(&scene.troupe.assignments()[0], &["unrecorded told".to_owned(), "deaf".to_owned()]);
    let below = scene.handle.dispatch(below).await.expect("the call is accepted");
    scene.troupe.until(|counts| counts.here.len() == 3).await;
    let other = scene.dispatch(&["until more"]).await;
    scene.troupe.until(|counts| counts.here.len() == 4).await;
    let joins = (scene.handle.join(&ticket.delegation), scene.handle.join(&below.delegation));
    let (above, within, ()) = tokio::join!(joins.0, joins.1, async {
        scene.handle.view(None).await;
        scene.troupe.say("told");
    });
    for joined in [above, within] {
        assert!(
            matches!(&joined, Err(JoinError::GivenUp(why)) if why.contains("no space left")),
            "{joined:?}"
        );
    }
    scene.troupe.until(|counts| counts.here == ["until more"]).await;
    assert_eq!(scene.outcomes(&ticket).await, [None, Some(Outcome::Succeeded)]);
    assert_eq!(scene.outcomes(&below).await, [None, None], "nothing is concluded");
    for cut in ["until gone", "deaf"] {
        let stop = scene.troupe.end_of(cut).map(|stop| stop.reason);
        assert_eq!(stop, Some(StopReason::Shutdown), "{cut} goes on elsewhere, in its worktree");
    }
    // Three slots are free again, and what is not concerned goes on.
    let next = scene.dispatch(&["answer", "answer", "answer"]).await;
    scene.joined(&next).await;
    scene.troupe.say("more");
    scene.joined(&other).await;
    let heir = Scene::over(memory, 2, options(4)).await;
    heir.recover(&Orphans::All).await;
    heir.troupe.until(|counts| counts.here.len() == 3).await;
    heir.troupe.say("told");
    assert_eq!(heir.outcome(&below, &below.children[0]).await, Outcome::Succeeded);
    heir.troupe.say("gone");
    assert_eq!(heir.outcome(&ticket, &ticket.children[0]).await, Outcome::Succeeded);
}

/// Proves K35.
#[tokio::test(start_paused = true)]
async fn inv_19_a_child_that_was_told_to_end_has_ended_although_that_could_not_be_recorded() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["unrecorded told finish"]).await;
    scene.troupe.until_here("unrecorded told finish").await;
    scene.handle.stop(Scope::All, StopReason::Cancelled, Force::Ask).await;
    scene.troupe.say("told");
    assert_eq!(scene.outcome(&ticket, &ticket.children[0]).await, Outcome::Stopped(StopReason::Cancelled));
}

/// A store that takes everything but what one child brings, however often it is tried.
async fn never_recorded(scene: &Scene) -> Ticket {
    let ticket = scene.dispatch(&["unrecorded told ever"]).await;
    scene.troupe.until_here("unrecorded told ever").await;
    scene.troupe.say("told");
    scene.pass(Duration::from_secs(2)).await;
    assert!(scene.stored(&ticket.delegation).await.owner.gone, "it is left to others");
    ticket
}

/// Proves DUR-6.
#[tokio::test(start_paused = true)]
async fn k35_a_wait_for_what_is_never_recorded_ends_with_the_reason() {
    let scene = Scene::new(1).await;
    let ticket = never_recorded(&scene).await;
    // Deadline: in paused time a wait for something that never comes would turn for ever.
    let joined = timeout(FOR_EVER, scene.handle.join(&ticket.delegation)).await.expect("it ends");
    assert!(matches!(&joined, Err(JoinError::GivenUp(why)) if why.contains("no space left")), "{joined:?}");
    assert_eq!(scene.troupe.counts().came, 2, "a join takes it up once");
    // As `results --wait` goes about it.
    for came in 2..6 {
        scene.pass(Duration::from_secs(2)).await;
        let record = scene.stored(&ticket.delegation).await;
        let hold = scene.handle.hold_of(&record).await.expect("the engine runs");
        assert_eq!(hold, Hold::GivenUp(full().to_string()), "however nobody's it is");
        assert_eq!(scene.troupe.counts().came, came);
        let recovered = scene.handle.recover_again(&ticket.delegation).await.expect("it is taken over");
        assert_eq!(recovered.taken.len(), 1, "who asks for it by name waits for nothing");
    }
}

/// Proves DUR-6.
#[tokio::test(start_paused = true)]
async fn k35_what_is_never_recorded_is_taken_up_more_and_more_seldom() {
    for orphans in [Orphans::All, Orphans::OfSession(batch(&[]).lineage.session)] {
        let scene = Scene::new(1).await;
        never_recorded(&scene).await;
        let (begun, mut came) = (Instant::now(), Vec::new());
        while begun.elapsed() < Duration::from_secs(1000) {
            let recovered = scene.handle.recover(&orphans).await.expect("the store works");
            if !recovered.taken.is_empty() {
                came.push(begun.elapsed().as_secs() / 10);
            }
            scene.pass(Duration::from_secs(1)).await;
        }
        // At once, and then after 60, 120, 240 and 480 s.
        assert_eq!(came, [0, 6, 18, 42, 90], "{orphans:?}");
        // Other work is not concerned.
        let other = scene.dispatch(&["answer"]).await;
        scene.joined(&other).await;
    }
}

/// Proves K35.
#[tokio::test(start_paused = true)]
async fn inv_14_a_tree_that_is_given_up_is_left_to_others_only_once_nothing_of_it_runs_here() {
    let scene = Scene::new(2).await;
    let slow = "until gone slow to leave";
    let ticket = scene.dispatch(&["unrecorded told ever", slow]).await;
    scene.troupe.until(|counts| counts.here.len() == 2).await;
    scene.troupe.say("told");
    scene.troupe.until(|counts| counts.here.is_empty()).await;
    scene.pass(Duration::from_secs(5)).await;
    let record = scene.stored(&ticket.delegation).await;
    assert_eq!(record.owner.id, owner(1).id, "something of it is being tidied up");
    assert_eq!(scene.handle.hold_of(&record).await.expect("the engine runs"), Hold::InHand);
    scene.troupe.say("left");
    scene.pass(Duration::from_secs(1)).await;
    assert!(scene.stored(&ticket.delegation).await.owner.gone);
}

#[tokio::test(start_paused = true)]
async fn k35_a_join_of_what_was_given_up_here_and_cannot_go_on_here_ends_with_the_reason() {
    let scene = Scene::new(1).await;
    let mut call = batch(&["until told"]);
    call.setting.route.model = LACKING.to_owned();
    let ticket = scene.handle.dispatch(call).await.expect("it is accepted");
    scene.troupe.until_here("until told").await;
    scene.store.fail(full());
    scene.troupe.say("told");
    scene.pass(Duration::from_secs(70)).await;
    assert_eq!(scene.handle.view(None).await, []);
    scene.store.open();
    // Deadline: in paused time a wait for something that never comes would turn for ever.
    let joined = timeout(FOR_EVER, scene.handle.join(&ticket.delegation)).await.expect("it ends");
    assert!(matches!(&joined, Err(JoinError::GivenUp(why)) if why.contains("no space left")), "{joined:?}");
}

#[tokio::test(start_paused = true)]
async fn k35_what_cannot_even_be_left_is_waited_for_no_longer_than_a_store_in_trouble() {
    let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
    let scene = Scene::over_store(shaky.clone(), 1, options(1)).await;
    let ticket = scene.dispatch(&["unrecorded told ever"]).await;
    scene.troupe.until_here("unrecorded told ever").await;
    shaky.fail(&["enter", "take_over", "declare_gone"]);
    scene.troupe.say("told");
    scene.pass(Duration::from_secs(1)).await;
    // Deadline: in paused time a wait for something that never comes would turn for ever.
    let joined = timeout(FOR_EVER, scene.handle.join(&ticket.delegation)).await.expect("it ends");
    assert!(matches!(&joined, Err(JoinError::GivenUp(why)) if why.contains("no space left")), "{joined:?}");
    shaky.recover();
    scene.pass(Duration::from_secs(10)).await;
    assert!(scene.stored(&ticket.delegation).await.owner.gone, "it is left after all");
}

/// A try that fails although all of it was recorded ends the trouble: new work is taken, and the next trouble begins with short
/// pauses like the first.
#[tokio::test(start_paused = true)]
async fn k35_trouble_is_over_with_a_try_that_was_recorded_although_it_failed() {
    for then in ["new work", "trouble"] {
        let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
        let scene = Scene::over_store(shaky.clone(), 2, options(2)).await;
        let ticket = scene.dispatch(&["until stopped", "until told"]).await;
        scene.troupe.until(|counts| counts.here.len() == 2).await;
        let mut tries = 0;
        shaky.let_decide(move |name| {
            tries += usize::from(name == "append");
            match (name, tries) {
                ("append", 1..=6 | 8) => Luck::Fails,
                ("append", 7) => Luck::FailsLate,
                _other => Luck::Good,
            }
        });
        let stopped_one = Scope::Child(ticket.children[0].clone());
        scene.handle.stop(stopped_one, StopReason::Cancelled, Force::Ask).await;
        scene.pass(Duration::from_secs(30)).await;
        assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::Cancelled), None]);
        if then == "new work" {
            shaky.recover();
            let next = scene.handle.dispatch(batch(&["answer"])).await;
            assert!(next.is_ok(), "the store is well: {next:?}");
        } else {
            scene.troupe.say("told");
            scene.pass(Duration::from_secs(1)).await;
            assert_eq!(scene.outcomes(&ticket).await[1], Some(Outcome::Succeeded));
        }
    }
}
