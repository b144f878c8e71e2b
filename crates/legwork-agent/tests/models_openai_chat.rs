//! OpenAI chat completions against the scripted server: what is said, called, counted and sent.

#[path = "models_support/asking.rs"]
mod models_support;

use legwork_agent::models::{Model, ReplyPart};
use legwork_core::message::{Author, Message, Part};
use legwork_core::report::Cost;
use legwork_core::step;
use legwork_testkit::server::{
    Call, Finish, Script, ScriptedServer, Scripts, Usage, call, calls, gate, reason, say,
};
use models_support::{ask, model_at, request, text_of};
use serde_json::{Value, json};
use std::sync::Arc;

fn server(script: Script) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(script))
}

#[tokio::test]
async fn text_streams_and_then_stands_in_the_reply() {
    let server = server(Script::new().step(say("Hello, this is a reply.")));
    let (parts, reply) = ask(&model_at(&server), request("hi")).await;
    let pieces: Vec<&str> = parts.iter().map(text_of).collect();
    assert!(pieces.len() > 1, "{pieces:?}");
    assert_eq!(pieces.concat(), "Hello, this is a reply.");
    let reply = reply.expect("a reply");
    assert_eq!(reply.message, Message::text(Author::Assistant, "Hello, this is a reply."));
    assert_eq!(reply.model.as_deref(), Some("test-model"));
    assert!(server.log().violations().is_empty(), "{}", server.log().summary());
}

#[tokio::test]
async fn text_arrives_before_the_reply_ends() {
    let server = server(Script::new().step(say("first").gate("middle").say("second")));
    let mut stream = model_at(&server).respond(request("hi"));
    let mut heard = String::new();
    while heard != "first" {
        heard.push_str(text_of(&models_support::next(&mut stream).await.expect("a part").expect("no error")));
    }
    server.gate("middle").open();
    let parts = models_support::rest(&mut stream).await;
    assert!(matches!(parts.last(), Some(Ok(ReplyPart::Done(_)))), "{parts:?}");
}

#[tokio::test]
async fn two_calls_with_split_arguments_come_whole_and_in_order() {
    let both = calls([
        Call::new("read_file", json!({"path": "a.txt", "note": "ä \"quoted\" text"})),
        Call::new("list_files", json!({"path": "."})),
    ]);
    let server = server(Script::new().step(both));
    let reply = ask(&model_at(&server), request("hi")).await.1.expect("a reply");
    let made: Vec<_> = reply.message.calls().collect();
    assert_eq!(made.len(), 2);
    assert_eq!((made[0].name.as_str(), made[1].name.as_str()), ("read_file", "list_files"));
    assert_eq!(made[0].arguments, json!({"path": "a.txt", "note": "ä \"quoted\" text"}));
    assert_ne!(made[0].id, made[1].id);
    assert!(made.iter().all(|call| call.malformed.is_none()));
}

#[tokio::test]
async fn reasoning_streams_is_kept_and_goes_back() {
    let script = Script::new()
        .step(reason("I should look.").call("read_file", json!({"path": "a"})))
        .step(say("done"));
    let server = server(script);
    let model = model_at(&server);
    let (parts, reply) = ask(&model, request("hi")).await;
    let thought: String = parts
        .iter()
        .filter_map(|part| match part {
            ReplyPart::Thinking(text) => Some(text.as_str()),
            ReplyPart::Text(_) | ReplyPart::Moved | ReplyPart::Done(_) => None,
        })
        .collect();
    assert_eq!(thought, "I should look.");
    let message = reply.expect("a reply").message;
    assert!(matches!(&message.parts[0], Part::Reasoning { text, .. } if text == "I should look."));

    let answered = models_support::answered(request("hi"), message, "alpha");
    ask(&model, answered).await.1.expect("a second reply");
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    let sent = &log.entries()[1].body["messages"][2];
    assert_eq!(sent["reasoning_content"], "I should look.", "{sent}");
}

#[tokio::test]
async fn k32_usage_is_taken_over_and_the_price_at_another_address_is_unknown() {
    let counted = say("ok").usage(Usage::new(120, 30).cached(100).reasoning(10));
    let server = server(Script::new().step(counted).step(say("ok").without_usage()));
    let reply = ask(&models_support::named(&server, "gpt-4.1"), request("hi")).await.1.expect("a reply");
    let usage = reply.usage;
    assert_eq!((usage.input, usage.output, usage.cached, usage.reasoning), (120, 30, 100, 10));
    assert_eq!(reply.cost, Cost::Unknown);
}

