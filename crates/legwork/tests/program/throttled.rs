//! A model that limits its callers: it is waited for in sight of whoever looks, within a limit that can be set (K28).

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, rate_limited, say};
use serde_json::{Value, json};

use crate::harness::{Home, until};

/// Works, and then meets a limit that is to last for minutes.
fn limited() -> ScriptedServer {
    let script = Script::new()
        .step(call("terminal", json!({"command": "echo done"})))
        .step(rate_limited(400).on_retry(say("after the limit")));
    ScriptedServer::start(Scripts::default().agent("limited", script))
}

/// The only child that runs, as `ps` lists it.
fn child(home: &Home) -> Option<Value> {
    let list = home.ps();
    let [delegation] = list.as_slice() else { return None };
    Some(delegation["units"][0]["children"][0].clone())
}

#[track_caller]
fn wait_until_it_waits(home: &Home) -> Value {
    until("a child that waits for its model", || {
        let child = child(home)?;
        let waits_for = child["waits_for"].as_str()?;
        assert!(waits_for.starts_with("the model: throttled, next try in "), "{child}");
        Some(child)
    })
}

#[test]
fn k28_a_limit_of_minutes_is_waited_for_in_sight_and_is_no_stall() {
    let server = limited();
    let home = Home::with(&server);
    let order = home.legwork(&["delegate", "--goal", "limited", "--json"]);
    let running = order.set("stall_idle_seconds", 1).start();
    let child = wait_until_it_waits(&home);
    let id = child["subagent_id"].as_str().expect("an id");
    let text = home.legwork(&["ps"]).run();
    assert!(text.stdout.contains("waits for the model: throttled, next try in 6m"), "{text}");
    let shown = home.legwork(&["show", id, "--json"]).run().json();
    let waits_for = shown["waits_for"].as_str().unwrap_or_default();
    assert!(waits_for.starts_with("the model: throttled, next try in 6m"), "{shown}");
    until("a silence longer than the patience for a stall", || {
        let child = self::child(&home).expect("it goes on waiting");
        assert_eq!(child["state"], json!("running"), "{child}");
        child["quiet_seconds"].as_f64().filter(|quiet| *quiet > 3.0)
    });
    assert_eq!(home.legwork(&["stop", id]).run().code, 0);
    let ended = running.wait();
    assert_eq!(ended.statuses(), ["interrupted"], "a stop is heard during the wait: {ended}");
    let entry = &ended.results()[0];
    assert_eq!(entry["tool_trace"][0]["status"], json!("ok"), "what was done is kept: {entry}");
    assert_eq!(server.log().of("limited").len(), 2, "the provider's wait is kept");
}

#[test]
fn k28_the_wait_for_a_model_that_limits_its_callers_has_a_limit_that_its_error_names() {
    for arguments in [["delegate", "--goal", "limited", "--json"].as_slice(), &["run", "limited", "--json"]] {
        let server = limited();
        let home = Home::with(&server);
        let ended = home.legwork(arguments).set("throttled_seconds", 300).run();
        assert_eq!(ended.code, 1, "{ended}");
        let said = format!("{}{}", ended.stdout, ended.stderr);
        for words in ["the provider asks to wait 400 s", "300 s in all", "delegation.throttled_seconds"] {
            assert!(said.contains(words), "{words}: {ended}");
        }
    }
}
