//! A one-shot session: what is stored of its conversation at every moment, and what comes out.

use crate::fakes::{
    Bench, Dropped, FakeDelegator, FakeModel, FakeProcesses, FakeTool, Say, allowance, call, failure, rights,
    route, until,
};
use legwork_agent::models::Model;
use legwork_agent::session::{
    OpenError, RunOutcome, RunSetup, SessionLine, SessionSetup, SessionStop, Which, run_prompt,
};
use legwork_agent::tools::{DelegateTool, Effect, Tool, ToolOutput, Toolbox};
use legwork_agent::turn::TurnLimits;
use legwork_core::batch::{Isolation, Reach, Setting};
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{DelegationId, SessionId};
use legwork_core::message::{Author, Message, Part};
use legwork_core::outcome::{Ending, FailureKind, Force, StopReason};
use legwork_core::ports::{
    Conversations, Delegator, Facts, NewSession, SessionKind, Steps, StopNotice, Store,
};
use legwork_core::pulse::LineEvent;
use legwork_core::report::FailureReason;
use legwork_core::steering::Scope;
use legwork_core::step::Actor;
use legwork_core::time::Timestamp;
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

const NOTICE: StopNotice = StopNotice { reason: StopReason::Cancelled, force: Force::Ask };

struct Desk {
    delegator: Arc<FakeDelegator>,
    told: Arc<Mutex<Vec<LineEvent>>>,
    line: Option<SessionLine>,
    stop: SessionStop,
}

impl Desk {
    async fn new() -> Self {
        Self::with(FakeDelegator::new().await)
    }

    fn with(delegator: FakeDelegator) -> Self {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let (line, stop) =
            SessionLine::new(Box::new(move |event| heard.lock().expect("no holder panics").push(event)));
        Desk { delegator: Arc::new(delegator), told, line: Some(line), stop }
    }

    /// The desk of another process, over what the first one stored.
    fn over(delegator: Arc<FakeDelegator>) -> Self {
        let (line, stop) = SessionLine::new(Box::new(|_| ()));
        Desk { delegator, told: Arc::default(), line: Some(line), stop }
    }

    /// Asks once more in the stored session.
    async fn goes_on(mut self, model: Arc<FakeModel>, tools: Vec<Arc<dyn Tool>>) -> RunOutcome {
        let line = self.line.take().expect("a desk runs once");
        let setup = RunSetup { which: Which::Stored(session_id()), ..self.setup(model, tools) };
        run_prompt(setup, line, &self.stop).await.expect("it is free")
    }

    fn setup(&self, model: Arc<FakeModel>, tools: Vec<Arc<dyn Tool>>) -> RunSetup {
        let delegate = DelegateTool::new(crate::delegate_calls::OPTIONS);
        delegate.connect(Arc::clone(&self.delegator) as Arc<dyn Delegator>);
        let tools = tools.into_iter().chain([Arc::new(delegate) as Arc<dyn Tool>]).collect();
        let which = Which::New(NewSession {
            id: session_id(),
            name: None,
            kind: SessionKind::Run,
            folder: "/".to_owned(),
            at: Timestamp(0),
        });
        let session = SessionSetup {
            store: Arc::clone(&self.delegator.store) as Arc<dyn Store>,
            processes: FakeProcesses::new(),
            model: model as Arc<dyn Model>,
            toolbox: Arc::new(Toolbox::new(tools)),
            commands: crate::engine::no_commands(Arc::new(legwork_testkit::memory::MemoryStore::new())),
            limits: TurnLimits::default(),
            fence: Bench::fence(),
            setting: Setting {
                folder: "/".to_owned(),
                route: route(),
                rights: rights(&["look", "change", "delegate_task"]),
                allowance: allowance(10),
                isolation: Isolation::Shared,
            },
            reach: Reach::Joined,
            depth_max: 1,
            spill: "/nowhere".into(),
        };
        let delegator = Arc::clone(&self.delegator) as Arc<dyn Delegator>;
        RunSetup {
            session,
            delegator,
            which,
            prompt: "What colour is it?".to_owned(),
            listener: Box::new(|_| ()),
        }
    }

    async fn run(
        &mut self,
        model: Arc<FakeModel>,
        tools: Vec<Arc<dyn Tool>>,
    ) -> Result<RunOutcome, OpenError> {
        let line = self.line.take().expect("a desk runs once");
        run_prompt(self.setup(model, tools), line, &self.stop).await
    }

    async fn history(&self) -> Vec<Message> {
        history(&self.delegator).await
    }
}

