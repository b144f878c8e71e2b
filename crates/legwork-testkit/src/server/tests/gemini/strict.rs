//! The rules of Gemini's format, each with a request that breaks it.

use serde_json::{Value, json};

use super::client::{MODEL, ask, ask_at, ask_with, body, call, model, response, responses, user};
use crate::server::{Rule, Script, ScriptedServer, Scripts, call as calls, say};

fn with(field: &str, value: Value) -> Value {
    let mut body = body(json!([user("hi")]));
    body[field] = value;
    body
}

/// Sends each body and compares the rule and the place that the server names, in its answer and in its log.
fn check(server: &ScriptedServer, cases: Vec<(Value, Rule, &str)>) {
    for (body, rule, param) in cases {
        let response = ask(server, &body);
        assert_eq!(response.status, 400, "{body}");
        let error = response.json()["error"].clone();
        assert_eq!((&error["code"], &error["status"]), (&json!(400), &json!("INVALID_ARGUMENT")));
        assert_eq!(error["details"][0]["fieldViolations"][0]["field"], param, "{body}");
        let log = server.log();
        assert_eq!(log.violations().last().unwrap().rule, rule, "{body}");
    }
}

#[test]
fn order_and_pairing_are_checked() {
    let says = |text: &str| model(json!([{ "text": text }]));
    let unnamed = json!({ "functionResponse": { "name": "other", "response": {} } });
    let cases = vec![
        (json!([]), Rule::NoMessages, "messages"),
        (json!([says("a"), user("b")]), Rule::UserNotFirst, "contents[0].role"),
        (json!([user("a"), says("b")]), Rule::LastRole, "contents[1].role"),
        (json!([user("a"), says("b"), model(json!([call("a")]))]), Rule::Alternation, "contents[2].role"),
        (json!([user("a"), model(json!([call("a")]))]), Rule::Unanswered, "messages"),
        (json!([user("a"), model(json!([call("a")])), user("b")]), Rule::Unanswered, "contents[2]"),
        (
            json!([user("a"), model(json!([call("a"), call("b")])), responses(&["b"]), responses(&["a"])]),
            Rule::Unanswered,
            "contents[2]",
        ),
        (
            json!([user("a"), model(json!([call("a"), call("b")])), responses(&["b"])]),
            Rule::Unanswered,
            "contents[2]",
        ),
        (json!([responses(&["a"])]), Rule::StrayResult, "contents[0].parts[0].functionResponse"),
        (
            json!([user("a"), model(json!([call("a")])), { "role": "user", "parts": [unnamed] }]),
            Rule::StrayResult,
            "contents[2].parts[0].functionResponse",
        ),
        (
            json!([user("a"), model(json!([call("a")])), responses(&["a", "a"])]),
            Rule::DuplicateId,
            "contents[2].parts[1].functionResponse",
        ),
        (
            json!([user("a"), model(json!([call("a"), call("a")]))]),
            Rule::DuplicateId,
            "contents[1].parts[1].functionCall.id",
        ),
    ];
    let server = ScriptedServer::start(Scripts::default());
    check(&server, cases.into_iter().map(|(list, rule, param)| (body(list), rule, param)).collect());
}

#[test]
fn fields_are_checked() {
    let part = |part: Value| body(json!([{ "role": "user", "parts": [part] }]));
    let declared = |declaration: Value| with("tools", json!([{ "functionDeclarations": [declaration] }]));
    let nested =
        json!({ "type": "OBJECT", "properties": { "x": { "type": "ARRAY", "items": { "$ref": "#" } } } });
    let closed = json!({ "type": "object", "additionalProperties": false });
    let strange = json!({ "functionCall": { "name": "look", "args": "{}" } });
    let cases = vec![
        (json!({}), Rule::Missing, "contents"),
        (with("messages", json!([])), Rule::IllegalValue, ""),
        (with("contents", json!("hi")), Rule::IllegalValue, "contents"),
        (with("generationConfig", json!({ "max_tokens": 5 })), Rule::IllegalValue, "generationConfig"),
        (
            with("toolConfig", json!({ "functionCallingConfig": { "mode": "auto" } })),
            Rule::IllegalValue,
            "toolConfig.functionCallingConfig.mode",
        ),
        (
            declared(json!({ "name": "look here" })),
            Rule::IllegalValue,
            "tools[0].functionDeclarations[0].name",
        ),
        (
            declared(json!({ "name": "look", "parameters": closed })),
            Rule::IllegalValue,
            "tools[0].functionDeclarations[0].parameters",
        ),
        (
            declared(json!({ "name": "look", "parameters": nested })),
            Rule::IllegalValue,
            "tools[0].functionDeclarations[0].parameters.properties.x.items",
        ),
        (
            body(json!([{ "role": "assistant", "parts": [{ "text": "x" }] }])),
            Rule::IllegalValue,
            "contents[0].role",
        ),
        (body(json!([{ "role": "user", "parts": [] }])), Rule::IllegalValue, "contents[0].parts"),
        (part(json!({})), Rule::IllegalValue, "contents[0].parts[0]"),
        (part(json!({ "type": "text", "text": "x" })), Rule::IllegalValue, "contents[0].parts[0]"),
        (part(json!({ "text": 7 })), Rule::IllegalValue, "contents[0].parts[0].text"),
        (part(call("a")), Rule::IllegalValue, "contents[0].parts[0]"),
        (body(json!([user("a"), model(json!([response("a")]))])), Rule::IllegalValue, "contents[1].parts[0]"),
        (
            body(json!([user("a"), model(json!([strange]))])),
            Rule::Arguments,
            "contents[1].parts[0].functionCall.args",
        ),
        (
            part(json!({ "functionResponse": { "name": "look", "response": "seen" } })),
            Rule::IllegalValue,
            "contents[0].parts[0].functionResponse.response",
        ),
    ];
    check(&ScriptedServer::start(Scripts::default()), cases);
}

