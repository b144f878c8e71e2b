//! The strict check: every rule with a request that breaks it, and what is legal beside it.

use serde_json::{Value, json};

use super::client::{Line, ask, assistant, calling, plain, result, user};
use crate::server::{Alternation, Rule, Script, ScriptedServer, Scripts, rate_limited, say};

fn system() -> Value {
    json!({ "role": "system", "content": "rules" })
}

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
fn check(scripts: Scripts, cases: Vec<(Value, Rule, &str)>) {
    let server = ScriptedServer::start(scripts);
    for (number, (body, rule, param)) in cases.into_iter().enumerate() {
        let response = ask(&server, &body);
        assert_eq!(response.status, 400, "{body}");
        let error = response.json()["error"].clone();
        assert_eq!(error["type"], "invalid_request_error");
        assert_eq!(error["param"], param, "{body}");
        assert!(error["message"].as_str().unwrap().contains(param), "{error}");
        let log = server.log();
        assert_eq!(log.violations().len(), number + 1);
        assert_eq!(log.violations()[number].rule, rule, "{body}");
    }
}

#[test]
fn order_and_pairing_are_checked() {
    let bad_arguments = json!({ "role": "assistant", "tool_calls": [
        { "id": "a", "type": "function", "function": { "name": "look", "arguments": "{\"x\": " } },
    ] });
    let cases = vec![
        (json!([]), Rule::NoMessages, "messages"),
        (json!([user("a"), system(), user("b")]), Rule::SystemNotFirst, "messages[1].role"),
        (json!([system(), system(), user("b")]), Rule::SystemNotFirst, "messages[1].role"),
        (json!([assistant("a"), user("b")]), Rule::UserNotFirst, "messages[0].role"),
        (json!([system()]), Rule::LastRole, "messages[0].role"),
        (json!([user("a"), assistant("b")]), Rule::LastRole, "messages[1].role"),
        (json!([user("a"), calling(&["a"])]), Rule::Unanswered, "messages"),
        (json!([user("a"), calling(&["a", "b"]), result("b")]), Rule::Unanswered, "messages"),
        (json!([user("a"), calling(&["a", "b"]), result("b"), user("c")]), Rule::Unanswered, "messages[3]"),
        (json!([user("a"), calling(&["a"]), calling(&["b"])]), Rule::Unanswered, "messages[2]"),
        (json!([user("a"), result("a")]), Rule::StrayResult, "messages[1].tool_call_id"),
        (json!([user("a"), calling(&["a"]), result("b")]), Rule::StrayResult, "messages[2].tool_call_id"),
        (
            json!([user("a"), calling(&["a"]), result("a"), result("a")]),
            Rule::DuplicateId,
            "messages[3].tool_call_id",
        ),
        (json!([user("a"), calling(&["a", "a"])]), Rule::DuplicateId, "messages[1].tool_calls[1].id"),
        (
            json!([user("a"), calling(&["a"]), result("a"), calling(&["a"]), result("a")]),
            Rule::DuplicateId,
            "messages[3].tool_calls[0].id",
        ),
        (
            json!([user("a"), bad_arguments, result("a")]),
            Rule::Arguments,
            "messages[1].tool_calls[0].function.arguments",
        ),
    ];
    check(
        Scripts::default(),
        cases.into_iter().map(|(list, rule, param)| (plain(list), rule, param)).collect(),
    );
}

#[test]
fn neighbours_of_one_role_are_illegal_only_where_the_test_says_so() {
    let twice =
        [json!([user("a"), user("b")]), json!([user("a"), assistant("b"), assistant("c"), user("d")])];
    let free = ScriptedServer::start(Scripts::default());
    for messages in &twice {
        assert_eq!(ask(&free, &plain(messages.clone())).status, 200);
    }
    assert!(free.log().violations().is_empty());
    let [users, assistants] = twice;
    let cases = vec![
        (plain(users), Rule::Alternation, "messages[1].role"),
        (plain(assistants), Rule::Alternation, "messages[2].role"),
    ];
    check(Scripts::default().alternation(Alternation::Strict), cases);
}