fn session_id() -> SessionId {
    SessionId::from_bits(5)
}

async fn history(delegator: &FakeDelegator) -> Vec<Message> {
    delegator.store.history(&session_id()).await.expect("it is readable")
}

/// What a strict provider asks of a conversation that the next user message is appended to.
fn assert_legal(history: &[Message]) {
    let authors: Vec<Author> = history.iter().map(|message| message.author).collect();
    assert_eq!(authors[..2], [Author::System, Author::User]);
    for pair in history[1..].windows(2) {
        let calls: Vec<&str> = pair[0].calls().map(|call| call.id.as_str()).collect();
        match pair[1].author {
            Author::Tool => assert_eq!(results(&pair[1]), calls, "results answer the calls before them"),
            Author::Assistant => assert!(calls.is_empty() && pair[0].author != Author::Assistant),
            other => panic!("{other:?} does not belong there"),
        }
    }
    let last = history.last().expect("there is a message");
    assert!(last.calls().next().is_none(), "no call is left open");
    let says_something = |message: &&Message| !message.parts.is_empty();
    assert_eq!(history.iter().filter(says_something).count(), history.len());
}

fn results(message: &Message) -> Vec<&str> {
    message.parts.iter().filter_map(answered).collect()
}

fn answered(part: &Part) -> Option<&str> {
    match part {
        Part::Result(result) => Some(result.call_id.as_str()),
        Part::Text { .. } | Part::Reasoning { .. } | Part::Call(_) | Part::Image(_) | Part::Summary(_) => {
            None
        }
    }
}

fn texts(history: &[Message]) -> Vec<String> {
    history[1..].iter().map(Message::plain_text).collect()
}

#[tokio::test]
async fn a_prompt_is_answered_and_its_conversation_is_stored() {
    let mut desk = Desk::new().await;
    let model =
        FakeModel::new([Say::Calls("I look.", vec![call("a", "look", json!({}))]), Say::Text("Blue.")]);
    let outcome = desk.run(model, vec![FakeTool::look("look", "blue")]).await.expect("it runs");
    assert_eq!((outcome.report.ending, outcome.report.answer.as_deref()), (Ending::Answered, Some("Blue.")));
    assert_eq!(outcome.delegations, Ok(vec![]));
    let history = desk.history().await;
    assert_legal(&history);
    assert_eq!(texts(&history), ["What colour is it?", "I look.", "", "Blue."]);
    let steps = desk.delegator.store.steps(&Actor::Session(session_id())).await.expect("readable");
    assert_eq!(steps.len(), 4);
    assert!(desk.told.lock().expect("no holder panics").contains(&LineEvent::Text("Blue.".to_owned())));
}

#[tokio::test]
async fn k43_at_every_question_and_every_tool_call_the_stored_conversation_is_legal() {
    let mut desk = Desk::new().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let look = |delegator: &Arc<FakeDelegator>| {
        let (delegator, seen) = (Arc::clone(delegator), Arc::clone(&seen));
        move || {
            let stored = futures::executor::block_on(history(&delegator));
            seen.lock().expect("no holder panics").push(stored.len());
            assert_legal(&stored);
        }
    };
    let calls =
        ["a", "b", "c"].map(|id| call(id, if id == "b" { "look" } else { "change" }, json!({"what": 1})));
    let script = [
        Say::Calls("", calls.to_vec()),
        Say::Calls("", vec![call("d", "look", json!({}))]),
        Say::Text("Blue."),
    ];
    let model = FakeModel::heard(script, look(&desk.delegator));
    let tool = |name, effect, check: Box<dyn Fn() + Send + Sync>| {
        FakeTool::new(name, effect, move |_| {
            check();
            Box::pin(async { ToolOutput::ok("ok") })
        }) as Arc<dyn Tool>
    };
    let tools = vec![
        tool("look", Effect::ReadOnly, Box::new(look(&desk.delegator))),
        tool("change", Effect::Changes, Box::new(look(&desk.delegator))),
    ];
    desk.run(model, tools).await.expect("it runs");
    assert_eq!(*seen.lock().expect("no holder panics"), [2, 2, 2, 2, 4, 4, 6]);
    assert_legal(&desk.history().await);
}

