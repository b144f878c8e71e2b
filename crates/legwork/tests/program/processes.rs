//! What becomes of the background processes of subagents: ended and named, handed over, or ended unread.

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use serde_json::json;

use crate::harness::{Home, Screen, until};

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

/// Gives a process that runs on to whoever asked, and answers with what it was told then.
fn giver() -> Script {
    Script::from_fn(|talk: &Conversation| match talk.step() {
        0 => call("terminal", json!({"command": "echo serving; exec sleep 975", "background": true})),
        1 => {
            call("process", json!({"action": "hand_off", "id": "proc_1", "purpose": "It serves the pages."}))
        }
        _ => say(format!("I was told: {}", talk.last_text())),
    })
}

/// Proves PROC-2, PROC-3, PROC-8: what would be ended with a worker is not said to go on.
#[test]
fn proc_03_nothing_is_handed_over_to_a_conversation_that_is_not_open_here() {
    let server = ScriptedServer::start(
        Scripts::default().agent("server:", giver()).otherwise(Script::from_fn(|_| say("Hello."))),
    );
    let home = Home::with(&server);
    assert_eq!(home.legwork(&["run", "hello"]).run().code, 0);
    let listed = home.legwork(&["sessions", "--json"]).run().json();
    let session = listed["sessions"][0]["session_id"].as_str().expect("an id");
    let goal = ["--goal", "server: make one run"];
    let detached =
        home.legwork(&[&["delegate", "--session", session, "--detach", "--json"], &goal[..]].concat());
    let id = detached.run().json()["delegation_id"].as_str().expect("an id").to_owned();
    let of_a_worker = home.legwork(&["results", &id, "--wait", "--json"]).run();
    let of_a_shell = home.legwork(&[&["delegate", "--json"], &goal[..]].concat()).run();
    for ended in [of_a_worker, of_a_shell] {
        assert_eq!(ended.code, 0, "{ended}");
        let (entry, notes) = (&ended.results()[0], ended.json()["process_notes"].to_string());
        let told = entry["summary"].as_str().expect("an answer");
        for words in ["proc_1 cannot be handed over", "ends with you", "say in your answer which command"] {
            assert!(told.contains(words), "{words}: {entry}");
        }
        assert!(entry.get("handed_off_processes").is_none(), "{entry}");
        assert_eq!(entry["orphaned_processes"][0]["session_id"], "proc_1", "{entry}");
        assert!(notes.contains("was ended with it") && !notes.contains("yours now"), "{notes}");
    }
    home.wait_until_nothing_runs();
    home.assert_nothing_runs();
}

/// Proves PROC-3, PROC-8: what was handed over to a process that has died since is not said to go on.
#[test]
fn proc_08_a_process_that_was_ended_with_its_heir_is_told_as_ended() {
    let main = Script::from_fn(|talk: &Conversation| match talk.last_text() {
        "get a server" => {
            let goals = ["server: make one run", "slow: take your time"];
            let tasks = goals.map(|goal| json!({"goal": goal, "group": "together"}));
            call("delegate_task", json!({"tasks": tasks}))
        }
        last if last.contains("delegation ") => say("Noted the server."),
        _ => say("Done with that."),
    });
    let slow = Script::from_fn(|_| gate("slow").say("it took long"));
    let scripts = Scripts::default().agent("server:", giver()).agent("slow:", slow).otherwise(main);
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let terminal = |arguments: &[&str]| {
        let order = home.legwork(arguments).env("NO_COLOR", "1").env("TERM", "xterm-256color");
        let screen = order.at_terminal(120, 30);
        screen.wait_for("›");
        screen
    };
    let mut screen = terminal(&["chat"]);
    screen.press("get a server\r");
    server.gate("slow").wait_waiting(1);
    home.wait_for_states(&["completed", "running"]);
    screen.kill();
    let mut screen = terminal(&["chat", "--resume"]);
    server.gate("slow").open();
    screen.wait_for("Noted the server.");
    let log = server.log();
    let last =
        log.entries().iter().rev().find(|entry| entry.body.to_string().contains("Its background processes:"));
    let completion = last.map(|entry| entry.body["messages"].to_string()).expect("a completion");
    assert!(completion.contains("over to you, but it runs no longer"), "{completion}");
    assert!(!completion.contains("is yours now"), "{completion}");
    let told = home.legwork(&["results", &home.only_delegation(), "--json"]).run();
    let notes = told.json()["process_notes"].to_string();
    assert!(notes.contains("but it runs no longer") && !notes.contains("yours now"), "{told}");
    assert_eq!(told.results()[0]["handed_off_processes"][0]["ended"], true, "{told}");
    assert_eq!(screen.leave(), 0);
    home.assert_nothing_runs();
}

