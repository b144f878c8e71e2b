//! The rules of Anthropic's format, each with a request that breaks it.

use serde_json::{Value, json};

use super::client::{HEAD, ask, ask_with, assistant, calling, plain, results, streamed, user};
use crate::server::{Rule, Script, ScriptedServer, Scripts, reason, say};

fn with(field: &str, value: Value) -> Value {
    let mut body = plain(json!([user("hi")]));
    body[field] = value;
    body
}

fn without(field: &str) -> Value {
    let mut body = plain(json!([user("hi")]));
    body.as_object_mut().unwrap().remove(field);
    body
}

/// Sends each body and compares the rule and the place that the server names, in its answer and in its log.
fn check(server: &ScriptedServer, cases: Vec<(Value, Rule, &str)>) {
    for (body, rule, param) in cases {
        let response = ask(server, &body);
        assert_eq!(response.status, 400, "{body}");
        assert_eq!(response.json()["type"], "error");
        let error = response.json()["error"].clone();
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["message"].as_str().unwrap().contains(param), "{error}");
        let log = server.log();
        let violation = *log.violations().last().unwrap();
        assert_eq!((violation.rule, violation.param.as_str()), (rule, param), "{body}");
    }
}

#[test]
fn order_and_pairing_are_checked() {
    let result = |id: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": "seen" });
    let text = json!({ "type": "text", "text": "well" });
    let said = |content: Value| json!({ "role": "user", "content": content });
    let cases = vec![
        (json!([]), Rule::NoMessages, "messages"),
        (json!([assistant(json!("a")), user("b")]), Rule::UserNotFirst, "messages.0.role"),
        (json!([user("a"), user("b")]), Rule::Alternation, "messages.1.role"),
        (json!([user("a"), calling(&["a"]), calling(&["b"])]), Rule::Alternation, "messages.2.role"),
        (
            json!([user("a"), calling(&["a", "b"]), results(&["a"]), results(&["b"])]),
            Rule::Alternation,
            "messages.3.role",
        ),
        (json!([user("a"), assistant(json!("b"))]), Rule::LastRole, "messages.1.role"),
        (json!([user("a"), calling(&["a"])]), Rule::Unanswered, "messages"),
        (json!([user("a"), calling(&["a"]), user("b")]), Rule::Unanswered, "messages.2"),
        (json!([user("a"), calling(&["a", "b"]), results(&["b"])]), Rule::Unanswered, "messages"),
        (
            json!([user("a"), calling(&["a"]), said(json!([text, result("a")]))]),
            Rule::ResultNotFirst,
            "messages.2.content.1",
        ),
        (json!([said(json!([result("a")]))]), Rule::StrayResult, "messages.0.content.0.tool_use_id"),
        (
            json!([user("a"), calling(&["a"]), results(&["a", "a"])]),
            Rule::DuplicateId,
            "messages.2.content.1.tool_use_id",
        ),
        (json!([user("a"), calling(&["a", "a"])]), Rule::DuplicateId, "messages.1.content.1.id"),
    ];
    let server = ScriptedServer::start(Scripts::default());
    check(&server, cases.into_iter().map(|(list, rule, param)| (plain(list), rule, param)).collect());
}

#[test]
fn fields_are_checked() {
    let one = |content: Value| plain(json!([{ "role": "user", "content": content }]));
    let made = |block: Value| plain(json!([user("a"), assistant(json!([block])), user("b")]));
    let schema = json!({ "type": "object" });
    let tool = json!({ "name": "look", "input_schema": schema });
    let cases = vec![
        (without("model"), Rule::Missing, "model"),
        (without("max_tokens"), Rule::Missing, "max_tokens"),
        (with("max_tokens", json!(0)), Rule::IllegalValue, "max_tokens"),
        (without("messages"), Rule::Missing, "messages"),
        (with("max_completion_tokens", json!(5)), Rule::IllegalValue, "max_completion_tokens"),
        (with("stream", json!("yes")), Rule::IllegalValue, "stream"),
        (with("system", json!([{ "type": "text", "text": "" }])), Rule::Missing, "system.0.text"),
        (with("tool_choice", json!({ "type": "auto" })), Rule::IllegalValue, "tool_choice"),
        (with("tools", json!([tool, tool])), Rule::IllegalValue, "tools.1.name"),
        (with("tools", json!([{ "name": "look" }])), Rule::Missing, "tools.0.input_schema"),
        (with("thinking", json!({ "type": "enabled" })), Rule::Missing, "thinking.budget_tokens"),
        (
            with("thinking", json!({ "type": "enabled", "budget_tokens": 2048 })),
            Rule::IllegalValue,
            "thinking.budget_tokens",
        ),
        (plain(json!([{ "role": "system", "content": "x" }])), Rule::IllegalValue, "messages.0.role"),
        (
            plain(json!([{ "role": "user", "content": "x", "name": "n" }])),
            Rule::IllegalValue,
            "messages.0.name",
        ),
        (one(json!("")), Rule::Missing, "messages.0.content.0.text"),
        (one(json!([])), Rule::IllegalValue, "messages.0.content"),
        (one(json!([{ "type": "text", "text": " " }])), Rule::IllegalValue, "messages.0.content.0.text"),
        (one(json!([{ "type": "tool_use" }])), Rule::IllegalValue, "messages.0.content.0.type"),
        (
            one(
                json!([{ "type": "tool_result", "tool_use_id": "a", "content": [{ "type": "text", "text": "" }] }]),
            ),
            Rule::Missing,
            "messages.0.content.0.content.0.text",
        ),
        (made(json!({ "type": "image" })), Rule::IllegalValue, "messages.1.content.0.type"),
        (
            made(json!({ "type": "tool_use", "id": "a", "name": "look", "input": "{}" })),
            Rule::Arguments,
            "messages.1.content.0.input",
        ),
        (
            made(json!({ "type": "tool_use", "id": "a b", "name": "look", "input": {} })),
            Rule::IllegalValue,
            "messages.1.content.0.id",
        ),
    ];
    check(&ScriptedServer::start(Scripts::default()), cases);
}

