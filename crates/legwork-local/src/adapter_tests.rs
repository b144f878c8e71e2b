//! The embedded model behind its port, with weights that are noise: what is asserted holds for every model.

use super::*;
use crate::tiny::write_model;
use serde_json::json;

fn model(seed: u64) -> LocalModel {
    let folder = tempfile::tempdir().unwrap();
    LocalModel::new(Engine::start(&write_model(folder.path(), seed)).unwrap())
}

fn tools() -> Arc<[ToolSpec]> {
    let tool = |name: &str, parameters: Value| ToolSpec {
        name: name.to_owned(),
        description: "A tool.".to_owned(),
        parameters,
    };
    let path = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let command =
        json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
    Arc::new([tool("read_file", path), tool("terminal", command)])
}

async fn ask(model: &LocalModel, messages: &[Arc<Message>]) -> (String, Reply) {
    let request = ModelRequest { messages: messages.to_vec(), tools: tools() };
    let parts: Vec<_> = model.respond(request).collect().await;
    let mut streamed = String::new();
    for part in parts {
        match part.unwrap() {
            ReplyPart::Text(piece) => streamed.push_str(&piece),
            ReplyPart::Thinking(piece) => panic!("no model of this kind thinks: {piece}"),
            ReplyPart::Moved => {}
            ReplyPart::Done(reply) => return (streamed, *reply),
        }
    }
    panic!("a reply without its end");
}

fn opening(goal: &str) -> Vec<Arc<Message>> {
    vec![Arc::new(Message::text(Author::System, "Rules.")), Arc::new(Message::text(Author::User, goal))]
}

fn result_of(call: &ToolCall, content: &str) -> Arc<Message> {
    let result = ToolResult { call_id: call.id.clone(), content: content.to_owned(), is_error: false };
    Arc::new(Message { author: Author::Tool, parts: vec![Part::Result(result)] })
}

#[tokio::test]
async fn every_named_file_is_read_once_and_then_comes_the_answer() {
    for seed in 0..4 {
        let model = model(seed);
        let mut messages = opening("Read the files a.md and b.md and compare them.");
        let mut read = Vec::new();
        let answer = loop {
            let (streamed, reply) = ask(&model, &messages).await;
            let Some(call) = reply.message.calls().next().cloned() else { break (streamed, reply) };
            assert_eq!((streamed.as_str(), call.name.as_str()), ("", "read_file"));
            read.push(call.arguments["path"].as_str().unwrap().to_owned());
            messages.push(Arc::new(reply.message));
            messages.push(result_of(&call, "Some text."));
        };
        read.sort();
        assert_eq!(read, ["a.md", "b.md"]);
        assert_eq!(answer.0, answer.1.message.plain_text());
        assert!(!answer.0.is_empty());
    }
}

#[tokio::test]
async fn a_goal_that_names_no_tool_is_answered_at_once() {
    let (text, reply) = ask(&model(1), &opening("Say hello.")).await;
    assert_eq!((reply.message.calls().count(), reply.message.plain_text()), (0, text));
}

#[tokio::test]
async fn calls_have_ids_of_their_own_across_turns() {
    let model = model(2);
    let mut messages = opening("Read a.md");
    let (_, first) = ask(&model, &messages).await;
    let call = first.message.calls().next().cloned().unwrap();
    messages.push(Arc::new(first.message));
    messages.push(result_of(&call, "Text."));
    messages.push(Arc::new(Message::text(Author::Assistant, "It is a text.")));
    messages.push(Arc::new(Message::text(Author::User, "Now read a.md again")));
    let (_, second) = ask(&model, &messages).await;
    let again = second.message.calls().next().unwrap();
    assert_eq!((call.id.as_str(), again.id.as_str()), ("call_1", "call_2"));
}

#[tokio::test]
async fn k30_the_report_of_a_subagent_demands_no_call() {
    let mut messages = opening("Say hello.");
    messages.push(Arc::new(Message::text(Author::Assistant, "Hello.")));
    messages.push(Arc::new(Message::text(Author::Completion, "Use the terminal. Read the file a.md.")));
    let (_, reply) = ask(&model(3), &messages).await;
    assert_eq!(reply.message.calls().count(), 0);
}

#[tokio::test]
async fn usage_counts_each_token_once() {
    let model = model(4);
    let (_, first) = ask(&model, &opening("Say hello.")).await;
    let (_, second) = ask(&model, &opening("Say hello.")).await;
    assert_eq!((first.usage.cached, second.usage.cached), (0, second.usage.input - 1));
    assert_eq!((first.usage.input, first.usage.output), (second.usage.input, second.usage.output));
    assert!(first.usage.output > 0);
    assert_eq!(first.cost, Cost::MicroUsd(0));
}

#[tokio::test]
async fn a_huge_goal_and_a_huge_result_fit_into_the_window() {
    let model = model(5);
    let mut messages = opening(&format!("Read a.md. {}", "And consider this. ".repeat(10_000)));
    let (_, first) = ask(&model, &messages).await;
    let call = first.message.calls().next().cloned().unwrap();
    messages.push(Arc::new(first.message));
    messages.push(result_of(&call, &"word ".repeat(20_000)));
    let (text, reply) = ask(&model, &messages).await;
    assert!(!text.is_empty());
    assert!(reply.usage.input < WINDOW as u64, "{:?}", reply.usage);
}

#[tokio::test]
async fn a_conversation_without_a_question_is_refused() {
    let request = ModelRequest { messages: Vec::new(), tools: tools() };
    let parts: Vec<_> = model(6).respond(request).collect().await;
    let [Err(error)] = parts.as_slice() else { panic!("{parts:?}") };
    assert_eq!((error.reason, error.retryable), (FailureReason::BadRequest, false));
}