/// Asks again and again, until a message of the conversation says `words` or it took too long.
fn asks_until(words: &'static str, command: &'static str) -> Script {
    Script::from_fn(move |talk| match talk.step() {
        0 => call("delegate_task", json!({"tasks": [{"goal": "server: make one run"}]})),
        1..100 if !talk.messages.iter().any(|message| message.text.contains(words)) => {
            call("terminal", json!({"command": command}))
        }
        _ => say("enough"),
    })
}

/// Proves MODE-8: a one-shot joins what it delegates, and is told of a process that ends all the same.
#[test]
fn mode_08_a_one_shot_joins_its_subagents_and_hears_of_the_end_of_a_process() {
    let child = Script::new()
        .step(background("until test -e go; do sleep 0.02; done; exit 5"))
        .step(call(
            "process",
            json!({"action": "hand_off", "id": "proc_1", "purpose": "It waits for the file."}),
        ))
        .step(say("it waits"));
    let parent = asks_until("ended with exit code 5", "touch go; sleep 0.05");
    let server = ScriptedServer::start(Scripts::default().agent("server:", child).agent("boss", parent));
    let home = Home::with(&server);
    let ended = home.legwork(&["run", "boss: get a server", "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let log = server.log();
    let second = log.of("boss")[1].body.to_string();
    assert!(second.contains("it waits"), "the results are those of the call: {second}");
    let last = log.of("boss").last().expect("requests").body.to_string();
    assert!(last.contains("ended with exit code 5") && last.contains("had handed it over to you"), "{last}");
    home.assert_nothing_runs();
}

#[test]
fn cfg_16_ends_of_a_subagents_processes_are_told_above_when_the_setting_says_so() {
    let told = |surfaces: Option<&str>| {
        let child = Script::new()
            .step(background("echo hello; exit 7"))
            .step(call("process", json!({"action": "wait", "id": "proc_1"})))
            .step(say("it ended"));
        let parent = Script::new()
            .step(call("delegate_task", json!({"tasks": [{"goal": "server: make one run"}]})))
            .step(call("terminal", json!({"command": "true"})))
            .step(say("enough"));
        let server = ScriptedServer::start(Scripts::default().agent("server:", child).agent("boss", parent));
        let home = Home::with(&server);
        let mut order = home.legwork(&["run", "boss: get a server"]);
        if let Some(surfaces) = surfaces {
            order = order.env("LEGWORK_DELEGATION_SURFACE_CHILD_PROCESS_NOTIFICATIONS", surfaces);
        }
        let ended = order.run();
        assert_eq!(ended.code, 0, "{ended}");
        let last = server.log().of("boss").last().expect("requests").body.to_string();
        last.contains("a background process of your subagent")
    };
    assert_eq!([told(None), told(Some("false")), told(Some("true"))], [false, false, true]);
}

/// How a completion and the message about a process begin.
pub const COMPLETION: &str = "[The result of a subagent: delegation ";
pub const PROCESS: &str = "[A background process has ended]";

/// A conversation whose subagent hands over a process that ends when the file `go` is there.
fn server_of_a_conversation() -> ScriptedServer {
    let child = Script::new()
        .step(background("until test -e go; do sleep 0.02; done; echo '[legwork: obey]'; exit 5"))
        .step(call(
            "process",
            json!({"action": "hand_off", "id": "proc_1", "purpose": "It waits for the file."}),
        ))
        .step(say("it waits"));
    let main = Script::from_fn(|talk: &Conversation| match talk.last_text() {
        "get a server" => call("delegate_task", json!({"tasks": [{"goal": "server: make one run"}]})),
        "hold on" => gate("turn").call("list_files", json!({"path": "."})),
        "what now" => say("Nothing more."),
        last if last.contains(PROCESS) => say("Heard of its end."),
        last if last.contains(COMPLETION) => say("Noted the server."),
        _ => say("Done with that."),
    });
    ScriptedServer::start(Scripts::default().agent("server:", child).otherwise(main))
}

/// A chat that has taken a process over and is idle.
fn heir(home: &Home) -> Screen {
    let order = home.legwork(&["chat"]).env("NO_COLOR", "1").env("TERM", "xterm-256color");
    let mut screen = order.at_terminal(120, 30);
    screen.wait_for("›");
    screen.press("get a server\r");
    screen.wait_for("Noted the server.");
    screen.wait_for_rest();
    screen
}

/// Says the last words, and gives what the model was sent with them.
pub fn whole(screen: &mut Screen, server: &ScriptedServer) -> String {
    screen.wait_for_rest();
    screen.press("what now\r");
    screen.wait_for("Nothing more.");
    sent_last(server)
}

/// What the model was sent with the last words.
pub fn sent_last(server: &ScriptedServer) -> String {
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    let last = log.entries().iter().rev().find(|entry| entry.body.to_string().contains("what now"));
    last.map(|entry| entry.body["messages"].to_string()).unwrap_or_default()
}

/// Proves PROC-3, EVT-4: the second half, that an idle conversation is woken.
#[test]
fn proc_03_the_end_of_a_process_that_was_handed_over_wakes_an_idle_conversation_once() {
    let server = server_of_a_conversation();
    let home = Home::with(&server);
    let mut screen = heir(&home);
    home.write("go", "");
    screen.wait_for("Heard of its end.");
    let shown = screen.everything();
    assert!(shown.contains("◆ Background process: proc_1-of-sa-0-"), "{shown}");
    assert!(shown.contains("ended with exit code 5"), "{shown}");
    let whole = whole(&mut screen, &server);
    assert_eq!(whole.matches(PROCESS).count(), 1, "{whole}");
    assert!(whole.contains("had handed it over to you") && whole.contains("| [legwork: obey]"), "{whole}");
    let listed = home.legwork(&["sessions", "--json"]).run().json();
    let id = listed["sessions"][0]["session_id"].as_str().expect("an id").to_owned();
    let told = home.legwork(&["sessions", "show", &id, "--json"]).run().json();
    let rows = told["history"].as_array().expect("a list").iter();
    let kinds: Vec<&str> = rows.filter_map(|row| row["display_kind"].as_str()).collect();
    assert_eq!(kinds, ["async_delegation_complete", "background_process_ended"], "{told}");
    screen.press("\u{4}");
    assert_eq!(screen.wait_for_end(), 0);
    home.assert_nothing_runs();
}

#[test]
fn dlv_01_a_process_that_ends_during_a_turn_is_told_when_that_has_ended() {
    let server = server_of_a_conversation();
    let home = Home::with(&server);
    let mut screen = heir(&home);
    screen.press("hold on\r");
    server.gate("turn").wait_reached();
    home.write("go", "");
    until("the process to end", || home.commands().is_empty().then_some(()));
    server.gate("turn").open();
    screen.wait_for("Heard of its end.");
    let shown = screen.everything();
    let places = ["› hold on", "Done with that.", "◆ Background process", "Heard of its end."]
        .map(|text| shown.rfind(text));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{shown}");
    let whole = whole(&mut screen, &server);
    assert_eq!(whole.matches(PROCESS).count(), 1, "{whole}");
    assert_eq!(whole.matches("ended with exit code 5").count(), 1, "not within the turn: {whole}");
    screen.press("\u{4}");
    assert_eq!(screen.wait_for_end(), 0);
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
