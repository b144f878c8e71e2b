//! What becomes of the background processes of subagents: ended and named, handed over, or ended unread.

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, say};
use serde_json::json;

use crate::harness::Home;

fn background(command: &str) -> legwork_testkit::server::Step {
    call("terminal", json!({"command": command, "background": true})).into()
}

/// Proves PROC-1, PROC-4, PROC-5, PROC-8: a completed child owns no process any more, and all of them are named.
#[test]
fn proc_04_what_still_ran_is_ended_and_named_and_what_ended_unread_is_told() {
    let child = Script::new()
        .step(background("echo short; exit 3"))
        .step(background("exec sleep 977"))
        .step(call(
            "terminal",
            json!({"command": "until test -n \"$(pgrep -x sleep)\"; do :; done; sleep 0.3"}),
        ))
        .step(say("I left something"));
    let server = ScriptedServer::start(Scripts::default().agent("leaver", child));
    let home = Home::with(&server);
    let ended = home.legwork(&["delegate", "--goal", "leaver", "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let entry = &ended.results()[0];
    assert_eq!(entry["status"], "completed", "{entry}");
    let orphan = &entry["orphaned_processes"][0];
    assert_eq!(
        (&orphan["session_id"], &orphan["command"]),
        (&json!("proc_2"), &json!("exec sleep 977")),
        "{entry}"
    );
    assert!(orphan["runtime_seconds"].is_number(), "{entry}");
    let unread = &entry["unread_completions"][0];
    assert_eq!((&unread["session_id"], &unread["exit_code"]), (&json!("proc_1"), &json!(3)), "{entry}");
    assert_eq!(unread["output_tail"], json!("short\n"), "{entry}");
    let notes = ended.json()["process_notes"].to_string();
    assert!(notes.contains("proc_2 of sa-0-") && notes.contains("was ended with it"), "{notes}");
    assert!(notes.contains("ended with exit code 3") && notes.contains("short"), "{notes}");
    home.assert_nothing_runs();
}

/// Proves PROC-2, PROC-3, PROC-8: the asker of a child sees a process that it took over, and ends it.
#[test]
fn proc_03_a_process_that_is_handed_over_goes_on_under_whoever_asked() {
    let child = Script::new()
        .step(background("echo serving; exec sleep 976"))
        .step(call(
            "process",
            json!({"action": "hand_off", "id": "proc_1", "purpose": "It serves the pages."}),
        ))
        .step(say("it serves"));
    let parent = Script::new()
        .step(call("delegate_task", json!({"tasks": [{"goal": "server: make one run"}]})))
        .step(call("process", json!({"action": "list"})))
        .step(say("it is mine"));
    let server = ScriptedServer::start(Scripts::default().agent("server:", child).agent("boss", parent));
    let home = Home::with(&server);
    let ended = home.legwork(&["run", "boss: get a server", "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let entry = &ended.json()["delegations"][0]["results"][0];
    let handed = &entry["handed_off_processes"][0];
    let id = handed["session_id"].as_str().expect("an id");
    assert!(id.starts_with("proc_1-of-sa-0-"), "{entry}");
    assert_eq!(handed["purpose"], "It serves the pages.", "{entry}");
    assert!(entry.get("orphaned_processes").is_none(), "{entry}");
    let log = server.log();
    let last = log.of("boss").last().expect("three requests").body.to_string();
    assert!(last.contains(&format!("{id} has been running for")), "{last}");
    assert!(last.contains("process_notes") && last.contains("it goes on and is yours now"), "{last}");
    home.assert_nothing_runs();
}

/// Proves RUN-26: what the asker had read and the child has written is named.
#[test]
fn run_26_files_that_the_asker_had_read_and_the_child_has_written_are_named() {
    let child = Script::new()
        .step(call("write_file", json!({"path": "read.txt", "content": "new"})))
        .step(call("write_file", json!({"path": "other.txt", "content": "new"})))
        .step(say("written"));
    let parent = Script::new()
        .step(call("read_file", json!({"path": "read.txt"})))
        .step(call("delegate_task", json!({"tasks": [{"goal": "writer: change the files"}]})))
        .step(say("done"));
    let server = ScriptedServer::start(Scripts::default().agent("writer:", child).agent("boss", parent));
    let home = Home::with(&server);
    home.write("read.txt", "old");
    let ended = home.legwork(&["run", "boss: look and delegate", "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let entry = &ended.json()["delegations"][0]["results"][0];
    let path = home.project().join("read.txt").canonicalize().expect("it is there");
    assert_eq!(entry["stale_paths"], json!([path.display().to_string()]), "{entry}");
}