#[test]
fn headers_are_checked() {
    let server = ScriptedServer::start(Scripts::default().key("right"));
    let body = plain(json!([user("hi")]));
    let head = |lines: &str| format!("{lines}connection: close\r\n");
    let cases = [
        ("anthropic-version: 2023-06-01\r\n", Rule::NoKey),
        ("authorization: Bearer right\r\n", Rule::NoKey),
        ("x-api-key: wrong\r\n", Rule::WrongKey),
    ];
    for (lines, rule) in cases {
        let response = ask_with(&server, &body, &head(lines));
        assert_eq!(response.status, 401);
        assert_eq!(response.json()["error"]["type"], "authentication_error");
        assert_eq!(server.log().violations().last().unwrap().rule, rule);
    }
    let no_version = ask_with(&server, &body, &head("x-api-key: right\r\n"));
    assert_eq!(no_version.status, 400);
    assert_eq!(server.log().violations().last().unwrap().param, "anthropic-version");
    let right = ask_with(&server, &body, &HEAD.replace("k-1", "right"));
    assert_eq!(right.status, 200);
    assert_eq!(server.log().entries().last().unwrap().key.as_deref(), Some("right"));
}

#[test]
fn thinking_must_come_back_before_its_call_and_unchanged() {
    let script = Script::new().step(reason("deep").call("look", json!({}))).step(say("done"));
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let content = ask(&server, &plain(json!([user("hi")]))).json()["content"].clone();
    let (thinking, call) = (content[0].clone(), content[1].clone());
    let id = call["id"].as_str().unwrap();
    let history = |content: Value| plain(json!([user("hi"), assistant(content), results(&[id])]));
    let changed = |field: &str, value: &str| {
        let mut changed = thinking.clone();
        changed[field] = json!(value);
        history(json!([changed, call]))
    };
    let signature = "messages.1.content.0.signature";
    let cases = vec![
        (history(json!([call])), Rule::ReasoningMissing, "messages.1.content.0"),
        (history(json!([call, thinking])), Rule::ReasoningChanged, "messages.1.content.1"),
        (changed("thinking", "deeper"), Rule::ReasoningChanged, signature),
        (changed("thinking", ""), Rule::ReasoningChanged, signature),
        (changed("signature", "forged"), Rule::ReasoningChanged, signature),
        (changed("signature", ""), Rule::ReasoningChanged, signature),
    ];
    check(&server, cases);
    assert_eq!(ask(&server, &history(json!([thinking, call]))).status, 200);
    // A turn that is over may lose its thinking.
    let later =
        json!([user("hi"), assistant(json!([call])), results(&[id]), assistant(json!("done")), user("so?")]);
    assert!(ask(&server, &plain(later)).body.contains("Unscripted"));
}

#[test]
fn a_legal_conversation_passes_whatever_its_shape() {
    let server = ScriptedServer::start(Scripts::default());
    let image =
        json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "" } });
    let cached = json!({ "type": "text", "text": "see", "cache_control": { "type": "ephemeral" } });
    let results = json!([
        { "type": "tool_result", "tool_use_id": "b", "content": [{ "type": "text", "text": "seen" }, image], "is_error": true },
        { "type": "tool_result", "tool_use_id": "a" },
        cached,
    ]);
    let messages = json!([
        { "role": "user", "content": [cached, image] },
        calling(&["a", "b"]),
        { "role": "user", "content": results },
    ]);
    let mut body = streamed(messages);
    body["system"] = json!([cached]);
    body["tools"] = json!([{ "name": "look", "description": "d", "input_schema": { "type": "object" } }]);
    body["tool_choice"] = json!({ "type": "any" });
    let response = ask(&server, &body);
    assert_eq!(response.status, 200, "{}", response.body);
    assert!(server.log().violations().is_empty());
}
