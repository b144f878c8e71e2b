//! The process dies in every state a result or a turn can be in; whoever opens the session next answers it, once.

use super::scene::{Machine, Open, Running, assert_legal, delegation, new_session, stored, texts};
use crate::fakes::{Dropped, FakeModel, Say, failure, process};
use legwork_agent::session::{OpenError, RunSetup, SessionLine, SessionSetup, run_prompt};
use legwork_core::batch::Reach;
use legwork_core::ids::{ClaimId, OwnerId};
use legwork_core::message::Message;
use legwork_core::outcome::{Ending, FailureKind, StopReason};
use legwork_core::ports::Delegator;
use legwork_core::record::OwnerRecord;
use legwork_core::report::FailureReason;
use legwork_core::time::Timestamp;
use legwork_testkit::shaky::ShakyStore;
use std::sync::Arc;

/// Where the first process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    /// The child still works.
    Held,
    /// Its results are ready and the session is busy.
    Ready,
    /// Somebody took them and stored no turn.
    Claimed,
    /// The turn that answers them is under way.
    Answering,
}

fn delegating() -> [Say; 2] {
    [Say::Calls("", vec![delegation("c", &["one"])]), Say::Text("Waiting.")]
}

/// A process in which a session has delegated one task, up to the moment of its death.
async fn until(machine: &Machine, death: Death) -> (Running, Open) {
    let running = machine.start(1).await;
    let (hanging, _) = Dropped::new();
    let hang = Say::Hang("thinking", hanging);
    let model = FakeModel::new(delegating().into_iter().chain([hang]));
    let open = running.open(model.clone(), new_session(5)).await;
    open.ask("a").await;
    machine.children.begun("one").await;
    match death {
        Death::Held => {}
        Death::Ready => {
            open.handle.say("b").expect("there is room");
            open.told("thinking").await;
            machine.children.free("one");
            machine.until_settled(0).await;
        }
        Death::Claimed => {
            open.handle.close(StopReason::Shutdown).await;
            machine.children.free("one");
            machine.until_settled(0).await;
            let unit = machine.delegations().await[0].accepted.units[0].id.clone();
            let owner = OwnerRecord::new(OwnerId::from_bits(1), process(1));
            let claim = ClaimId::from_bits(99);
            let claimed = machine.store.claim(&unit, claim, &owner.claimant(), Timestamp(0)).await;
            assert!(matches!(claimed, Ok(Some(_))), "{claimed:?}");
        }
        Death::Answering => {
            machine.children.free("one");
            open.told("thinking").await;
        }
    }
    (running, open)
}

