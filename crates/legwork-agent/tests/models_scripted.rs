//! The scripted model, and the script that belongs to the example with three readers.

use futures::StreamExt;
use legwork_agent::models::{Model, ModelError, ModelRequest, ReplyPart, Script, Scripted};
use legwork_core::message::{Author, Message, Part, ToolResult};
use legwork_core::report::FailureReason;
use legwork_core::step::Reply;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

fn scripted(text: &str) -> Scripted {
    Scripted::new("test.toml", Script::parse(text, Path::new("test.toml")).expect("a script"))
}

async fn ask(model: &Scripted, messages: &[Message]) -> Result<(String, Reply), ModelError> {
    let messages = messages.iter().cloned().map(Arc::new).collect();
    let mut stream = model.respond(ModelRequest { messages, tools: Arc::from([]) });
    let mut said = String::new();
    while let Some(part) = stream.next().await {
        match part? {
            ReplyPart::Text(text) => said.push_str(&text),
            ReplyPart::Thinking(_) => {}
            ReplyPart::Moved => {}
            ReplyPart::Done(reply) => return Ok((said, *reply)),
        }
    }
    panic!("a stream ends with a reply or an error")
}

fn user(text: &str) -> Vec<Message> {
    vec![Message::text(Author::System, "system"), Message::text(Author::User, text)]
}

fn result(id: &str, content: String) -> Message {
    let result = ToolResult { call_id: id.to_owned(), content, is_error: false };
    Message { author: Author::Tool, parts: vec![Part::Result(result)] }
}

#[tokio::test(start_paused = true)]
async fn what_streams_is_what_the_reply_holds_and_the_delay_comes_first() {
    let model = scripted("[[default.step]]\nthink = \"hm hm\"\nsay = \"one two\\nthree\"\ndelay_ms = 1500");
    let before = Instant::now();
    let (said, reply) = ask(&model, &user("hi")).await.expect("a reply");
    assert_eq!(before.elapsed(), Duration::from_millis(1500));
    assert_eq!(said, "one two\nthree");
    assert_eq!(reply.message.plain_text(), said);
    assert!(reply.usage.input > 0 && reply.usage.output > 0);
}

#[tokio::test]
async fn the_same_conversation_gets_the_same_reply() {
    let model = scripted("[[default.step]]\ncall = [{ tool = \"a\" }, { tool = \"a\" }]");
    let first = ask(&model, &user("hi")).await.expect("a reply").1;
    assert_eq!(first, ask(&model, &user("hi")).await.expect("a reply").1);
    let ids: Vec<_> = first.message.calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn a_conversation_without_a_reply_is_told_why() {
    let model = scripted("[[agent]]\nmarker = \"x\"\n[[agent.step]]\nsay = \"ok\"");
    let mut messages = user("x");
    messages.extend([Message::text(Author::Assistant, "ok"), Message::text(Author::User, "again")]);
    let used_up = ask(&model, &messages).await.expect_err("there is no second step");
    assert!(used_up.message.contains("reply number 2") && used_up.message.contains("used up"), "{used_up:?}");
    let unknown = ask(&model, &user("y")).await.expect_err("no marker matches");
    assert!(unknown.message.contains("no marker matches"), "{unknown:?}");
    assert_eq!((unknown.reason, unknown.retryable), (FailureReason::BadRequest, false));
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

fn goals() -> Vec<String> {
    let text = fs::read_to_string(example("three-readers.toml")).expect("the example is there");
    let tasks: toml::Table = text.parse().expect("TOML");
    let tasks = tasks["tasks"].as_array().expect("a list of tasks").clone();
    tasks.iter().map(|task| task["goal"].as_str().expect("a goal").to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn each_of_the_three_readers_reads_its_file_and_answers_from_it() {
    let script = Script::read(&example("three-readers.script.toml")).expect("a script without mistakes");
    let model = Scripted::new("three-readers", script);
    let files = ["README.md", "LICENSE-MIT", "crates/legwork-core/src/delivery.rs"];
    let goals = goals();
    assert_eq!(goals.len(), files.len());
    for (goal, file) in goals.iter().zip(files) {
        let mut messages = user(goal);
        let reply = ask(&model, &messages).await.expect("a reply").1;
        let call = reply.message.calls().next().cloned().expect("a call");
        assert_eq!((call.name.as_str(), call.arguments["path"].as_str()), ("read_file", Some(file)));
        messages.extend([reply.message, result(&call.id, format!("first line of {file}\nsecond"))]);
        let (said, reply) = ask(&model, &messages).await.expect("an answer");
        assert_eq!(reply.message.calls().count(), 0);
        assert!(said.contains(&format!("first line of {file}")) && !said.contains("second"), "{said}");
    }
}
