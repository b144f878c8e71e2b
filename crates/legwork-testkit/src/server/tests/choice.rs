//! Which script, which step and which attempt a request gets.

use serde_json::{Value, json};

use super::client::{Line, ask, assistant, calling, plain, result, user};
use crate::server::{Rule, Script, ScriptedServer, Scripts, rate_limited, say, server_error};

fn text(server: &ScriptedServer, messages: Value) -> String {
    let body = ask(server, &plain(messages)).json();
    body["choices"][0]["message"]["content"].as_str().unwrap_or("no text").to_owned()
}

#[test]
fn the_first_marker_wins_and_of_two_at_one_place_the_longer() {
    let scripts = ["task-1", "task-12", "lead"].into_iter().fold(Scripts::default(), |scripts, marker| {
        scripts.agent(marker, Script::always(say(format!("I am {marker}"))))
    });
    let server = ScriptedServer::start(scripts.otherwise(Script::always(say("I am nobody"))));
    let cases = [
        ("task-1", "I am task-1"),
        ("do task-12 now", "I am task-12"),
        ("lead of task-1 and task-12", "I am lead"),
        ("other", "I am nobody"),
    ];
    for (goal, expected) in cases {
        assert_eq!(text(&server, json!([user(goal)])), expected);
    }
    assert_eq!(text(&server, json!([user("task-1"), assistant("x"), user("what of lead?")])), "I am task-1");
    assert_eq!(server.log().of("task-1").len(), 2);
    assert_eq!(server.log().entries()[3].agent, None);
}

#[test]
fn the_step_follows_from_the_conversation_so_a_retry_gets_it_again() {
    let server = ScriptedServer::start(
        Scripts::default()
            .agent("alpha", Script::new().step(say("first")).step(say("second")).step(say("third"))),
    );
    let start = json!([{ "role": "system", "content": "s" }, user("alpha")]);
    assert_eq!(text(&server, start.clone()), "first");
    assert_eq!(text(&server, start), "first");
    assert_eq!(text(&server, json!([user("alpha"), calling(&["c"]), result("c")])), "second");
    assert_eq!(text(&server, json!([user("alpha"), assistant("first"), user("go on")])), "second");
    let log = server.log();
    let seen: Vec<_> = log.of("alpha").iter().map(|entry| (entry.step, entry.attempt)).collect();
    assert_eq!(seen, [(0, 0), (0, 1), (1, 0), (1, 1)]);
}

#[test]
fn attempts_at_a_step_are_answered_in_their_order_and_per_conversation() {
    let step = rate_limited(1).on_retry(server_error()).on_retry(say("at last"));
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::new().step(step)));
    let statuses = |goal: &str| -> Vec<u16> {
        (0..4).map(|_| ask(&server, &plain(json!([user(goal)]))).status).collect()
    };
    assert_eq!(statuses("one"), [429, 500, 200, 200]);
    assert_eq!(statuses("two"), [429, 500, 200, 200]);
}

#[test]
fn a_script_can_be_a_function_of_the_conversation() {
    let script = Script::from_fn(|talk| {
        say(format!(
            "{} {} {:?} {}",
            talk.first_user_text(),
            talk.last_text(),
            talk.tool_results(),
            talk.step()
        ))
    });
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let messages = json!([user("goal"), calling(&["a", "b"]), result("b"), result("a")]);
    assert_eq!(text(&server, messages), "goal seen [\"seen\", \"seen\"] 1");
}

#[test]
fn a_step_that_is_not_written_is_a_violation() {
    let panicking =
        Script::from_fn(|talk| -> crate::server::Reply { panic!("no idea about {}", talk.last_text()) });
    let scripts = Scripts::default().agent("alpha", Script::new().step(say("only"))).agent("beta", panicking);
    let server = ScriptedServer::start(scripts);
    let past_the_end = ask(&server, &plain(json!([user("alpha"), assistant("only"), user("more")])));
    let panicked = ask(&server, &plain(json!([user("beta")])));
    assert_eq!((past_the_end.status, panicked.status), (400, 400));
    assert!(past_the_end.body.contains("1 steps, but step 1"), "{}", past_the_end.body);
    assert!(panicked.body.contains("no idea about beta"), "{}", panicked.body);
    let log = server.log();
    assert!(log.violations().iter().all(|violation| violation.rule == Rule::Unscripted));
    assert_eq!(log.violations().len(), 2);
}

#[test]
fn the_log_keeps_what_each_request_brought() {
    let server = ScriptedServer::start(Scripts::default().agent("alpha", Script::always(say("x"))));
    let body = plain(json!([user("alpha")]));
    Line::post(&server, &body, "Authorization: Bearer k-1\r\nconnection: close\r\n").read_rest();
    let log = server.log();
    let entry = &log.entries()[0];
    assert_eq!(
        (entry.number, entry.method.as_str(), entry.path.as_str()),
        (0, "POST", "/v1/chat/completions")
    );
    assert_eq!(entry.authorization.as_deref(), Some("Bearer k-1"));
    assert_eq!(entry.host.as_deref(), Some("legwork.test"));
    assert_eq!((*entry.body).clone(), body);
    assert_eq!(entry.body_bytes, body.to_string().len());
    assert!(log.summary().contains("#0 POST /v1/chat/completions alpha step 0 attempt 0 Answered"));
}

#[test]
fn a_path_that_nobody_serves_is_not_found() {
    let server = ScriptedServer::start(Scripts::default());
    let mut line = Line::open(&server);
    line.send(b"GET /v1/nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(line.read_rest().starts_with(b"HTTP/1.1 404 Not Found"));
    assert_eq!(server.log().entries()[0].path, "/v1/nothing");
}
