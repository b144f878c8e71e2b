//! The journal of a session's agent and the conversation that grows in its commits, over the store in memory.

use super::{Ended, Journal, Next, Outputs, Recorded, Said};
use crate::session::History;
use legwork_core::ids::{Epoch, OwnerId, SessionId};
use legwork_core::message::{Author, Message, Part, Summary, ToolCall, ToolResult};
use legwork_core::ports::{Conversations, Facts, NewSession, SessionKind, Steps};
use legwork_core::record::{OwnerRecord, Process};
use legwork_core::report::{Cost, Usage};
use legwork_core::step::{Action, Actor, Fence, Finish, Reply, Summarised};
use legwork_core::time::Timestamp;
use legwork_testkit::memory::MemoryStore;
use serde_json::json;
use std::sync::Arc;

struct Desk {
    store: Arc<MemoryStore>,
    session: SessionId,
    fence: Fence,
}

impl Desk {
    async fn new() -> Self {
        let store = Arc::new(MemoryStore::new());
        let (session, owner) = (SessionId::from_bits(1), OwnerId::from_bits(1));
        let process = Process { boot_id: "boot".to_owned(), pid: 1, start_ticks: 1 };
        let record = OwnerRecord::new(owner.clone(), process);
        store.enter(record, Timestamp(0)).await.expect("it enters");
        let new = NewSession {
            id: session.clone(),
            name: None,
            kind: SessionKind::Chat,
            folder: "/".to_owned(),
            at: Timestamp(0),
        };
        store.create_session(new, &owner).await.expect("it is new");
        Desk { store, session, fence: Fence { owner, epoch: Epoch(0) } }
    }

    /// The journal, with what a crash left, as a process that opens the session finds it.
    async fn open(&self) -> (Journal, Recorded) {
        let stored = self.history().await.len() as u64;
        let conversations = Arc::clone(&self.store) as Arc<dyn Conversations>;
        let owner = self.fence.owner.clone();
        let history = History::new(conversations, self.session.clone(), owner, stored);
        let steps = Arc::clone(&self.store) as Arc<dyn Steps>;
        let actor = Actor::Session(self.session.clone());
        let opened = Journal::open(steps, actor, self.fence.clone()).await;
        let (journal, recorded) = opened.expect("it is readable");
        (journal.with_history(history), recorded)
    }

    async fn history(&self) -> Vec<Message> {
        self.store.history(&self.session).await.expect("it is readable")
    }

    async fn texts(&self) -> Vec<String> {
        let told = |message: &Message| {
            let results = message.parts.iter().filter(|part| matches!(part, Part::Result(_))).count();
            if results > 0 { format!("{results} results") } else { message.plain_text() }
        };
        self.history().await.iter().map(told).collect()
    }
}

fn call(id: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: "look".to_owned(), arguments: json!({}), malformed: None }
}

fn action(id: &str) -> Action {
    Action::Tool { call: call(id), read_only: true }
}

fn reply(text: &str, calls: &[&str]) -> Reply {
    let text = Part::Text { text: text.to_owned() };
    let calls = calls.iter().map(|id| Part::Call(call(id)));
    let message = Message { author: Author::Assistant, parts: [text].into_iter().chain(calls).collect() };
    Reply { message, usage: Usage::default(), cost: Cost::Unknown, model: None, finish: Finish::Stop }
}

fn result(id: &str) -> ToolResult {
    ToolResult { call_id: id.to_owned(), content: "seen".to_owned(), is_error: false }
}

fn outputs(ids: &[&str]) -> Outputs {
    Outputs { ended: ids.iter().map(|id| Ended::Output(result(id))).collect(), ..Outputs::default() }
}