#[tokio::test(start_paused = true)]
async fn inv_02_a_result_is_said_once_wherever_the_process_dies() {
    for death in [Death::Held, Death::Ready, Death::Claimed, Death::Answering] {
        let machine = Machine::new();
        let (running, open) = until(&machine, death).await;
        drop(open);
        running.die();
        let next = machine.start(2).await;
        let stranger = next.open(FakeModel::new([Say::Text("X.")]), new_session(6)).await;
        stranger.ask("x").await;
        let says = match death {
            Death::Ready => vec![Say::Text("B."), Say::Text("One.")],
            Death::Held | Death::Claimed | Death::Answering => vec![Say::Text("One.")],
        };
        machine.children.free("one");
        let open = next.open(FakeModel::new(says), stored(5)).await;
        open.told("One.").await;
        open.handle.wait_idle().await;
        let history = machine.history(open.handle.session()).await;
        assert_legal(&history.iter().cloned().map(Arc::new).collect::<Vec<_>>());
        let answer = "<one>";
        let expected: &[&str] = match death {
            Death::Ready => &["b", "B.", answer, "One."],
            Death::Held | Death::Claimed | Death::Answering => &[answer, "One."],
        };
        assert_eq!(texts(&history)[4..], *expected, "{death:?}");
        assert_eq!(machine.deliveries().await, ["delivered"], "{death:?}");
        assert_eq!(texts(&machine.history(stranger.handle.session()).await), ["x", "X."], "{death:?}");
        open.close(StopReason::SessionEnded).await;
        let again = next.open(FakeModel::new([]), stored(5)).await;
        again.handle.wait_idle().await;
        assert_eq!(again.words(), ["idle"], "{death:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn k02_a_turn_that_was_cut_off_in_a_call_goes_on_from_there() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let (hanging, _) = Dropped::new();
    let says = [Say::Calls("", vec![delegation("c", &["one"])]), Say::Hang("thinking", hanging)];
    let open = running.open(FakeModel::new(says), new_session(5)).await;
    open.handle.say("a").expect("there is room");
    open.told("thinking").await;
    drop(open);
    running.die();
    let next = machine.start(2).await;
    let model = FakeModel::new([Say::Text("Waiting."), Say::Text("It is there.")]);
    let open = next.open(model.clone(), stored(5)).await;
    machine.children.free("one");
    open.told("It is there.").await;
    let texts = texts(&machine.history(open.handle.session()).await);
    assert_eq!(texts, ["a", "[calls]", "[results]", "Waiting.", "<one>", "It is there."]);
    assert_eq!(machine.delegations().await.len(), 1, "nothing is delegated again");
}

#[tokio::test(start_paused = true)]
async fn k02_a_shutdown_leaves_the_turn_to_whoever_opens_the_session_next() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let (hanging, _) = Dropped::new();
    let open = running.open(FakeModel::new([Say::Hang("thinking", hanging)]), new_session(5)).await;
    open.handle.say("a").expect("there is room");
    open.told("thinking").await;
    open.close(StopReason::Shutdown).await;
    running.close().await;
    let next = machine.start(2).await;
    let open = next.open(FakeModel::new([Say::Text("A.")]), stored(5)).await;
    open.handle.wait_idle().await;
    assert_eq!(open.words(), ["unanswered", "ended Answered", "idle"]);
    assert_eq!(texts(&machine.history(open.handle.session()).await), ["a", "A."]);
}

/// A one-shot prompt on a session.
async fn run(running: &Running, model: Arc<FakeModel>, prompt: &str) -> legwork_agent::session::RunOutcome {
    try_run(running, running.setup(model), prompt).await.expect("it runs")
}

async fn try_run(
    running: &Running,
    setup: SessionSetup,
    prompt: &str,
) -> Result<legwork_agent::session::RunOutcome, OpenError> {
    let session = SessionSetup { reach: Reach::Joined, ..setup };
    let delegator: Arc<dyn Delegator> = Arc::new(running.engine());
    let setup = RunSetup {
        session,
        delegator,
        which: stored(5),
        prompt: prompt.to_owned(),
        listener: Box::new(|_| ()),
    };
    let (line, stop) = SessionLine::new(Box::new(|_| ()));
    run_prompt(setup, line, &stop).await
}

#[tokio::test(start_paused = true)]
async fn inv_02_a_prompt_that_cannot_be_stored_is_the_end_of_a_report_once_something_was_answered() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let (hanging, _) = Dropped::new();
    let open = running.open(FakeModel::new([Say::Hang("thinking", hanging)]), new_session(5)).await;
    open.handle.say("a").expect("there is room");
    open.told("thinking").await;
    open.close(StopReason::Shutdown).await;
    running.close().await;
    let next = machine.start(2).await;
    let full = || {
        let shaky = ShakyStore::new(Arc::clone(&machine.store));
        shaky.fail(&["append_turn"]);
        SessionSetup { store: Arc::new(shaky), ..next.setup(FakeModel::new([Say::Text("A.")])) }
    };
    let outcome = try_run(&next, full(), "b").await.expect("the turn before was answered");
    assert_eq!(outcome.report.ending, Ending::Failed(FailureKind::Store));
    assert_eq!(texts(&machine.history(stored(5).id()).await), ["a", "A."]);
    assert!(matches!(try_run(&next, full(), "b").await, Err(OpenError::Store(_))), "nothing was asked");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_goes_on_with_a_stored_session_and_reports_what_it_delegated_itself() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    machine.children.free("one");
    machine.children.free("two");
    let model = FakeModel::new([Say::Text("A.")]);
    let open = running.open(model, new_session(5)).await;
    open.ask("a").await;
    open.close(StopReason::SessionEnded).await;
    let says = |goal, answer| [Say::Calls("", vec![delegation(goal, &[goal])]), Say::Text(answer)];
    let first = run(&running, FakeModel::new(says("one", "One.")), "b").await;
    assert_eq!((first.report.ending, first.report.answer.as_deref()), (Ending::Answered, Some("One.")));
    let second = run(&running, FakeModel::new(says("two", "Two.")), "c").await;
    let delegations = |outcome: legwork_agent::session::RunOutcome| outcome.delegations.expect("readable");
    let (first, second) = (delegations(first), delegations(second));
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first, second);
    assert_eq!(machine.deliveries().await, ["delivered", "delivered"]);
    let history = machine.store.history(stored(5).id()).await.expect("readable");
    assert_eq!(
        texts(&history),
        ["a", "A.", "b", "[calls]", "[results]", "One.", "c", "[calls]", "[results]", "Two."]
    );
    let noted: Vec<String> =
        history.iter().map(result_text).filter(|text| text.contains("no_async")).collect();
    assert_eq!(noted.len(), 2, "each process says once that it waits");
}