#[tokio::test]
async fn k23_malformed_arguments_come_as_text_and_go_back_as_an_object() {
    let script = Script::new()
        .step(calls([Call::malformed("read_file", r#"{"path": "a"#), Call::malformed("read_file", "[1, 2]")]))
        .step(say("sorry"));
    let server = server(script);
    let model = model_at(&server);
    let message = ask(&model, request("hi")).await.1.expect("a reply").message;
    let made: Vec<_> = message.calls().cloned().collect();
    assert_eq!(made[0].malformed.as_deref(), Some(r#"{"path": "a"#));
    assert_eq!(made[1].malformed.as_deref(), Some("[1, 2]"));
    assert!(made.iter().all(|call| call.arguments == Value::Null));

    ask(&model, models_support::answered(request("hi"), message, "not valid JSON"))
        .await
        .1
        .expect("a second reply");
    assert!(server.log().violations().is_empty(), "{}", server.log().summary());
}

#[tokio::test]
async fn k42_an_id_that_the_conversation_has_used_is_replaced() {
    let again = || calls([Call::new("read_file", json!({"path": "a"})).id("call_0")]);
    let server = server(Script::new().step(again()).step(again()).step(say("done")));
    let model = model_at(&server);
    let first = ask(&model, request("hi")).await.1.expect("a reply").message;
    assert_eq!(first.calls().next().map(|call| call.id.as_str()), Some("call_0"));
    let so_far = models_support::answered(request("hi"), first, "alpha");
    let second = ask(&model, so_far.clone()).await.1.expect("a reply").message;
    let id = second.calls().next().map(|call| call.id.clone()).expect("a call");
    assert_ne!(id, "call_0");
    ask(&model, models_support::answered(so_far, second, "beta")).await.1.expect("a third reply");
    assert!(server.log().violations().is_empty(), "{}", server.log().summary());
}

#[tokio::test]
async fn a_repeated_id_within_one_reply_is_replaced() {
    let twins = calls([Call::new("a", json!({})).id("same"), Call::new("b", json!({})).id("same")]);
    let server = server(Script::new().step(twins));
    let message = ask(&model_at(&server), request("hi")).await.1.expect("a reply").message;
    let ids: Vec<_> = message.calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids[0], "same");
    assert_ne!(ids[1], "same");
}

#[tokio::test]
async fn k24_half_a_character_does_not_cost_the_reply() {
    let chunk = |text: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
            .into_bytes()
    };
    let reply = say("a").raw(chunk("\\ud83d")).raw(chunk("b\\udc00c")).raw(chunk("\\ud83d\\ude00"));
    let server = server(Script::new().step(reply));
    let reply = ask(&model_at(&server), request("hi")).await.1.expect("a reply");
    assert_eq!(reply.message.plain_text(), "a\u{fffd}b\u{fffd}c\u{1f600}");
}

#[tokio::test]
async fn a_reply_says_why_it_ended() {
    let cases = [
        (say("half a sen").finish(Finish::Length), step::Finish::Length),
        (say("whole"), step::Finish::Stop),
        (call("read_file", json!({"path": "a"})), step::Finish::ToolUse),
    ];
    for (reply, finish) in cases {
        let server = server(Script::new().step(reply));
        assert_eq!(ask(&model_at(&server), request("hi")).await.1.expect("a reply").finish, finish);
    }
}

#[tokio::test]
async fn arguments_that_are_being_written_are_a_sign_of_life() {
    let server = server(Script::new().step(call("read_file", json!({"path": "a".repeat(500)}))));
    let parts = ask(&model_at(&server), request("hi")).await.0;
    let moved = parts.iter().filter(|part| **part == ReplyPart::Moved).count();
    assert!(moved > 1, "{parts:?}");
}

#[tokio::test]
async fn the_key_and_the_tools_are_sent() {
    let server = server(Script::new().step(call("read_file", json!({}))));
    ask(&model_at(&server), request("hi")).await.1.expect("a reply");
    let log = server.log();
    let entry = &log.entries()[0];
    assert_eq!(entry.authorization.as_deref(), Some("Bearer sk-test-key"));
    assert_eq!(entry.path, "/v1/chat/completions");
    assert_eq!(entry.body["stream"], true);
    assert_eq!(entry.body["tools"][0]["function"]["name"], "read_file");
    assert_eq!(entry.body["model"], "test-model");
}

#[tokio::test]
async fn without_a_key_no_authorization_is_sent() {
    let server = server(Script::new().step(say("ok")));
    let model = models_support::without_key(&server.base_url());
    ask(&model, request("hi")).await.1.expect("a reply");
    assert_eq!(server.log().entries()[0].authorization, None);
}

#[tokio::test]
async fn k11_dropping_the_stream_cancels_the_request() {
    let server = Arc::new(server(Script::new().step(say("begun").gate("never"))));
    let mut stream = model_at(&server).respond(request("hi"));
    models_support::next(&mut stream).await.expect("a part").expect("no error");
    drop(stream);
    let waiting = Arc::clone(&server);
    let gone = move || waiting.wait_for(|log| log.in_flight() == 0, models_support::PATIENCE);
    let log = tokio::task::spawn_blocking(gone).await.expect("the wait ends");
    assert_eq!(log.entries()[0].ending, legwork_testkit::server::Ending::ClientGone);
}

#[tokio::test]
async fn nothing_is_sent_before_the_stream_is_polled() {
    let server = server(Script::new().step(gate("never")));
    drop(model_at(&server).respond(request("hi")));
    assert!(server.log().entries().is_empty());
}
