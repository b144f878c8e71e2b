//! Commands in the background: a child starts them, looks after them, and never leaves one behind, however it or the
//! program ends (K15, invariant 14).

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Home, Running};

const SERVES: &str = "echo serving; exec sleep 994";
const SERVER: &str = "sleep 994";

fn in_background(command: &str) -> Value {
    json!({"command": command, "background": true})
}

/// An agent that starts a server in the background and then waits at the gate `serving`.
fn serves(command: &str) -> Script {
    Script::new().step(call("terminal", in_background(command))).step(gate("serving").say("it is done"))
}

/// The program when its agent has a server running.
fn when_serving(server: &ScriptedServer, home: &Home, arguments: &[&str]) -> Running {
    let running = home.legwork(arguments).start();
    server.gate("serving").wait_reached();
    home.wait_for_processes(SERVER, 1);
    running
}

/// The results of all tool calls that the model of the last request has seen.
fn tool_results(server: &ScriptedServer) -> Vec<String> {
    let log = server.log();
    let last = log.entries().last().expect("something was asked");
    let messages = last.body["messages"].as_array().expect("messages").iter();
    let results = messages.filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().expect("text").to_owned()).collect()
}

#[test]
fn a_child_starts_a_server_looks_after_it_and_ends_it() {
    let ready = "until grep -q serving server.log; do :; done";
    let script = Script::new()
        .step(call("terminal", in_background("echo serving | tee server.log; exec sleep 994")))
        .step(call("terminal", json!({"command": ready})))
        .step(call("process", json!({"action": "list"})))
        .step(call("process", json!({"action": "log", "id": "proc_1"})))
        .step(call("process", json!({"action": "wait", "id": "proc_1", "seconds": 1})))
        .step(gate("serving").call("process", json!({"action": "kill", "id": "proc_1"})))
        .step(gate("killed").say("it is done"));
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    let running = when_serving(&server, &home, &["delegate", "--goal", "any", "--json"]);
    server.gate("serving").open();
    server.gate("killed").wait_reached();
    assert!(home.commands().is_empty(), "{:?}", home.commands());
    let results = tool_results(&server);
    let words = [
        "started in the background as proc_1",
        "exit code 0",
        "proc_1 has been running",
        "serving",
        "has been running for 1.",
        "was ended because you asked for it",
    ];
    assert_eq!(results.len(), words.len(), "{results:?}");
    for (result, word) in results.iter().zip(words) {
        assert!(result.contains(word), "{word:?} is missing: {result}");
    }
    server.gate("killed").open();
    let ended = running.wait();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    home.assert_nothing_runs();
}

#[test]
fn k15_a_child_that_ends_with_a_server_running_leaves_none_and_its_transcript_says_so() {
    let server = ScriptedServer::start(Scripts::default().otherwise(serves(SERVES)));
    let home = Home::with(&server);
    let running = when_serving(&server, &home, &["delegate", "--goal", "any", "--json"]);
    let id = running.delegation();
    server.gate("serving").open();
    let ended = running.wait();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    home.assert_nothing_runs();
    let transcript = home.legwork(&["tail", &id]).run();
    let told = "ended proc_1, which ran in the background for ";
    assert!(transcript.stdout.contains(told) && transcript.stdout.contains(SERVES), "{transcript}");
}

#[test]
fn k15_a_settled_child_has_no_process_while_its_sibling_works_on() {
    let scripts = Scripts::default()
        .agent("serves", serves("trap '' TERM; setsid sleep 994"))
        .agent("works", Script::new().step(gate("working").say("it is done")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let running = when_serving(&server, &home, &["delegate", "--goal", "serves", "--goal", "works"]);
    server.gate("working").wait_reached();
    server.gate("serving").open();
    home.wait_for_states(&["completed", "running"]);
    assert!(home.commands().is_empty(), "it was ended before the child settled: {:?}", home.commands());
    server.gate("working").open();
    assert_eq!(running.wait().code, 0);
}

#[test]
fn k15_a_server_in_the_background_ends_with_every_way_to_end() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        for verb in [["delegate", "--goal", "any"].as_slice(), &["run", "any"]] {
            let server = ScriptedServer::start(Scripts::default().otherwise(serves(SERVES)));
            let home = Home::with(&server);
            let running = when_serving(&server, &home, verb);
            running.signal(signal);
            let ended = running.wait();
            assert_eq!(ended.code, code, "{ended}");
            home.assert_nothing_runs();
        }
    }
}

#[test]
fn k15_the_server_of_a_conversation_ends_with_it() {
    let server = ScriptedServer::start(Scripts::default().otherwise(serves(SERVES)));
    let home = Home::with(&server);
    let running = when_serving(&server, &home, &["run", "any"]);
    server.gate("serving").open();
    let ended = running.wait();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "it is done\n"), "{ended}");
    home.assert_nothing_runs();
}

#[test]
fn k15_a_server_outlives_a_killed_program_until_the_next_one_works() {
    for verb in [["delegate", "--goal", "serves"].as_slice(), &["run", "serves"]] {
        let scripts = Scripts::default()
            .agent("serves", serves("trap '' TERM HUP; echo serving; exec sleep 994"))
            .otherwise(Script::always(say("it is done")));
        let server = ScriptedServer::start(scripts);
        let home = Home::with(&server);
        when_serving(&server, &home, verb).kill();
        home.wait_for_processes(SERVER, 1);
        let ended = home.legwork(&["run", "another"]).run();
        assert_eq!(ended.code, 0, "{ended}");
        home.assert_nothing_runs();
    }
}