#[test]
fn the_signature_of_a_call_must_come_back_on_it() {
    let script = Script::new().step(calls("look", json!({}))).step(say("done"));
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let said =
        ask(&server, &body(json!([user("hi")]))).json()["candidates"][0]["content"]["parts"][0].clone();
    let id = said["functionCall"]["id"].as_str().unwrap();
    let history = |part: &Value| body(json!([user("hi"), model(json!([part])), responses(&[id])]));
    let mut unsigned = said.clone();
    unsigned.as_object_mut().unwrap().remove("thoughtSignature");
    let mut forged = said.clone();
    forged["thoughtSignature"] = json!("Zm9yZ2Vk");
    let mut moved = call("other");
    moved["thoughtSignature"] = said["thoughtSignature"].clone();
    let cases = vec![
        (history(&unsigned), Rule::ReasoningMissing, "contents[1].parts[0]"),
        (history(&forged), Rule::ReasoningChanged, "contents[1].parts[0].thoughtSignature"),
        (history(&moved), Rule::ReasoningChanged, "contents[1].parts[0].thoughtSignature"),
    ];
    check(&server, cases);
    assert_eq!(ask(&server, &history(&said)).status, 200);
    // What a turn that is over has lost is not asked for.
    let over = json!([
        user("hi"),
        model(json!([unsigned])),
        responses(&[id]),
        model(json!([{ "text": "x" }])),
        user("so?")
    ]);
    assert!(ask(&server, &body(over)).body.contains("Unscripted"));
}

#[test]
fn the_key_stands_in_a_header_or_in_the_query() {
    let server = ScriptedServer::start(Scripts::default().key("right"));
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let body = body(json!([user("hi")]));
    let close = "connection: close\r\n";
    let missing = ask_with(&server, &path, &body, "authorization: Bearer right\r\nconnection: close\r\n");
    assert_eq!((missing.status, &missing.json()["error"]["status"]), (403, &json!("PERMISSION_DENIED")));
    let wrong = ask_at(&server, &path, &body);
    assert_eq!(wrong.status, 400);
    assert_eq!(wrong.json()["error"]["details"][0]["reason"], "API_KEY_INVALID");
    let rules: Vec<Rule> = server.log().violations().iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, [Rule::NoKey, Rule::WrongKey]);
    assert_eq!(ask_with(&server, &format!("{path}?key=right"), &body, close).status, 200);
    assert_eq!(ask_with(&server, &path, &body, "x-goog-api-key: right\r\nconnection: close\r\n").status, 200);
}

#[test]
fn paths_are_checked() {
    let server = ScriptedServer::start(Scripts::default());
    let body = body(json!([user("hi")]));
    let at = |path: &str| ask_at(&server, &format!("/v1beta/models/{path}"), &body).status;
    assert_eq!(at("m:streamGenerateContent"), 400, "events must be asked for");
    assert_eq!(at("m:streamGenerateContent?alt=sse&x=y"), 200);
    assert_eq!(at("m:countTokens"), 404);
    assert_eq!(at(":generateContent"), 404);
}

#[test]
fn a_legal_conversation_passes_whatever_its_shape() {
    let server = ScriptedServer::start(Scripts::default());
    let image = json!({ "inlineData": { "mimeType": "image/png", "data": "" } });
    let failed = json!({ "functionResponse": { "name": "look", "id": "b", "response": { "error": "no" } } });
    let request = json!({
        "system_instruction": { "role": "model", "parts": [{ "text": "rules", "thought": false }] },
        "contents": [
            { "parts": [{ "text": "hi" }, image] },
            model(json!([{ "text": "hm", "thought": true }, { "text": "I look" }, call("a"), call("b")])),
            { "role": "user", "parts": [failed, response("a")] },
            user("and be quick"),
        ],
        "tools": [{ "functionDeclarations": [{ "name": "look", "description": "d", "parametersJsonSchema": { "$ref": "#" } }], "codeExecution": null }],
        "toolConfig": null,
        "safetySettings": null,
        "generationConfig": { "max_output_tokens": 9, "temperature": 0.5 },
    });
    let answer = ask(&server, &request);
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(server.log().violations().is_empty());
}