#[tokio::test]
async fn inv_02_delivered_is_committed_with_the_turn_that_carries_the_results() {
    let mut desk = Desk::new().await;
    let delegated = Say::Calls("I delegate.", vec![call("a", "delegate_task", json!({"goal": "look"}))]);
    let delivery = |delegator: Arc<FakeDelegator>, seen: Arc<Mutex<Vec<String>>>| {
        move || {
            let id = DelegationId::from_bits(1);
            let record = futures::executor::block_on(delegator.store.delegation(&id)).expect("readable");
            let state = record.map(|record| record.deliveries[0].state.as_str().to_owned());
            seen.lock().expect("no holder panics").push(state.unwrap_or_else(|| "nothing".to_owned()));
        }
    };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let model = FakeModel::heard(
        [delegated, Say::Text("It did.")],
        delivery(Arc::clone(&desk.delegator), Arc::clone(&seen)),
    );
    let outcome = desk.run(model, vec![]).await.expect("it runs");
    assert_eq!(outcome.report.ending, Ending::Answered);
    assert_eq!(outcome.delegations, Ok(vec![DelegationId::from_bits(1)]));
    assert_eq!(*seen.lock().expect("no holder panics"), ["nothing", "delivered"]);
    let history = desk.history().await;
    assert_legal(&history);
    assert_eq!(history.len(), 5);
}

/// Stops a run while it waits for what it delegated.
async fn stopped_while_joining(reason: StopReason) -> (Desk, RunOutcome) {
    let mut delegator = FakeDelegator::new().await;
    delegator.hangs = true;
    let mut desk = Desk::with(delegator);
    let calls = vec![call("a", "delegate_task", json!({"goal": "look"}))];
    let model = FakeModel::new([Say::Calls("I delegate.", calls)]);
    let (stop, delegator) = (desk.stop.clone(), Arc::clone(&desk.delegator));
    let (outcome, ()) = tokio::join!(desk.run(model, vec![]), async move {
        until(|| !delegator.batches().is_empty()).await;
        stop.stop(StopNotice { reason, ..NOTICE });
    });
    (desk, outcome.expect("it ran"))
}

#[tokio::test]
async fn inv_11_a_stop_reaches_what_was_delegated_and_leaves_a_legal_conversation() {
    let (desk, outcome) = stopped_while_joining(StopReason::Cancelled).await;
    assert_eq!(outcome.report.ending, Ending::Interrupted);
    assert_eq!(outcome.report.answer.as_deref(), Some("I delegate."));
    assert_eq!(outcome.delegations, Ok(vec![DelegationId::from_bits(1)]));
    assert_eq!(desk.delegator.stops(), [Scope::Session(session_id())]);
    let record = desk.delegator.store.delegation(&DelegationId::from_bits(1)).await.expect("readable");
    assert_eq!(record.map(|record| record.deliveries[0].state.clone()), Some(DeliveryState::Held));
    let history = desk.history().await;
    assert_legal(&history);
    let last = "[the turn ended here without an answer: it was stopped on request]";
    assert_eq!(texts(&history), ["What colour is it?", "I delegate.", "", last]);
}

#[tokio::test]
async fn a_shutdown_ends_the_turn_and_leaves_the_children_to_the_engine() {
    let (desk, outcome) = stopped_while_joining(StopReason::Shutdown).await;
    assert_eq!(outcome.report.ending, Ending::Interrupted);
    assert_eq!(desk.delegator.stops(), []);
    let history = desk.history().await;
    assert_legal(&history);
    assert_eq!(texts(&history), ["What colour is it?"], "whoever goes on rejoins the call");
}

