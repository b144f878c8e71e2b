//! Faults of a provider and of a model: each ends or passes in its own child, and the siblings never notice (K11).

use std::time::Duration;

use legwork_testkit::server::{
    Call, Conversation, Finish, ProviderError, Reply, Script, ScriptedServer, Scripts, Usage, call, calls,
    empty, hang, hang_up, rate_limited, say, server_error, unauthorized,
};
use serde_json::{Value, json};

use crate::harness::{Ended, Home, tasks_toml};

/// Says what the last tool result was.
fn echo(talk: &Conversation) -> Reply {
    say(talk.last_text())
}

fn delegate(home: &Home, goals: &[&str]) -> Ended {
    home.write("tasks.toml", tasks_toml(goals));
    home.legwork(&["delegate", "tasks.toml", "--json"]).run()
}

fn field<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry[name].as_str().unwrap_or_default()
}

#[test]
fn entry_08_a_refused_key_fails_its_task_in_the_providers_words() {
    let scripts = Scripts::default()
        .agent("refused", Script::new().step(unauthorized()))
        .agent("welcome", Script::new().step(call("terminal", json!({"command": "true"}))).step(say("fine")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let ended = delegate(&home, &["welcome one", "refused", "welcome two"]);
    assert_eq!(ended.code, 1, "{ended}");
    assert_eq!(ended.statuses(), ["completed", "failed", "completed"]);
    let entry = &ended.results()[1];
    assert!(field(entry, "error").contains("Incorrect API key provided."), "{entry}");
    assert!(field(entry, "error").contains("401"), "{entry}");
    assert_eq!((field(entry, "failure_reason"), field(entry, "exit_reason")), ("auth", "error"));
    assert_eq!(server.log().of("refused").len(), 1, "a refused key is not tried again");
    assert!(ended.stderr.contains("the provider refused the key"), "people see why: {ended}");
}

/// Proves PROG-7.
#[test]
fn prog_07_an_answer_that_breaks_off_is_told_as_that() {
    let scripts = Scripts::default()
        .agent("cut", Script::always(say("half a sentence").cut()))
        .agent("ended", Script::always(say("half a sentence").truncate()));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let ended = delegate(&home, &["is cut", "has ended"]);
    assert_eq!(ended.statuses(), ["failed", "failed"], "{ended}");
    for entry in ended.results() {
        assert_eq!(field(&entry, "failure_reason"), "network", "{entry}");
        assert!(field(&entry, "error").contains("the answer broke off"), "{entry}");
    }
    assert!(ended.stderr.matches("the provider's answer broke off").count() >= 2, "{ended}");
    assert!(!ended.stderr.contains("could not be reached"), "{ended}");
}

#[test]
fn k28_failures_that_pass_are_met_by_asking_again_and_retry_after_is_honoured() {
    let scripts = Scripts::default()
        .agent("limited", Script::new().step(rate_limited(1).on_retry(say("after the limit"))))
        .agent("trouble", Script::new().step(server_error().on_retry(say("after the trouble"))))
        .agent("hung up", Script::new().step(hang_up().on_retry(say("after the cut"))));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let ended = delegate(&home, &["limited", "trouble", "hung up"]);
    assert_eq!(ended.code, 0, "{ended}");
    let said: Vec<String> = ended.results().iter().map(|entry| field(entry, "summary").to_owned()).collect();
    assert_eq!(said, ["after the limit", "after the trouble", "after the cut"]);
    assert!(ended.results().iter().all(|entry| entry["tokens"] == json!({"input": 100, "output": 20})));
    let log = server.log();
    let [first, second] = log.of("limited")[..] else { panic!("{}", log.summary()) };
    let pause = second.arrived - first.ended.expect("it was answered");
    assert!(pause >= Duration::from_secs(1), "the provider asked for a second, it was {pause:?}");
}

#[test]
fn inv_28_what_a_provider_refuses_after_it_told_its_usage_is_counted() {
    let refused = say("half of it").finish(Finish::Filtered).usage(Usage {
        prompt: 900,
        completion: 30,
        cached: 0,
        cache_written: 0,
        reasoning: 0,
    });
    let server = ScriptedServer::start(Scripts::default().agent("refused", Script::always(refused)));
    let home = Home::with(&server);
    let ended = delegate(&home, &["refused"]);
    assert_eq!(ended.statuses(), ["failed"], "{ended}");
    let entry = &ended.results()[0];
    assert_eq!(field(entry, "failure_reason"), "content_policy", "{entry}");
    assert_eq!(entry["tokens"], json!({"input": 900, "output": 30}), "{entry}");
}

/// What a subagent has done is not lost with one connection, and its answer is not put together of two halves.
#[test]
fn k28_a_subagent_outlives_a_reply_that_breaks_off_and_says_nothing_twice() {
    let overloaded = ProviderError::new("server_error", "The engine is overloaded.");
    let again = |reply: Reply| reply.on_retry(say("the whole answer"));
    let scripts = Scripts::default()
        .agent(
            "cut",
            Script::new()
                .step(call("terminal", json!({"command": "echo done"})))
                .step(again(say("the whole").cut())),
        )
        .agent("error", Script::new().step(again(say("the whole ans").error_chunk(overloaded))))
        .agent("truncated", Script::new().step(again(say("the").truncate())));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let ended = delegate(&home, &["cut", "error", "truncated"]);
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(ended.statuses(), ["completed"; 3], "{ended}");
    for entry in ended.results() {
        assert_eq!(field(&entry, "summary"), "the whole answer", "{entry}");
    }
    let asked = ["cut", "error", "truncated"].map(|agent| server.log().of(agent).len());
    assert_eq!(asked, [3, 2, 2], "each was asked once more");
}

#[test]
fn k11_a_reply_that_breaks_off_fails_its_own_task_and_keeps_what_was_said() {
    let error = ProviderError::new("server_error", "The engine is overloaded.");
    let scripts = Scripts::default()
        .agent("cut", Script::new().step(say("the first half").cut()))
        .agent("error", Script::new().step(say("so far").error_chunk(error)))
        .agent("truncated", Script::new().step(say("no end").truncate()))
        .agent("blank", Script::new().step(empty()))
        .agent("well", Script::new().step(say("well")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let ended = delegate(&home, &["cut", "error", "truncated", "blank", "well"]);
    assert_eq!(ended.code, 1, "{ended}");
    let results = ended.results();
    assert_eq!(ended.statuses(), ["failed", "failed", "failed", "failed", "completed"], "{ended}");
    assert_eq!(field(&results[0], "summary"), "the first half");
    assert!(field(&results[1], "error").contains("overloaded"), "{ended}");
    assert!(field(&results[3], "error").contains("blank"), "{ended}");
    assert_eq!(results[3]["summary"], Value::Null);
    assert!(results[..4].iter().all(|entry| !field(entry, "error").is_empty()), "{ended}");
}

#[test]
fn k23_wrong_calls_are_answered_with_an_error_that_the_model_can_act_on() {
    let broken = calls([Call::malformed("read_file", "{\"path\": \"a.txt")]);
    let scripts = Scripts::default()
        .agent(
            "broken",
            Script::from_fn(move |talk| if talk.step() == 0 { broken.clone() } else { echo(talk) }),
        )
        .agent(
            "unknown",
            Script::from_fn(|talk| match talk.step() {
                0 => call("send_mail", json!({"to": "me"})),
                _ => echo(talk),
            }),
        )
        .agent(
            "missing",
            Script::from_fn(|talk| match talk.step() {
                0 => call("read_file", json!({})),
                _ => echo(talk),
            }),
        )
        .agent(
            "absent",
            Script::from_fn(|talk| match talk.step() {
                0 => call("read_file", json!({"path": "no-such-file.txt"})),
                _ => echo(talk),
            }),
        )
        .agent(
            "several",
            Script::from_fn(|talk| match talk.step() {
                0 => calls([
                    Call::new("read_file", json!({"path": "a.txt"})),
                    Call::new("nonsense", json!({})),
                ]),
                _ => say(talk.tool_results().join(" + ")),
            }),
        );
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    home.write("a.txt", "the words of a\n");
    let ended = delegate(&home, &["broken", "unknown", "missing", "absent", "several"]);
    assert_eq!(ended.code, 0, "{ended}");
    let results = ended.results();
    let words = ["not valid JSON", "send_mail", "`path`", "no-such-file.txt", "the words of a"];
    for (entry, word) in results.iter().zip(words) {
        assert!(field(entry, "summary").contains(word), "{word:?}: {ended}");
    }
    for entry in &results[..4] {
        assert_eq!(entry["tool_trace"][0]["status"], json!("error"), "{entry}");
    }
    assert!(field(&results[4], "summary").contains("nonsense"), "{ended}");
    assert!(server.log().violations().is_empty(), "{}", server.log().summary());
}

#[test]
fn k23_a_name_that_a_model_made_up_does_not_end_its_work() {
    let long = "n".repeat(300);
    let names = ["send mail", "read.file", "日本", &long, "functions/read_file"];
    let scripts = names.iter().enumerate().fold(Scripts::default(), |scripts, (index, name)| {
        let name = (*name).to_owned();
        let script = Script::from_fn(move |talk| match talk.step() {
            0 => call(name.clone(), json!({"path": "x"})),
            _ => echo(talk),
        });
        scripts.agent(format!("name {index}"), script)
    });
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let ended = delegate(&home, &["name 0", "name 1", "name 2", "name 3", "name 4"]);
    assert_eq!(ended.code, 0, "{ended}");
    assert!(
        ended.results().iter().all(|entry| field(entry, "summary").contains("there is no tool")),
        "{ended}"
    );
    assert!(server.log().violations().is_empty(), "{}", server.log().summary());
}

#[test]
fn entry_05_a_task_at_its_step_limit_is_marked_as_cut_short() {
    let scripts = Scripts::default().agent(
        "endless",
        Script::from_fn(|talk| {
            say(format!("step {}", talk.step()))
                .call("terminal", json!({"command": format!("echo {}", talk.step())}))
        }),
    );
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let order = home.legwork(&["delegate", "--goal", "endless", "--json"]).set("max_iterations", 3);
    let ended = order.run();
    assert_eq!(ended.code, 1, "{ended}");
    let entry = &ended.results()[0];
    assert_eq!((field(entry, "status"), field(entry, "exit_reason")), ("completed", "max_iterations"));
    assert_eq!((&entry["truncated"], &entry["api_calls"]), (&json!(true), &json!(3)));
    assert_eq!(field(entry, "summary"), "step 2");
}

#[test]
fn stall_04_a_model_that_falls_silent_stalls_its_own_task_only() {
    let scripts = Scripts::default()
        .agent("silent", Script::new().step(hang()))
        .agent("mute", Script::new().step(say("I begin").stall()))
        .agent("well", Script::new().step(say("well")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    home.write("tasks.toml", tasks_toml(&["silent", "mute", "well"]));
    let order = home.legwork(&["delegate", "tasks.toml", "--json"]);
    let ended = order.set("stall_idle_seconds", 1).set("stall_grace_seconds", 1).run();
    assert_eq!(
        (ended.code, ended.statuses()),
        (1, vec!["stalled".into(), "stalled".into(), "completed".into()]),
        "{ended}"
    );
    let results = ended.results();
    assert_eq!(field(&results[1], "summary"), "I begin");
    assert!(!field(&results[0], "error").is_empty(), "{ended}");
    assert_eq!(server.log().in_flight(), 0, "both calls were dropped");
}
