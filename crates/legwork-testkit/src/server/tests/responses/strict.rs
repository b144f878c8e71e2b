//! The rules of Responses, each with a request that breaks it.

use serde_json::{Value, json};

use super::client::{ask, assistant, calling, output, plain, user};
use crate::server::{Rule, Script, ScriptedServer, Scripts, reason, say};

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
        let error = response.json()["error"].clone();
        assert_eq!(
            (&error["type"], &error["param"]),
            (&json!("invalid_request_error"), &json!(param)),
            "{body}"
        );
        let log = server.log();
        assert_eq!(log.violations().last().unwrap().rule, rule, "{body}");
    }
}

#[test]
fn order_and_pairing_are_checked() {
    let system = json!({ "role": "system", "content": "rules" });
    let cases = vec![
        (json!([]), Rule::NoMessages, "messages"),
        (json!([user("a"), system, user("b")]), Rule::SystemNotFirst, "input[1].role"),
        (json!([assistant("a"), user("b")]), Rule::UserNotFirst, "input[0].role"),
        (json!([user("a"), assistant("b")]), Rule::LastRole, "input[1].role"),
        (json!([user("a"), calling("a")]), Rule::Unanswered, "messages"),
        (json!([user("a"), calling("a"), calling("b"), output("b")]), Rule::Unanswered, "messages"),
        (json!([user("a"), calling("a"), user("b"), output("a")]), Rule::Unanswered, "input[2]"),
        (json!([user("a"), output("a")]), Rule::StrayResult, "input[1].call_id"),
        (json!([user("a"), calling("a"), output("b")]), Rule::StrayResult, "input[2].call_id"),
        (json!([user("a"), calling("a"), output("a"), output("a")]), Rule::DuplicateId, "input[3].call_id"),
        (json!([user("a"), calling("a"), calling("a")]), Rule::DuplicateId, "input[2].call_id"),
    ];
    let server = ScriptedServer::start(Scripts::default());
    check(&server, cases.into_iter().map(|(list, rule, param)| (plain(list), rule, param)).collect());
}

#[test]
fn fields_are_checked() {
    let one = |item: Value| plain(json!([item]));
    let made = |field: &str, value: Value| {
        let mut call = calling("a");
        call[field] = value;
        plain(json!([user("a"), call, output("a")]))
    };
    let part =
        |role: &str, kind: &str| one(json!({ "role": role, "content": [{ "type": kind, "text": "x" }] }));
    let nested = json!([{ "type": "function", "function": { "name": "look", "parameters": {} } }]);
    let tool = json!({ "type": "function", "name": "look", "parameters": {} });
    let cases = vec![
        (with("model", json!("")), Rule::Missing, "model"),
        (with("input", Value::Null), Rule::Missing, "input"),
        (with("messages", json!([])), Rule::IllegalValue, "messages"),
        (with("max_output_tokens", json!(1)), Rule::IllegalValue, "max_output_tokens"),
        (with("previous_response_id", json!("resp_1")), Rule::IllegalValue, "previous_response_id"),
        (with("reasoning", json!({ "summary": "long" })), Rule::IllegalValue, "reasoning.summary"),
        (with("tools", nested), Rule::IllegalValue, "tools[0].function"),
        (with("tools", json!([tool, tool])), Rule::IllegalValue, "tools[1].name"),
        (
            with("tools", json!([{ "type": "function", "name": "look" }])),
            Rule::Missing,
            "tools[0].parameters",
        ),
        (with("tool_choice", json!("required")), Rule::IllegalValue, "tool_choice"),
        (one(json!({ "role": "robot", "content": "x" })), Rule::IllegalValue, "input[0].role"),
        (one(json!({ "role": "user" })), Rule::Missing, "input[0].content"),
        (one(json!({ "role": "user", "content": "x", "name": "n" })), Rule::IllegalValue, "input[0].name"),
        (part("user", "output_text"), Rule::IllegalValue, "input[0].content[0].type"),
        (part("assistant", "input_text"), Rule::IllegalValue, "input[0].content[0].type"),
        (one(json!({ "type": "item_reference", "id": "rs_1" })), Rule::IllegalValue, "input[0].type"),
        (made("id", json!("call_1")), Rule::IllegalValue, "input[1].id"),
        (made("arguments", json!({})), Rule::IllegalValue, "input[1].arguments"),
        (made("arguments", json!("{\"x\": ")), Rule::Arguments, "input[1].arguments"),
    ];
    check(&ScriptedServer::start(Scripts::default()), cases);
}

#[test]
fn reasoning_must_accompany_its_call_unchanged() {
    let script = Script::new().step(reason("deep").call("look", json!({}))).step(say("done"));
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let said = ask(&server, &plain(json!([user("hi")]))).json()["output"].clone();
    let (thought, call) = (said[0].clone(), said[1].clone());
    let result = output(call["call_id"].as_str().unwrap());
    let changed = |field: &str, value: Value| {
        let mut changed = thought.clone();
        changed[field] = value;
        plain(json!([user("hi"), changed, call, result]))
    };
    let sealed = "input[1].encrypted_content";
    let cases = vec![
        (plain(json!([user("hi"), call, result])), Rule::ReasoningMissing, "input[1]"),
        (changed("encrypted_content", Value::Null), Rule::ReasoningChanged, sealed),
        (changed("encrypted_content", json!("forged")), Rule::ReasoningChanged, sealed),
        (changed("id", json!("rs_other")), Rule::ReasoningChanged, sealed),
        (changed("id", json!("thought")), Rule::IllegalValue, "input[1].id"),
        (plain(json!([user("hi"), thought])), Rule::ReasoningAlone, "input[1]"),
        (plain(json!([user("hi"), thought, user("so?")])), Rule::ReasoningAlone, "input[1]"),
    ];
    check(&server, cases);
    let mut kept = changed("encrypted_content", Value::Null);
    kept["store"] = json!(true);
    assert_eq!(ask(&server, &kept).status, 200, "what the provider keeps needs no seal");
    assert_eq!(ask(&server, &changed("summary", json!([]))).status, 200, "a summary is for people");
}

#[test]
fn a_legal_conversation_passes_whatever_its_shape() {
    let server = ScriptedServer::start(Scripts::default());
    let image = json!({ "type": "input_image", "image_url": "data:image/png;base64,", "detail": "auto" });
    let parts = json!([{ "type": "input_text", "text": "seen" }, image]);
    let mut body = plain(json!([
        { "role": "user", "content": [{ "type": "input_text", "text": "hi" }, image] },
        assistant("I look"),
        calling("a"),
        calling("b"),
        { "type": "function_call_output", "call_id": "b", "output": parts, "status": "completed" },
        output("a"),
        { "role": "assistant", "content": "done" },
        { "role": "user", "content": "more" },
    ]));
    body["instructions"] = json!("rules");
    body["tools"] = json!([{ "type": "function", "name": "look", "parameters": {}, "strict": false }, { "type": "web_search" }]);
    body["tool_choice"] = json!("auto");
    let response = ask(&server, &body);
    assert_eq!(response.status, 200, "{}", response.body);
    assert_eq!(ask(&server, &json!({ "model": "m", "input": "hi" })).status, 200);
    let log = server.log();
    assert!(log.violations().is_empty());
    assert_eq!(log.entries()[0].step, 2);
}