#[test]
fn fields_are_checked() {
    let one = |message: Value| plain(json!([message]));
    let tool = json!({ "type": "function", "function": { "name": "look", "parameters": {} } });
    let spaced = json!({ "type": "function", "function": { "name": "look here" } });
    let cases = vec![
        (without("model"), Rule::Missing, "model"),
        (with("model", json!("")), Rule::Missing, "model"),
        (with("model", json!(4)), Rule::IllegalValue, "model"),
        (without("messages"), Rule::Missing, "messages"),
        (with("messages", json!("hi")), Rule::IllegalValue, "messages"),
        (with("stream", json!("yes")), Rule::IllegalValue, "stream"),
        (with("stream_options", json!({})), Rule::IllegalValue, "stream_options"),
        (with("tools", json!([])), Rule::IllegalValue, "tools"),
        (with("tools", json!([tool, tool])), Rule::IllegalValue, "tools[1].function.name"),
        (with("tools", json!([spaced])), Rule::IllegalValue, "tools[0].function.name"),
        (with("tool_choice", json!("auto")), Rule::IllegalValue, "tool_choice"),
        (one(json!("hi")), Rule::IllegalValue, "messages[0]"),
        (one(json!({ "content": "hi" })), Rule::Missing, "messages[0].role"),
        (one(json!({ "role": "robot", "content": "hi" })), Rule::IllegalValue, "messages[0].role"),
        (one(json!({ "role": "user" })), Rule::Missing, "messages[0].content"),
        (one(json!({ "role": "user", "content": 7 })), Rule::IllegalValue, "messages[0].content"),
        (one(json!({ "role": "user", "content": [] })), Rule::IllegalValue, "messages[0].content"),
        (
            one(json!({ "role": "user", "content": [{ "type": "video" }] })),
            Rule::IllegalValue,
            "messages[0].content[0].type",
        ),
        (one(json!({ "role": "tool", "content": "x" })), Rule::Missing, "messages[0].tool_call_id"),
        (one(json!({ "role": "assistant", "content": null })), Rule::NothingSaid, "messages[0].content"),
        (one(json!({ "role": "assistant", "tool_calls": [] })), Rule::IllegalValue, "messages[0].tool_calls"),
    ];
    check(Scripts::default(), cases);
}

#[test]
fn an_illegal_request_is_known_by_its_agent_and_spends_no_attempt() {
    let script = Script::new().step(rate_limited(1).on_retry(say("x")));
    let server = ScriptedServer::start(Scripts::default().agent("alpha", script));
    assert_eq!(ask(&server, &plain(json!([user("alpha"), system()]))).status, 400);
    assert_eq!(ask(&server, &plain(json!([user("alpha")]))).status, 429);
    assert_eq!(server.log().of("alpha").len(), 2);
}

#[test]
fn a_legal_conversation_passes_whatever_its_shape() {
    let server = ScriptedServer::start(Scripts::default().alternation(Alternation::Strict));
    let parts =
        json!([{ "type": "text", "text": "see" }, { "type": "image_url", "image_url": { "url": "data:," } }]);
    let messages = json!([
        system(),
        { "role": "user", "content": parts },
        calling(&["a", "b"]),
        result("b"),
        result("a"),
        assistant("done"),
        user("more"),
        calling(&["c"]),
        { "role": "tool", "tool_call_id": "c", "content": [{ "type": "text", "text": "" }] },
    ]);
    let mut body = plain(messages);
    body["tools"] = json!([{ "type": "function", "function": { "name": "look", "parameters": {} } }]);
    body["tool_choice"] = json!("auto");
    assert_eq!(ask(&server, &body).status, 200);
    assert!(server.log().violations().is_empty());
}

#[test]
fn what_is_no_json_and_no_http_is_refused_and_counted() {
    let server = ScriptedServer::start(Scripts::default());
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    let requests = [
        format!("{head}content-type: application/json\r\ncontent-length: 5\r\n\r\n{{\"a\":"),
        format!("{head}content-type: text/plain\r\ncontent-length: 2\r\n\r\n{{}}"),
        format!("{head}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"),
        format!("{head}content-length: many\r\n\r\n"),
        "HELLO\r\n\r\n".to_owned(),
    ];
    for request in requests {
        let mut line = Line::open(&server);
        line.send(request.as_bytes());
        let response = String::from_utf8(line.read_rest()).unwrap();
        assert!(response.starts_with("HTTP/1.1 400 Bad Request"), "{response}");
    }
    let log = server.log();
    let rules: Vec<Rule> = log.violations().iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, [Rule::Json, Rule::Json, Rule::Http, Rule::Http, Rule::Http]);
}