/// Of two calls the first ends although the process is told to, and the second is for whoever goes on.
#[tokio::test]
async fn k33_a_call_that_is_under_way_at_a_shutdown_ends_and_the_next_is_left() {
    let begun = Arc::new(Notify::new());
    let (hanging, stop_came) = (Arc::clone(&begun), Arc::new(Notify::new()));
    let goes_on = Arc::clone(&stop_came);
    let change = FakeTool::new("change", Effect::Changes, move |_| {
        let (begun, goes_on) = (Arc::clone(&hanging), Arc::clone(&goes_on));
        Box::pin(async move {
            begun.notify_one();
            goes_on.notified().await;
            ToolOutput::ok("ok")
        })
    });
    let mut desk = Desk::new().await;
    let calls = ["a", "b"].map(|id| call(id, "change", json!({}))).to_vec();
    let model = FakeModel::new([Say::Calls("I change.", calls)]);
    let stop = desk.stop.clone();
    let counted = Arc::clone(&change);
    let (outcome, ()) = tokio::join!(desk.run(model, vec![change]), async {
        begun.notified().await;
        stop.stop(StopNotice { reason: StopReason::Shutdown, ..NOTICE });
        stop_came.notify_one();
    });
    let report = outcome.expect("it ran").report;
    assert_eq!((report.ending, report.in_doubt.len(), counted.calls()), (Ending::Interrupted, 0, 1));
    assert_eq!(texts(&desk.history().await), ["What colour is it?"], "with all its results or not at all");
    let again = Desk::over(Arc::clone(&desk.delegator));
    let look = FakeTool::new("change", Effect::Changes, |_| Box::pin(async { ToolOutput::ok("ok") }));
    let later = Arc::clone(&look);
    let model = FakeModel::new([Say::Text("Changed."), Say::Text("It is blue.")]);
    let outcome = again.goes_on(model, vec![look]).await;
    assert_eq!((outcome.report.answer.as_deref(), later.calls()), (Some("It is blue."), 1));
    let history = desk.history().await;
    assert_legal(&history[..5]);
    let said = ["What colour is it?", "I change.", "", "Changed.", "What colour is it?", "It is blue."];
    assert_eq!(texts(&history), said);
    let is_whole =
        |part: &Part| matches!(part, Part::Result(result) if !result.is_error && result.content == "ok");
    assert!(history[3].parts.len() == 2 && history[3].parts.iter().all(is_whole), "{:?}", history[3]);
}

#[tokio::test]
async fn k43_a_stop_in_the_middle_keeps_what_ended_and_says_what_did_not() {
    let begun = Arc::new(Notify::new());
    let hanging = Arc::clone(&begun);
    let change = FakeTool::new("change", Effect::Changes, move |invocation| {
        let begun = Arc::clone(&hanging);
        Box::pin(async move {
            if invocation.call_id == "c" {
                begun.notify_one();
                std::future::pending::<()>().await;
            }
            ToolOutput::ok("ok")
        })
    });
    let mut desk = Desk::new().await;
    let calls = |ids: &[&str]| ids.iter().map(|id| call(id, "change", json!({}))).collect::<Vec<_>>();
    let model =
        FakeModel::new([Say::Calls("first", calls(&["a"])), Say::Calls("second", calls(&["b", "c"]))]);
    let stop = desk.stop.clone();
    let (outcome, ()) = tokio::join!(desk.run(model, vec![change]), async {
        begun.notified().await;
        stop.stop(NOTICE);
    });
    let report = outcome.expect("it ran").report;
    assert_eq!((report.tool_trace.len(), report.in_doubt.len()), (3, 1));
    let history = desk.history().await;
    assert_legal(&history);
    let last = "[the turn ended here without an answer: it was stopped on request]";
    assert_eq!(texts(&history), ["What colour is it?", "first", "", "second", "", last]);
    let told = format!("{:?}", history[5].parts);
    assert!(told.contains("Whether it had an effect is not known"), "{told}");
}

#[tokio::test]
async fn a_dropped_run_leaves_a_legal_conversation_and_no_model_call() {
    let mut desk = Desk::new().await;
    let (mark, is_dropped) = Dropped::new();
    let model = FakeModel::new([Say::Hang("Bl", mark)]);
    let asked = Arc::clone(&model);
    tokio::select! {
        _ = desk.run(model, vec![]) => panic!("it hangs"),
        () = async { until(|| asked.calls() > 0).await; } => {}
    }
    assert!(is_dropped());
    assert_legal(&desk.history().await);
}

#[tokio::test]
async fn k43_a_blank_answer_and_a_failure_leave_no_message_that_a_provider_refuses() {
    for (say, ending) in [
        (Say::Text(""), Ending::Failed(FailureKind::EmptyAnswer)),
        (Say::Fail("Bl", failure(FailureReason::Auth, "401")), Ending::Failed(FailureKind::Model)),
    ] {
        let mut desk = Desk::new().await;
        let outcome = desk.run(FakeModel::new([say]), vec![]).await.expect("it runs");
        assert_eq!(outcome.report.ending, ending);
        let history = desk.history().await;
        assert_legal(&history);
        assert_eq!(history.len(), 2);
    }
}

#[tokio::test]
async fn a_missing_folder_starts_nothing() {
    let mut desk = Desk::new().await;
    let mut setup = desk.setup(FakeModel::new([]), vec![]);
    setup.session.setting.folder = "/no/such/folder".to_owned();
    let line = desk.line.take().expect("it is there");
    let error = run_prompt(setup, line, &desk.stop).await.expect_err("it cannot start");
    assert!(error.to_string().contains("/no/such/folder"));
    assert_eq!(desk.delegator.store.session(&session_id()).await, Ok(None));
}