#[tokio::test]
async fn k43_a_conversation_grows_in_whole_records_with_the_commits_of_its_journal() {
    let desk = Desk::new().await;
    let (mut journal, _) = desk.open().await;
    let ask = || Next::Model(None);
    journal.append(vec![Message::text(Author::User, "hi")], Vec::new()).await.expect("stored");
    journal.begin(&[], &ask()).await.expect("stored");
    journal.replied(reply("I look.", &["a", "b"]), &Next::Tools(vec![action("a")])).await.expect("stored");
    assert_eq!(desk.texts().await, ["hi"]);
    journal.ran(outputs(&["a"]), &Next::Tools(vec![action("b")])).await.expect("stored");
    assert_eq!(desk.texts().await, ["hi"]);
    let said = Said {
        action: Action::Steer { requests: Vec::new() },
        message: Message::text(Author::User, "quick"),
    };
    journal.ran(outputs(&["b"]), &Next::Compact(Some(said))).await.expect("stored");
    assert_eq!(desk.texts().await, ["hi", "I look.", "2 results", "quick"]);
    let summary = Summary { text: "short".to_owned(), from: 1 };
    let message = Message { author: Author::Summary, parts: vec![Part::Summary(summary)] };
    let summary = Summarised { message, usage: Usage::default(), cost: Cost::Unknown };
    journal.compacted(summary, &ask()).await.expect("stored");
    journal.replied(reply(" ", &[]), &ask()).await.expect("stored");
    journal.replied(reply("done", &[]), &Next::End(None)).await.expect("stored");
    assert_eq!(desk.texts().await, ["hi", "I look.", "2 results", "quick", "short", "done"]);
}

#[tokio::test]
async fn k02_a_turn_that_was_cut_off_between_its_calls_is_found_and_becomes_whole() {
    let desk = Desk::new().await;
    let (mut journal, _) = desk.open().await;
    journal.append(vec![Message::text(Author::User, "hi")], Vec::new()).await.expect("stored");
    journal.begin(&[], &Next::Model(None)).await.expect("stored");
    journal.replied(reply("I look.", &["a", "b"]), &Next::Tools(vec![action("a")])).await.expect("stored");
    journal.ran(outputs(&["a"]), &Next::Tools(vec![action("b")])).await.expect("stored");
    drop(journal);
    let (mut journal, recorded) = desk.open().await;
    let open = recorded.exchange.expect("a reply waits for its results");
    assert_eq!((open.reply.message.calls().count(), open.results), (2, vec![result("a")]));
    assert_eq!(recorded.unfinished.iter().map(|step| step.action.clone()).collect::<Vec<_>>(), [action("b")]);
    let remark = Message::text(Author::Assistant, "[stopped]");
    journal.ran(outputs(&["b"]), &Next::End(Some(remark))).await.expect("stored");
    assert_eq!(desk.texts().await, ["hi", "I look.", "2 results", "[stopped]"]);
}

#[tokio::test]
async fn k02_of_a_session_only_the_last_turn_is_recorded_and_one_that_ended_leaves_nothing_open() {
    let desk = Desk::new().await;
    let (mut journal, recorded) = desk.open().await;
    assert_eq!(recorded, Recorded::default());
    for (question, answer) in [("one", "first"), ("two", "second")] {
        journal.append(vec![Message::text(Author::User, question)], Vec::new()).await.expect("stored");
        journal.begin(&[], &Next::Model(None)).await.expect("stored");
        journal.replied(reply(answer, &[]), &Next::End(None)).await.expect("stored");
    }
    let (_, recorded) = desk.open().await;
    assert_eq!((recorded.model_calls, recorded.unfinished.len(), recorded.exchange), (1, 0, None));
    assert_eq!(recorded.answer.map(|reply| reply.message.plain_text()), Some("second".to_owned()));
    journal.append(vec![Message::text(Author::User, "three")], Vec::new()).await.expect("stored");
    journal.begin(&[], &Next::Model(None)).await.expect("stored");
    let (_, recorded) = desk.open().await;
    assert_eq!((recorded.model_calls, recorded.unfinished.len(), recorded.answer), (1, 1, None));
}
