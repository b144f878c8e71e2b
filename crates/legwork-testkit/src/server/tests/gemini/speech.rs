//! What the server says in Gemini's way: chunks, parts, signatures, usage, and the same in one piece.

use serde_json::{Value, json};

use super::client::{MODEL, ask, ask_at, ask_streamed, body, chunks, model, parts, responses, user};
use crate::server::{
    Call, Finish, ProviderError, Reply, Script, ScriptedServer, Scripts, Usage, call, empty, reason, say,
};

fn server(reply: Reply) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::new().step(reply).step(say("final"))))
}

fn everything() -> Reply {
    let calls = [
        Call::new("look", json!({ "path": "größe/ä.txt" })).id("c1"),
        Call::new("look", json!({ "n": [1, 2] })).id("c2"),
    ];
    let usage = Usage::new(100, 30).cached(60).reasoning(12);
    reason("let me think").say("I look").calls(calls).usage(usage)
}

#[test]
fn a_stream_is_a_row_of_responses_of_which_the_last_has_an_end() {
    let response = ask_streamed(&server(say("one two three")), &body(json!([user("hi")])));
    assert_eq!(response.status, 200);
    assert!(response.whole && response.head.contains("content-type: text/event-stream"));
    let chunks = chunks(&response);
    assert_eq!(chunks.len(), response.chunks, "each event is a chunk of its own");
    assert!(chunks.len() > 2);
    let (last, before) = chunks.split_last().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert!(before.iter().all(|chunk| chunk["candidates"][0]["finishReason"].is_null()));
    for chunk in &chunks {
        assert_eq!(chunk["modelVersion"], MODEL);
        assert_eq!(chunk["responseId"], last["responseId"]);
        assert_eq!(chunk["candidates"][0]["content"]["role"], "model");
    }
    assert_eq!(parts(&chunks)[0]["text"], "one two three");
}

#[test]
fn a_stream_and_an_answer_in_one_piece_say_the_same() {
    let streamed = chunks(&ask_streamed(&server(everything()), &body(json!([user("hi")]))));
    let whole = ask(&server(everything()), &body(json!([user("hi")]))).json();
    for said in [parts(&streamed), parts(std::slice::from_ref(&whole))] {
        assert_eq!(said[0], json!({ "text": "let me think", "thought": true }));
        assert_eq!(said[1], json!({ "text": "I look" }));
        let args = json!({ "path": "größe/ä.txt" });
        assert_eq!(said[2]["functionCall"], json!({ "id": "c1", "name": "look", "args": args }));
        assert!(!said[2]["thoughtSignature"].as_str().unwrap().is_empty());
        let second = json!({ "id": "c2", "name": "look", "args": { "n": [1, 2] } });
        assert_eq!(said[3], json!({ "functionCall": second }), "only the first call is signed");
        assert_eq!(said.len(), 4);
    }
    for last in [streamed.last().unwrap(), &whole] {
        let expected = json!({
            "promptTokenCount": 100,
            "candidatesTokenCount": 18,
            "thoughtsTokenCount": 12,
            "cachedContentTokenCount": 60,
            "totalTokenCount": 130,
        });
        assert_eq!(last["usageMetadata"], expected);
        assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    }
}

#[test]
fn a_call_comes_whole() {
    let stream =
        chunks(&ask_streamed(&server(call("look", json!({ "path": "a.txt" }))), &body(json!([user("hi")]))));
    let calls = stream
        .iter()
        .filter(|chunk| chunk["candidates"][0]["content"]["parts"][0].get("functionCall").is_some());
    assert_eq!(calls.count(), 1);
}

