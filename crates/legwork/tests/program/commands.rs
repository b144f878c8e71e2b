//! Commands of children: what they leave behind is ended and named, and nothing that they do to their surroundings reaches
//! the program, a sibling or a later command (K15, K37, K42).

use std::fs;

use legwork_testkit::server::{Call, Script, ScriptedServer, Scripts, call, calls, gate, say};
use serde_json::json;

use crate::harness::{Home, tasks_toml};

/// Four that stay: in the background, in a session of its own, deaf to hang-ups, and deaf to the request to end. It ends
/// when each of them is what it is going to be.
const LEFTOVERS: &str = "sleep 994 & a=$!; setsid sleep 994 & b=$!; nohup sleep 993 >/dev/null 2>&1 & c=$!
(trap '' TERM; echo > deaf; sleep 994; sleep 994) &
for pid in $a $b $c; do until [ \"$(cat /proc/$pid/comm)\" = sleep ]; do :; done; done
until [ -e deaf ]; do :; done
echo started";

#[test]
fn k15_what_a_command_leaves_behind_is_ended_and_named() {
    let scripts = Scripts::default().otherwise(Script::from_fn(|talk| match talk.step() {
        0 => call("terminal", json!({"command": LEFTOVERS})),
        _ => say(talk.last_text()),
    }));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let ended = home.legwork(&["delegate", "--goal", "any", "--json"]).run();
    home.assert_nothing_runs();
    assert_eq!(ended.code, 0, "{ended}");
    let said = ended.results()[0]["summary"].as_str().expect("text").to_owned();
    assert!(said.contains("started") && said.contains("[exit code 0]"), "{said}");
    assert!(said.contains("4 processes that were still running were ended"), "{said}");
    assert!(said.matches("sleep 994").count() >= 2 && said.contains("sleep 993"), "they are named: {said}");
}

#[test]
fn k15_a_command_that_outlives_its_time_is_ended_with_all_it_started() {
    let scripts = Scripts::default().otherwise(Script::from_fn(|talk| match talk.step() {
        0 => call(
            "terminal",
            json!({"command": "echo before; setsid sleep 992 & sleep 992", "timeout_seconds": 1}),
        ),
        _ => say(talk.last_text()),
    }));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let ended = home.legwork(&["delegate", "--goal", "any", "--json"]).run();
    home.assert_nothing_runs();
    let entry = &ended.results()[0];
    assert!(
        entry["summary"].as_str().is_some_and(|text| text.contains("before") && text.contains("1 s")),
        "{ended}"
    );
    assert_eq!(entry["tool_trace"][0]["status"], json!("error"), "{ended}");
}

#[test]
fn k15_a_command_that_hides_its_mark_is_gone_when_the_program_is() {
    let hidden = "env -i setsid sh -c 'echo $$ > hidden.pid; exec sleep 991' & sleep 0.2; echo hid";
    let scripts = Scripts::default().otherwise(Script::from_fn(move |talk| match talk.step() {
        0 => call("terminal", json!({"command": hidden})),
        _ => say("done"),
    }));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    assert_eq!(home.legwork(&["delegate", "--goal", "any"]).run().code, 0);
    let pid = home.read("hidden.pid");
    let command = fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
    assert!(!command.starts_with(b"sleep\0991"), "process {pid} lives on");
}

/// Proves REG-11, BUILD-29.
#[test]
fn k37_what_a_command_does_to_its_surroundings_stays_with_it() {
    let spoil = "export SPOILED=1; cd /; umask 0; ulimit -n 10; trap '' INT; echo spoiled";
    let look = "echo \"[$SPOILED] $(pwd) $(umask) $(ulimit -n)\"";
    let scripts = Scripts::default()
        .agent(
            "spoiler",
            Script::from_fn(move |talk| match talk.step() {
                0..5 => call("terminal", json!({"command": spoil})),
                5 => call("terminal", json!({"command": look})),
                _ => say(talk.last_text()),
            }),
        )
        .agent(
            "sibling",
            Script::from_fn(move |talk| match talk.step() {
                0 => gate("spoiled").call("terminal", json!({"command": look})),
                _ => say(talk.last_text()),
            }),
        );
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    home.write("tasks.toml", tasks_toml(&["spoiler", "sibling"]));
    let running = home.legwork(&["delegate", "tasks.toml", "--json"]).start();
    let surroundings = |pid: i32| {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).expect("it can be read");
        let umask = read("status").lines().find(|line| line.starts_with("Umask")).map(str::to_owned);
        (read("limits"), umask, fs::read_link(format!("/proc/{pid}/cwd")).expect("there"), read("environ"))
    };
    server.gate("spoiled").wait_reached();
    let before = surroundings(running.pid());
    home.wait_for_states(&["completed", "running"]);
    assert!(surroundings(running.pid()) == before, "the program itself was changed");
    server.gate("spoiled").open();
    let ended = running.wait();
    let results = ended.results();
    let folder = fs::canonicalize(home.project()).expect("it is there").display().to_string();
    for entry in &results {
        let said = entry["summary"].as_str().expect("text");
        assert!(
            said.contains(&format!("[] {folder} ")) && !said.contains(" 0000 ") && !said.ends_with(" 10\n"),
            "{said}"
        );
    }
    assert_eq!(results[0]["summary"], results[1]["summary"], "both found the same");
}

#[test]
fn k42_equal_call_ids_of_different_conversations_are_never_mixed_up() {
    let names: Vec<String> =
        (0..12).map(|number| format!("nonce-{number:02}-{}", number * 7919 % 997)).collect();
    let scripts = names.iter().fold(Scripts::default(), |scripts, name| {
        let command = format!("echo {name}");
        let script = Script::from_fn(move |talk| match talk.step() {
            0 => calls([Call::new("terminal", json!({"command": command})).id("call_1")]),
            _ => say(talk.last_text()),
        });
        scripts.agent(name.clone(), script)
    });
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    home.write("tasks.toml", tasks_toml(&names));
    let both: Vec<_> = (0..2).map(|_| home.legwork(&["delegate", "tasks.toml", "--json"]).start()).collect();
    for running in both {
        let ended = running.wait();
        assert_eq!(ended.code, 0, "{ended}");
        for (entry, own) in ended.results().iter().zip(&names) {
            let said = entry["summary"].as_str().expect("text");
            assert!(names.iter().all(|name| said.contains(name) == (name == own)), "{own}: {said}");
        }
    }
    let log = server.log();
    for name in &names {
        for entry in log.of(name) {
            let body = entry.body.to_string();
            assert!(
                names.iter().all(|other| body.contains(other) == (other == name)),
                "{name} saw another task"
            );
        }
    }
}
