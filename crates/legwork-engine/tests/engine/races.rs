//! The end of a child, a stop, its time being out and a text for it, all at the same moment: in every order, and with
//! the engine at every point between them.

use crate::scene::{Scene, options};
use legwork_core::batch::Ticket;
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, Facts, LiveEvent, SteerError};
use legwork_core::pulse::LineEvent;
use legwork_core::steering::{Fate, Scope};
use legwork_engine::{Options, Patience};
use legwork_testkit::memory::MemoryStore;
use std::time::Duration;
use tokio::task::{JoinSet, yield_now};
use tokio::time::advance;

const GOAL: &str = "until told";
const LIMIT: Duration = Duration::from_secs(3);
/// How often the engine gets its turn between two of them, in the different rounds; the last is enough for it to come to rest.
const TURNS: [usize; 9] = [0, 1, 2, 3, 4, 6, 9, 14, 60];

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// The child hands its answer in.
    End,
    /// Somebody stops it.
    Stop,
    /// It has not moved for as long as it may.
    Timeout,
    /// Somebody says something to it.
    Steer,
}

/// All orders of the four.
fn orders() -> Vec<[What; 4]> {
    let all = [What::End, What::Stop, What::Timeout, What::Steer];
    let mut orders = Vec::new();
    for a in all {
        for b in all.into_iter().filter(|b| *b != a) {
            for c in all.into_iter().filter(|c| ![a, b].contains(c)) {
                let last = all.into_iter().find(|d| ![a, b, c].contains(d));
                orders.push([a, b, c, last.expect("there are four")]);
            }
        }
    }
    orders
}

/// A child that has said something and stands at its limit.
async fn at_its_limit() -> (Scene, Ticket) {
    let options = options(1);
    let patience = Patience { inactivity: Some(LIMIT), ..options.patience };
    let scene = Scene::over(MemoryStore::new(), 1, Options { patience, ..options }).await;
    let ticket = scene.dispatch(&[GOAL]).await;
    scene.troupe.until_here(GOAL).await;
    let (call, tool, arguments) = ("c1".to_owned(), "terminal".to_owned(), "make".to_owned());
    scene.troupe.line(GOAL).tell(LineEvent::ToolStarted { call, tool, arguments });
    scene.handle.view(None).await;
    scene.pass(LIMIT - Duration::from_millis(200)).await;
    (scene, ticket)
}

/// One round; answers how the child ended.
async fn race(order: [What; 4], turns: usize) -> Outcome {
    let (scene, ticket) = at_its_limit().await;
    let child = ticket.children[0].clone();
    let mut watch = scene.handle.watch();
    let (mut stop, mut steer) = (JoinSet::new(), JoinSet::new());
    for what in order {
        match what {
            What::End => scene.troupe.say("told"),
            What::Timeout => advance(LIMIT / 2).await,
            What::Stop => {
                let (handle, scope) = (scene.handle.clone(), Scope::Child(child.clone()));
                stop.spawn(async move { handle.stop(scope, StopReason::Cancelled, Force::Ask).await });
            }
            What::Steer => {
                let (handle, child) = (scene.handle.clone(), child.clone());
                steer.spawn(async move { handle.steer(&child, "hurry".to_owned(), None).await });
            }
        }
        for _ in 0..turns {
            yield_now().await;
        }
    }
    let joined = scene.handle.join(&ticket.delegation).await.expect("it settles");
    let told = stop.join_next().await.expect("it was stopped").expect("it is answered");
    let said = steer.join_next().await.expect("it was spoken to").expect("it is answered");
    let round = format!("{order:?} with {turns} turns");

    let row = &joined.record.children[0];
    let outcome = row.outcome().expect("it has settled");
    let answer = row.report.as_ref().and_then(|report| report.answer.as_deref());
    assert_eq!(answer.is_some(), outcome == Outcome::Succeeded, "{round}: {outcome:?} with {answer:?}");
    assert!(told.children.iter().all(|told| *told == child), "{round}: {told:?}");

    // One end, for everybody who looks.
    let facts = scene.store.offered();
    let facts = facts.iter().flat_map(|append| &append.facts);
    let ends = facts.filter(|fact| matches!(fact, legwork_core::fact::Fact::UnitSettled { .. })).count();
    let mut settled = Vec::new();
    while let Some(event) = futures::FutureExt::now_or_never(watch.next()).flatten() {
        if let LiveEvent::Settled { outcome, .. } = event {
            settled.push(outcome);
        }
    }
    assert_eq!((ends, settled), (1, vec![outcome]), "{round}");

    // What was said was taken and comes back, or was refused and is nowhere.
    let rows = scene.store.steers(&child).await.expect("readable").rows;
    let mine = rows.iter().filter(|row| format!("{:?}", row.request.wish).contains("hurry"));
    let fates: Vec<&Fate> = mine.map(|row| &row.fate).collect();
    let back = joined.missed_by(&child).iter().filter(|text| **text == "hurry").count();
    match said {
        Ok(_) => assert_eq!((fates, back), (vec![&Fate::Missed], 1), "{round}"),
        Err(SteerError::NotFound(_) | SteerError::Ending(_)) => {
            assert_eq!((fates, back), (vec![], 0), "{round}");
        }
        Err(other) => panic!("{round}: {other}"),
    }

    // Whoever comes later finds it ended.
    let later = scene.handle.stop(Scope::Child(child.clone()), StopReason::SessionEnded, Force::Abort).await;
    assert_eq!(later.children, [], "{round}");
    scene.pass(LIMIT * 2).await;
    assert_eq!(scene.outcomes(&ticket).await, [Some(outcome)], "{round}: what is ended stays so");
    assert_eq!(scene.troupe.counts().here, [""; 0], "{round}");
    outcome
}

#[tokio::test(start_paused = true)]
async fn k14_inv_13_end_stop_timeout_and_a_text_at_one_moment_make_one_end_in_every_order() {
    let mut outcomes = Vec::new();
    for order in orders() {
        for turns in TURNS {
            let outcome = race(order, turns).await;
            outcomes.push(outcome);
            if turns == TURNS[TURNS.len() - 1] {
                let first = order.into_iter().find(|what| *what != What::Steer);
                let expected = match first.expect("three of them end it") {
                    What::End => Outcome::Succeeded,
                    What::Stop => Outcome::Stopped(StopReason::Cancelled),
                    What::Timeout | What::Steer => Outcome::Stopped(StopReason::TimedOut),
                };
                assert_eq!(outcome, expected, "the first cause is kept: {order:?}");
            }
        }
    }
    for each in
        [Outcome::Succeeded, Outcome::Stopped(StopReason::Cancelled), Outcome::Stopped(StopReason::TimedOut)]
    {
        let count = outcomes.iter().filter(|outcome| **outcome == each).count();
        assert!(count >= 20, "{each:?} came {count} times: the moments do not lie around the end");
    }
}