fn result_text(message: &Message) -> String {
    format!("{:?}", message.parts)
}

#[tokio::test(start_paused = true)]
async fn a_joined_call_that_was_cut_off_is_finished_before_the_next_prompt() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let session = SessionSetup {
        reach: Reach::Joined,
        ..running.setup(FakeModel::new([Say::Calls("", vec![delegation("one", &["one"])])]))
    };
    let delegator: Arc<dyn Delegator> = Arc::new(running.engine());
    let setup = RunSetup {
        session,
        delegator,
        which: new_session(5),
        prompt: "a".to_owned(),
        listener: Box::new(|_| ()),
    };
    let (line, stop) = SessionLine::new(Box::new(|_| ()));
    tokio::select! {
        _ = run_prompt(setup, line, &stop) => panic!("it waits for its child"),
        () = machine.children.begun("one") => {}
    }
    running.die();
    let next = machine.start(2).await;
    let outcome = run(&next, FakeModel::new([Say::Text("It is lost."), Say::Text("B.")]), "b").await;
    assert_eq!(outcome.report.answer.as_deref(), Some("B."));
    assert_eq!(outcome.delegations.map(|delegations| delegations.len()), Ok(1));
    let history = machine.store.history(stored(5).id()).await.expect("readable");
    assert_eq!(texts(&history), ["a", "[calls]", "[results]", "It is lost.", "b", "B."]);
    assert_eq!(machine.deliveries().await, ["delivered"]);
}

#[tokio::test(start_paused = true)]
async fn k20_results_that_came_in_before_a_prompt_and_were_not_answered_are_told() {
    for fails in [true, false] {
        let machine = Machine::new();
        let running = machine.start(1).await;
        let open = running.open(FakeModel::new(delegating()), new_session(5)).await;
        open.ask("a").await;
        open.close(StopReason::SessionEnded).await;
        machine.children.free("one");
        for delegation in machine.delegations().await {
            running.engine().settled(&delegation.accepted.delegation).await;
        }
        let refused = failure(FailureReason::Auth, "401");
        let first = if fails { Say::Fail("", refused) } else { Say::Text("One.") };
        let outcome = run(&running, FakeModel::new([first, Say::Text("B.")]), "b").await;
        assert_eq!(outcome.report.answer.as_deref(), Some("B."));
        assert_eq!(outcome.arrivals_answered, !fails);
        assert_eq!(machine.deliveries().await, ["delivered"]);
    }
}
