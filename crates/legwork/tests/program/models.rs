//! Which model is talked to and how: the protocols that can be named, and a server of this machine that is found by
//! itself.

use legwork_testkit::server::{Protocol, Script, ScriptedServer, Scripts, call, say};
use serde_json::json;

use crate::harness::{Ended, Home, KEY};

#[test]
fn every_protocol_can_be_named_and_is_spoken() {
    let modes = [
        ("chat_completions", Protocol::OpenAiChat),
        ("responses", Protocol::OpenAiResponses),
        ("anthropic_messages", Protocol::Anthropic),
        ("gemini", Protocol::Gemini),
        ("ollama", Protocol::Ollama),
    ];
    for (mode, protocol) in modes {
        let server = ScriptedServer::start(Scripts::default());
        let home = Home::with(&server);
        let base = server.base_for(protocol);
        let order = home.legwork(&["run", "any", "--api-mode", mode, "--base-url", &base]);
        let ended = order.run();
        assert_eq!((ended.code, ended.stdout.trim()), (0, "ok"), "{mode}: {ended}");
        assert_eq!(server.log().entries()[0].protocol, Some(protocol), "{}", server.log().summary());
    }
}

/// A server of this machine that speaks one protocol only.
fn local(protocol: Protocol) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().speaks([protocol]).otherwise(Script::always(say("found"))))
}

/// A server is looked for no longer than 300 ms, in which a busy machine may not come to it: then the program is started again.
fn once_found(start: impl Fn() -> Ended) -> Ended {
    const STARTS_MAX: usize = 20;
    let mut ended = start();
    for _ in 1..STARTS_MAX {
        if ended.code != 3 {
            break;
        }
        ended = start();
    }
    ended
}

#[test]
fn a_server_on_this_machine_is_found_where_no_model_is_configured() {
    let cases = [(Protocol::Ollama, "ollama/"), (Protocol::OpenAiChat, "openai-compatible/")];
    for (protocol, provider) in cases {
        let home = Home::without_model();
        let server = local(protocol);
        let order = || home.legwork(&["run", "any"]).env("LEGWORK_MODEL_LOCAL_SERVERS", &server.origin());
        let ended = once_found(|| order().run());
        assert_eq!((ended.code, ended.stdout.trim()), (0, "found"), "{ended}");
        let told = format!("no model is configured: {provider}");
        assert!(ended.stderr.contains(&told) && ended.stderr.contains(&server.origin()), "{ended}");
        assert_eq!(server.log().entries().last().and_then(|entry| entry.protocol), Some(protocol));
    }
}

#[test]
fn k29_a_server_that_was_found_gets_no_key() {
    let home = Home::without_model();
    let server = local(Protocol::Ollama);
    let order = || {
        let order = home.legwork(&["run", "any"]).env("LEGWORK_API_KEY", KEY).env("OPENAI_API_KEY", KEY);
        order.env("LEGWORK_MODEL_LOCAL_SERVERS", &server.origin())
    };
    let ended = once_found(|| order().run());
    assert_eq!(ended.code, 0, "{ended}");
    let log = server.log();
    let mut headers = log.entries().iter().flat_map(|entry| &entry.headers);
    assert!(headers.all(|(_, value)| !value.contains(KEY)), "{}", log.summary());
}

#[test]
fn a_server_that_was_found_never_takes_the_place_of_what_was_asked_for() {
    let asked = ScriptedServer::start(Scripts::default());
    let home = Home::with(&asked);
    let server = local(Protocol::Ollama);
    let order = home.legwork(&["run", "any"]);
    let ended = order.env("LEGWORK_MODEL_LOCAL_SERVERS", &server.origin()).run();
    assert_eq!((ended.code, ended.stdout.trim()), (0, "ok"), "{ended}");
    assert!(server.log().entries().is_empty(), "{}", server.log().summary());
}

#[test]
fn the_children_of_a_run_have_the_model_of_delegation() {
    let delegates = Script::new()
        .step(call("delegate_task", json!({"goal": "the piece of work to be done"})))
        .step(say("all is done"));
    let done = Script::new().step(say("done"));
    let scripts = Scripts::default().agent("the prompt", delegates).agent("piece of work", done);
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let order = home.legwork(&["run", "this is the prompt"]);
    let ended = order.env("LEGWORK_DELEGATION_MODEL", "for-children").run();
    assert_eq!((ended.code, ended.stdout.trim()), (0, "all is done"), "{ended}");
    let log = server.log();
    assert_eq!(log.of("piece of work")[0].body["model"], json!("for-children"), "{}", log.summary());
    assert!(
        log.of("the prompt").iter().all(|entry| entry.body["model"] == json!("test")),
        "{}",
        log.summary()
    );
}
