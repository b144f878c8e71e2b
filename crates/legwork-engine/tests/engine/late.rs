//! A store that records facts and answers with an error all the same: nothing is lost by it, nothing is done twice, and nobody
//! is told the contrary of what is stored.

use crate::desk::Desk;
use crate::scene::{Scene, batch, call_key, left, options, owner, pushed, reported};
use legwork_core::batch::{Completions, NewBatch};
use legwork_core::outcome::Outcome;
use legwork_core::ports::{Delegator, DispatchError, Facts, Filter};
use legwork_core::record::DelegationRecord;
use legwork_engine::recovery::{Conclusion, Orphans, Rescuer, settle};
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::{Luck, ShakyStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

async fn shaky_scene(memory: &MemoryStore) -> (Scene, Arc<ShakyStore>) {
    let shaky = Arc::new(ShakyStore::new(Arc::new(memory.clone())));
    (Scene::over_store(shaky.clone(), 1, options(2)).await, shaky)
}

/// How append number `failing` goes, and the reads that follow it.
#[derive(Clone, Copy, Debug)]
struct Failure {
    append: usize,
    luck: Luck,
    /// How many looks at a delegation fail after it.
    blind: usize,
}

/// Lets it happen, and counts the appends.
fn arm(shaky: &ShakyStore, failure: Failure) -> Arc<AtomicUsize> {
    let appends = Arc::new(AtomicUsize::new(0));
    let (counted, mut blind) = (Arc::clone(&appends), 0);
    shaky.let_decide(move |name| match name {
        "append" if counted.fetch_add(1, Ordering::SeqCst) == failure.append => {
            blind = failure.blind;
            failure.luck
        }
        "delegation" if blind > 0 => {
            blind -= 1;
            Luck::Fails
        }
        _other => Luck::Good,
    });
    appends
}

/// A call with four tasks and two slots, brought to its end and to its session. Answers with what is stored then, how many
/// children came, and how many appends there were.
async fn played(failure: Failure) -> (DelegationRecord, usize, usize) {
    let memory = MemoryStore::new();
    let (scene, shaky) = shaky_scene(&memory).await;
    let desk = Desk::new(7);
    scene.serve(&desk).await;
    let appends = arm(&shaky, failure);
    let call = NewBatch {
        call_key: Some(call_key("c1")),
        ..pushed(7, &["until told", "answer", "fail", "until told too"])
    };
    let ticket = scene.handle.dispatch(call).await.expect("it is accepted");
    scene.troupe.until(|counts| counts.here == ["until told", "until told too"]).await;
    scene.troupe.say("told");
    scene.joined(&ticket).await;
    desk.until_offered(1).await;
    let all = memory.delegations(Filter::Recent(10)).await.expect("it reads").rows;
    assert_eq!(all.len(), 1, "{failure:?}");
    let came = scene.troupe.counts().came;
    (scene.stored(&ticket.delegation).await, came, appends.load(Ordering::SeqCst))
}

/// Proves DUR-4, DUR-6.
#[tokio::test(start_paused = true)]
async fn inv_02_whichever_append_is_made_although_it_fails_everything_is_done_and_told_once() {
    let undisturbed = Failure { append: usize::MAX, luck: Luck::Good, blind: 0 };
    let (expected, came, appends) = played(undisturbed).await;
    assert!(appends >= 4 && came == 4, "{appends} {came}");
    for append in 0..appends {
        for blind in [0, 1, 4] {
            let failure = Failure { append, luck: Luck::FailsLate, blind };
            let (record, came_now, _) = played(failure).await;
            assert_eq!(came_now, came, "{failure:?}");
            let outcomes = |record: &DelegationRecord| {
                record.children.iter().map(|child| child.outcome()).collect::<Vec<_>>()
            };
            assert_eq!(outcomes(&record), outcomes(&expected), "{failure:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn inv_02_a_call_of_which_nobody_can_tell_whether_it_is_stored_is_decided_when_somebody_can() {
    for luck in [Luck::Fails, Luck::FailsLate] {
        let memory = MemoryStore::new();
        let (scene, shaky) = shaky_scene(&memory).await;
        arm(&shaky, Failure { append: 0, luck, blind: 3 });
        let ticket = scene.dispatch(&["answer"]).await;
        shaky.recover();
        assert_eq!(scene.joined(&ticket).await.children[0].outcome(), Some(Outcome::Succeeded), "{luck:?}");
        let all = memory.delegations(Filter::Recent(10)).await.expect("it reads").rows;
        assert_eq!((all.len(), scene.troupe.counts().came), (1, 1), "{luck:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn k08_a_call_that_nobody_can_decide_is_refused_in_the_end() {
    let (scene, shaky) = shaky_scene(&MemoryStore::new()).await;
    shaky.fail(&["append", "delegation"]);
    let refused = scene.handle.dispatch(batch(&["answer"])).await;
    let told = |why: &str| why.contains("bad day") && why.contains("for 60 s");
    assert!(matches!(&refused, Err(DispatchError::Unclear { why, .. }) if told(why)), "{refused:?}");
    shaky.recover();
    let ticket = scene.dispatch(&["answer"]).await;
    scene.joined(&ticket).await;
    assert_eq!(scene.troupe.counts().came, 1);
}

/// The call of another process is under the same key: that is not this one's, whatever the store said before.
#[tokio::test(start_paused = true)]
async fn inv_06_what_somebody_else_recorded_meanwhile_is_not_taken_for_ones_own() {
    let memory = MemoryStore::new();
    let (scene, shaky) = shaky_scene(&memory).await;
    let other = Scene::over(memory.clone(), 2, options(2)).await;
    arm(&shaky, Failure { append: 0, luck: Luck::Fails, blind: 1 });
    let call = || NewBatch { call_key: Some(call_key("c1")), ..batch(&["until told"]) };
    let mut calls = tokio::task::JoinSet::new();
    let handle = scene.handle.clone();
    let first = call();
    calls.spawn(async move { handle.dispatch(first).await });
    while !shaky.take_calls().contains(&"append") {
        tokio::task::yield_now().await;
    }
    let theirs = other.handle.dispatch(call()).await.expect("it is accepted");
    let mine =
        calls.join_next().await.expect("it was made").expect("it ends").expect("the call was accepted");
    assert_eq!(mine.delegation, theirs.delegation);
    other.troupe.until_here("until told").await;
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!((scene.troupe.counts().came, other.troupe.counts().came), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn inv_02_work_for_another_process_that_is_stored_although_the_store_failed_is_accepted() {
    for luck in [Luck::FailsLate, Luck::Fails] {
        let memory = MemoryStore::new();
        let (scene, shaky) = shaky_scene(&memory).await;
        arm(&shaky, Failure { append: 0, luck, blind: 0 });
        let accepted = scene.handle.accept_for_another(pushed(7, &["answer"]), Completions::Together).await;
        let all = memory.delegations(Filter::Recent(10)).await.expect("it reads").rows;
        assert_eq!(
            (accepted.is_ok(), all.len()),
            match luck {
                Luck::FailsLate => (true, 1),
                _fails => (false, 0),
            }
        );
    }
    let (scene, shaky) = shaky_scene(&MemoryStore::new()).await;
    shaky.fail(&["append", "delegation"]);
    let refused = scene.handle.accept_for_another(pushed(7, &["answer"]), Completions::Together).await;
    let Err(error @ DispatchError::Unclear { .. }) = refused else { panic!("{refused:?}") };
    assert!(
        !error.to_string().contains("nothing was started"),
        "a second call could be a second delegation: {error}"
    );
}

#[tokio::test(start_paused = true)]
async fn inv_02_nobody_is_told_to_call_again_where_it_cannot_be_read_whether_the_call_was_recorded() {
    for is_ending in [false, true] {
        let (scene, shaky) = shaky_scene(&MemoryStore::new()).await;
        shaky.fail(&["append", "delegation"]);
        let handle = scene.handle.clone();
        let mut calls = tokio::task::JoinSet::new();
        calls.spawn(async move { handle.dispatch(batch(&["answer"])).await });
        while !shaky.take_calls().contains(&"append") {
            tokio::task::yield_now().await;
        }
        if is_ending {
            scene.handle.release().await;
        }
        let told = calls.join_next().await.expect("it was made").expect("it ends");
        let Err(error @ DispatchError::Unclear { .. }) = told else { panic!("{told:?}") };
        assert!(!error.to_string().contains("nothing was started"), "{error}");
    }
}

/// A call with a key is looked for once more after its refusal: a look that fails leaves the refusal as it was.
#[tokio::test(start_paused = true)]
async fn inv_06_a_call_with_a_key_of_which_nobody_can_tell_whether_it_is_stored_is_not_told_to_come_again() {
    let blind: [&'static [&'static str]; 2] = [&["delegation"], &["by_call_key", "delegation"]];
    for (unread, is_stored) in [(blind[0], true), (blind[1], true), (blind[0], false), (blind[1], false)] {
        let (scene, shaky) = shaky_scene(&MemoryStore::new()).await;
        let mut has_failed = false;
        shaky.let_decide(move |name| match name {
            "append" if is_stored && !has_failed => {
                has_failed = true;
                Luck::FailsLate
            }
            "append" => {
                has_failed = true;
                Luck::Fails
            }
            _ if has_failed && unread.contains(&name) => Luck::Fails,
            _other => Luck::Good,
        });
        let call = NewBatch { call_key: Some(call_key("c1")), ..batch(&["answer"]) };
        let told = scene.handle.dispatch(call).await;
        let Err(error @ DispatchError::Unclear { .. }) = told else {
            panic!("{unread:?} {is_stored}: {told:?}")
        };
        let safe = error.to_string().contains("calling again is safe");
        assert!(!safe && !error.to_string().contains("nothing was started"), "{error}");
    }
}

/// The same for a call that is asked again, as after a crash: its own subagents may be at work.
#[tokio::test(start_paused = true)]
async fn inv_06_a_call_that_was_accepted_and_cannot_be_read_is_not_told_to_come_again() {
    for unread in ["by_call_key", "delegation"] {
        let (scene, shaky) = shaky_scene(&MemoryStore::new()).await;
        let call = || NewBatch { call_key: Some(call_key("c1")), ..batch(&["until told"]) };
        let first = scene.handle.dispatch(call()).await.expect("it is accepted");
        scene.troupe.until_here("until told").await;
        shaky.let_decide(move |name| if name == unread { Luck::Fails } else { Luck::Good });
        let looked =
            scene.handle.accepted(&call_key("c1")).await.expect_err("nobody can read it").to_string();
        let again = scene.handle.dispatch(call()).await.expect_err("nobody can read it").to_string();
        for told in [looked, again] {
            assert!(told.contains("cannot be read") && told.contains("bad day"), "{unread}: {told}");
            assert!(!told.contains("safe"), "{unread}: {told}");
            assert!(told.contains("do not delegate it again under a new id"), "{unread}: {told}");
        }
        shaky.recover();
        let again = scene.handle.dispatch(call()).await.expect("it is rejoined");
        assert_eq!((again, scene.troupe.counts().came), (first, 1));
    }
}

/// The key was taken at that moment, and nobody can read by whom: that is not known to be somebody else's work.
#[tokio::test(start_paused = true)]
async fn inv_06_a_call_whose_key_was_taken_meanwhile_is_not_told_that_nothing_was_started() {
    let memory = MemoryStore::new();
    let (scene, shaky) = shaky_scene(&memory).await;
    let other = Scene::over(memory.clone(), 2, options(2)).await;
    arm(&shaky, Failure { append: 0, luck: Luck::Fails, blind: 1 });
    let call = || NewBatch { call_key: Some(call_key("c1")), ..batch(&["until told"]) };
    let mut calls = tokio::task::JoinSet::new();
    let (handle, mine) = (scene.handle.clone(), call());
    calls.spawn(async move { handle.dispatch(mine).await });
    while !shaky.take_calls().contains(&"append") {
        tokio::task::yield_now().await;
    }
    other.handle.dispatch(call()).await.expect("it is accepted");
    shaky.fail(&["by_call_key"]);
    let told = calls.join_next().await.expect("it was made").expect("it ends");
    let told = told.expect_err("nobody can read whose it is").to_string();
    assert!(told.contains("do not delegate it again") && !told.contains("safe"), "{told}");
}

/// What is settled for the dead is told with its ends, once: who waits for them, such as a hook, hears of them in no other way.
#[tokio::test(start_paused = true)]
async fn inv_02_what_is_settled_for_the_dead_although_the_store_failed_counts_as_settled() {
    for luck in [Luck::FailsLate, Luck::Fails] {
        let memory = MemoryStore::new();
        let ticket = left(&memory, reported(&["until told", "answer"]), &["until told"]).await;
        let (scene, shaky) = shaky_scene(&memory).await;
        arm(&shaky, Failure { append: 0, luck, blind: 0 });
        let myself = owner(1);
        let processes = scene.wiring.processes.as_ref();
        let rescuer = Rescuer { store: shaky.as_ref(), clock: scene.wiring.clock, owner: &myself, processes };
        let settled = settle(rescuer, &Orphans::All, Conclusion::Reported).await;
        let outcome = scene.stored(&ticket.delegation).await.children[0].outcome();
        match luck {
            Luck::FailsLate => {
                let settled = settled.expect("it is recorded");
                assert_eq!(settled.ended, [(ticket.delegation.clone(), 0)]);
                assert_eq!((settled.lost, settled.taken), (1, vec![ticket.delegation.clone()]));
                assert_eq!(outcome, Some(Outcome::Lost));
            }
            _fails => {
                assert!(settled.is_err(), "{settled:?}");
                assert_eq!(outcome, None);
            }
        }
    }
}
