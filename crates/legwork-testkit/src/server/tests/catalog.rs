//! What the server tells of itself to those who look for it.

use serde_json::json;

use super::client::{Line, Response, get};
use crate::server::{Protocol, Rule, ScriptedServer, Scripts};

fn server() -> ScriptedServer {
    ScriptedServer::start(Scripts::default().models(["small", "large"]))
}

#[test]
fn every_format_lists_the_models_in_its_own_way() {
    let server = server();
    let listed = get(&server, "/v1/models", "").json();
    assert_eq!(listed["object"], "list");
    assert_eq!((&listed["data"][0]["id"], &listed["data"][1]["object"]), (&json!("small"), &json!("model")));
    let tags = get(&server, "/api/tags", "").json();
    assert_eq!((&tags["models"][0]["name"], &tags["models"][1]["model"]), (&json!("small"), &json!("large")));
    assert!(get(&server, "/api/version", "").json()["version"].is_string());
    let anthropic = get(&server, "/v1/models", "anthropic-version: 2023-06-01\r\nx-api-key: k\r\n").json();
    assert_eq!((&anthropic["data"][0]["type"], &anthropic["last_id"]), (&json!("model"), &json!("large")));
    let gemini = get(&server, "/v1beta/models?key=k", "").json();
    assert_eq!(gemini["models"][0]["name"], "models/small");
    let log = server.log();
    assert!(log.violations().is_empty());
    let protocols: Vec<_> = log.entries().iter().map(|entry| entry.protocol.unwrap()).collect();
    let [chat, ollama] = [Protocol::OpenAiChat, Protocol::Ollama];
    assert_eq!(protocols, [chat, ollama, ollama, Protocol::Anthropic, Protocol::Gemini]);
}

#[test]
fn a_model_is_shown_by_its_name() {
    let server = server();
    let show = |name: &str| {
        let body = json!({ "model": name });
        Response::parse(&Line::post_to(&server, "/api/show", &body, "connection: close\r\n").read_rest())
    };
    assert_eq!(show("small").json()["model_info"]["scripted.context_length"], 131_072);
    let unknown = show("huge");
    assert_eq!((unknown.status, unknown.json()), (404, json!({ "error": "model 'huge' not found" })));
}

#[test]
fn a_server_that_does_not_speak_a_format_does_not_list_in_it() {
    let server = ScriptedServer::start(Scripts::default().speaks([Protocol::OpenAiChat]));
    assert_eq!(get(&server, "/v1/models", "").status, 200);
    assert_eq!(get(&server, "/api/tags", "").status, 404);
    assert_eq!(get(&server, "/api/version", "").status, 404);
    let ollama = ScriptedServer::start(Scripts::default().speaks([Protocol::Ollama]));
    assert_eq!(get(&ollama, "/v1/models", "").status, 200, "a real one lists in both ways");
    assert_eq!(get(&ollama, "/v1beta/models?key=k", "").status, 404);
}

#[test]
fn a_key_that_is_asked_for_is_asked_for_here_too() {
    let server = ScriptedServer::start(Scripts::default().key("right"));
    assert_eq!(get(&server, "/v1/models", "authorization: Bearer right\r\n").status, 200);
    assert_eq!(get(&server, "/v1/models", "authorization: Bearer wrong\r\n").status, 401);
    assert_eq!(get(&server, "/api/tags", "").status, 401);
    let rules: Vec<Rule> = server.log().violations().iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, [Rule::WrongKey, Rule::NoKey]);
}
