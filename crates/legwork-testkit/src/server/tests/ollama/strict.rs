//! The rules of Ollama's format, each with a request that breaks it.

use serde_json::{Value, json};

use super::client::{ask, calling, plain, result, user};
use crate::server::{Rule, ScriptedServer, Scripts};

fn with(field: &str, value: Value) -> Value {
    let mut body = plain(json!([user("hi")]));
    body[field] = value;
    body
}

/// Sends each body and compares the rule and the place that the server names, in its answer and in its log.
fn check(server: &ScriptedServer, cases: Vec<(Value, Rule, &str)>) {
    for (body, rule, param) in cases {
        let response = ask(server, &body);
        assert_eq!(response.status, 400, "{body}");
        assert!(response.json()["error"].as_str().unwrap().contains(param), "{}", response.body);
        let log = server.log();
        let violation = *log.violations().last().unwrap();
        assert_eq!((violation.rule, violation.param.as_str()), (rule, param), "{body}");
    }
}

#[test]
fn order_and_pairing_are_checked() {
    let says = |text: &str| json!({ "role": "assistant", "content": text });
    let cases = vec![
        (json!([]), Rule::NoMessages, "messages"),
        (json!([says("a"), user("b")]), Rule::UserNotFirst, "messages[0].role"),
        (json!([user("a"), says("b")]), Rule::LastRole, "messages[1].role"),
        (json!([user("a"), calling(&["a"])]), Rule::Unanswered, "messages"),
        (json!([user("a"), calling(&["a", "b"]), result("a"), user("b")]), Rule::Unanswered, "messages[3]"),
        (json!([user("a"), result("a")]), Rule::StrayResult, "messages[1].tool_call_id"),
        (json!([user("a"), calling(&["a"]), result("b")]), Rule::StrayResult, "messages[2].tool_call_id"),
        (
            json!([user("a"), calling(&["a"]), result("a"), result("a")]),
            Rule::DuplicateId,
            "messages[3].tool_call_id",
        ),
        (json!([user("a"), calling(&["a", "a"])]), Rule::DuplicateId, "messages[1].tool_calls[1].id"),
    ];
    let server = ScriptedServer::start(Scripts::default());
    check(&server, cases.into_iter().map(|(list, rule, param)| (plain(list), rule, param)).collect());
}

#[test]
fn fields_are_checked() {
    let one = |message: Value| plain(json!([message]));
    let text = json!({ "id": "a", "function": { "name": "look", "arguments": "{}" } });
    let tool = json!({ "type": "function", "function": { "name": "look", "parameters": {} } });
    let cases = vec![
        (with("model", json!("")), Rule::Missing, "model"),
        (with("stream", json!("yes")), Rule::IllegalValue, "stream"),
        (with("think", json!("hard")), Rule::IllegalValue, "think"),
        (with("options", json!([])), Rule::IllegalValue, "options"),
        (with("tools", json!([tool, tool])), Rule::IllegalValue, "tools[1].function.name"),
        (with("tools", json!([{ "name": "look" }])), Rule::Missing, "tools[0].type"),
        (one(json!({ "role": "robot", "content": "x" })), Rule::IllegalValue, "messages[0].role"),
        (one(json!({ "role": "user", "content": [] })), Rule::IllegalValue, "messages[0].content"),
        (
            one(json!({ "role": "user", "content": "x", "images": ["data:image/png;base64,AA"] })),
            Rule::IllegalValue,
            "messages[0].images",
        ),
        (one(json!({ "role": "assistant", "content": "" })), Rule::NothingSaid, "messages[0].content"),
        (
            one(json!({ "role": "assistant", "tool_calls": [text] })),
            Rule::Arguments,
            "messages[0].tool_calls[0].function.arguments",
        ),
    ];
    check(&ScriptedServer::start(Scripts::default()), cases);
}

#[test]
fn results_are_known_by_id_by_name_or_by_their_order() {
    let server = ScriptedServer::start(Scripts::default());
    let call = |name: &str| json!({ "function": { "name": name, "arguments": {} } });
    let calls = json!({ "role": "assistant", "tool_calls": [call("look"), call("walk"), call("look")] });
    let named = |name: &str| json!({ "role": "tool", "tool_name": name, "content": "seen" });
    let nameless = json!({ "role": "tool", "content": "seen" });
    for results in [
        [named("walk"), named("look"), named("look")],
        [nameless.clone(), nameless.clone(), nameless.clone()],
        [named("look"), nameless.clone(), named("look")],
    ] {
        let mut messages = vec![json!({ "role": "system", "content": "rules" }), user("hi"), calls.clone()];
        messages.extend(results);
        let response = ask(&server, &plain(json!(messages)));
        assert_eq!(response.status, 200, "{}", response.body);
    }
    let stray = json!([user("hi"), calls, named("walk"), named("walk")]);
    assert_eq!(ask(&server, &plain(stray)).status, 400);
    assert_eq!(server.log().violations()[0].rule, Rule::StrayResult);
}