#[test]
fn a_malformed_call_ends_the_response_with_a_reason_of_its_own() {
    let reply = || empty().calls([Call::malformed("look", "{\"path\": ")]);
    let streamed = chunks(&ask_streamed(&server(reply()), &body(json!([user("hi")]))));
    let whole = ask(&server(reply()), &body(json!([user("hi")]))).json();
    for last in [streamed.last().unwrap(), &whole] {
        let candidate = &last["candidates"][0];
        assert_eq!(candidate["finishReason"], "MALFORMED_FUNCTION_CALL");
        assert!(candidate["finishMessage"].as_str().unwrap().contains("look({\"path\": )"));
    }
    assert!(!whole.to_string().contains("functionCall\""));
}

#[test]
fn the_whole_exchange_passes_with_all_that_was_said_sent_back() {
    let ask_for = |streamed: bool, server: &ScriptedServer, contents: Value| -> Vec<Value> {
        match streamed {
            true => parts(&chunks(&ask_streamed(server, &body(contents)))),
            false => parts(&[ask(server, &body(contents)).json()]),
        }
    };
    for streamed in [true, false] {
        let server = server(everything());
        let said = ask_for(streamed, &server, json!([user("hi")]));
        let history = json!([user("hi"), model(json!(said)), responses(&["c1", "c2"])]);
        let last = ask_for(streamed, &server, history);
        assert_eq!(last[0]["text"], "final");
        assert!(last[0]["thoughtSignature"].is_string(), "a text has its signature in its last part");
        let log = server.log();
        assert!(log.violations().is_empty());
        assert_eq!(log.entries()[1].step, 1);
    }
}

#[test]
fn thoughts_are_shown_to_those_who_ask_for_them() {
    let ask_with = |config: Value| {
        let mut body = body(json!([user("hi")]));
        body["generationConfig"] = config;
        parts(&[ask(&server(reason("deep").say("x")), &body).json()])
    };
    assert_eq!(ask_with(json!({ "thinkingConfig": { "includeThoughts": true } })).len(), 2);
    assert_eq!(ask_with(json!({ "thinkingConfig": { "include_thoughts": true } })).len(), 2);
    for hidden in [
        json!({}),
        Value::Null,
        json!({ "thinkingConfig": { "includeThoughts": true, "thinkingBudget": 0 } }),
    ] {
        assert_eq!(ask_with(hidden)[0]["text"], "x");
    }
}

#[test]
fn an_older_generation_has_neither_ids_nor_signatures() {
    let server = server(everything());
    let path = "/v1beta/models/gemini-2.5-flash:generateContent";
    let said = parts(&[ask_at(&server, path, &body(json!([user("hi")]))).json()]);
    assert!(said.iter().all(|part| part.get("thoughtSignature").is_none()));
    assert!(said.iter().all(|part| part["functionCall"].get("id").is_none()));
    let plain = json!({ "functionResponse": { "name": "look", "response": { "result": "seen" } } });
    let history = json!([user("hi"), model(json!(said)), { "role": "user", "parts": [plain, plain] }]);
    assert_eq!(ask_at(&server, path, &body(history)).status, 200);
    assert!(server.log().violations().is_empty());
}

#[test]
fn the_reason_for_the_end_is_told() {
    let ends = [
        (empty(), "STOP"),
        (say("x").finish(Finish::Length), "MAX_TOKENS"),
        (say("x").finish(Finish::Filtered), "SAFETY"),
    ];
    for (reply, reason) in ends {
        let response = ask(&server(reply), &body(json!([user("hi")]))).json();
        assert_eq!(response["candidates"][0]["finishReason"], reason);
    }
    let unknown = ask_streamed(&server(say("x").without_usage()), &body(json!([user("hi")])));
    assert!(!unknown.body.contains("usageMetadata"));
}

#[test]
fn an_error_object_ends_a_stream() {
    let reply = say("x").error_chunk(ProviderError::new("overloaded_error", "too much"));
    let chunks = chunks(&ask_streamed(&server(reply), &body(json!([user("hi")]))));
    let error = json!({ "code": 503, "message": "too much", "status": "UNAVAILABLE" });
    assert_eq!(chunks.last(), Some(&json!({ "error": error })));
}
