//! A program that is told to end in its own turn, or while it waits: what is under way comes to its end within the stop grace,
//! stdout has its one document, and it is said how to go on (K33).

use legwork_testkit::server::{Call, Conversation, Script, ScriptedServer, Scripts, call, calls, gate, say};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Home, until};

/// A turn whose first reply waits at the gate and makes two calls: one that takes a while, and a short one.
fn unhurried() -> Scripts {
    let slow = Call::new(
        "terminal",
        json!({"command": "echo slow begins >> steps.txt; sleep 0.5; echo slow ends >> steps.txt"}),
    );
    let short = Call::new("terminal", json!({"command": "echo short >> steps.txt"}));
    let script = Script::new().step(gate("reply").then(calls([slow, short]))).step(say("all of it is done"));
    Scripts::default().otherwise(script.step(say("that was all")))
}

fn blue() -> Scripts {
    Scripts::default().otherwise(Script::new().step(gate("reply").say("it is blue")).step(say("still blue")))
}

/// Tells a program to end in its own turn, at that moment; gives its exit code and what it said.
fn told(
    verb: &str,
    (server, home): (&ScriptedServer, &Home),
    when: impl FnOnce(),
    then: impl FnOnce(),
) -> (i32, String, String) {
    if verb == "run" {
        let order = home.legwork(&["run", "the question", "--json"]).set("stop_grace_ms", 30_000);
        let running = order.start();
        server.gate("reply").wait_reached();
        when();
        running.signal(Signal::SIGTERM);
        then();
        let ended = running.wait();
        return (ended.code, ended.stdout, ended.stderr);
    }
    let order = home.legwork(&["chat"]).set("stop_grace_ms", 30_000).env("NO_COLOR", "1");
    let mut screen = order.env("TERM", "xterm-256color").at_terminal(100, 30);
    screen.wait_for("›");
    screen.press("the question").press("\r");
    server.gate("reply").wait_reached();
    when();
    screen.signal(Signal::SIGTERM);
    then();
    (screen.wait_for_end(), String::new(), screen.everything())
}

fn history(home: &Home) -> Vec<Value> {
    let listed = home.legwork(&["sessions", "--json"]).run().json();
    let id = listed["sessions"][0]["session_id"].as_str().expect("an id").to_owned();
    let exported = home.legwork(&["sessions", "export", &id, "--json"]).run().json();
    exported["history"].as_array().expect("a history").clone()
}

#[test]
fn k33_a_command_of_the_turn_itself_comes_to_its_end_and_the_next_is_made_by_whoever_goes_on() {
    for verb in ["run", "chat"] {
        let server = ScriptedServer::start(unhurried());
        let home = Home::with(&server);
        let begun = || {
            server.gate("reply").open();
            until("the command to begin", || home.project().join("steps.txt").exists().then_some(()));
        };
        let (code, stdout, stderr) = told(verb, (&server, &home), begun, || ());
        assert_eq!(code, 143, "{verb}: {stderr}");
        assert_eq!(home.read("steps.txt"), "slow begins\nslow ends\n", "{verb}: {stderr}");
        assert!(stderr.contains("--resume ses_"), "{verb}: {stderr}");
        if verb == "run" {
            let document: Value = serde_json::from_str(&stdout).expect("one document");
            assert!(document["answer"].is_null() && document["failure"].is_string(), "{document}");
        }
        assert_eq!(
            history(&home).len(),
            2,
            "{verb}: a reply is part of it with all its results or not at all"
        );
        let ended = home.legwork(&["run", "and now?", "--last", "--json"]).run();
        assert_eq!(ended.code, 0, "{verb}: {ended}");
        assert_eq!(home.read("steps.txt"), "slow begins\nslow ends\nshort\n", "{verb}: {ended}");
        let log = server.log();
        assert_eq!(log.entries().len(), 3, "{verb}: {}", log.summary());
        let last = log.entries().last().expect("a request").body["messages"].to_string();
        assert!(last.contains("all of it is done") && !last.contains("not known"), "{verb}: {last}");
        assert!(log.violations().is_empty(), "{verb}: {}", log.summary());
        home.assert_nothing_runs();
    }
}

#[test]
fn k33_a_conversation_over_lines_prints_the_answer_that_comes_within_its_grace() {
    let server = ScriptedServer::start(blue());
    let home = Home::with(&server);
    let order = home.legwork(&["chat"]).set("stop_grace_ms", 30_000).stdin("the question\n");
    let running = order.start();
    server.gate("reply").wait_reached();
    running.signal(Signal::SIGTERM);
    // It is told apart from an answer in good time by its exit code.
    server.gate("reply").open();
    let ended = running.wait();
    assert_eq!((ended.code, ended.stdout.as_str()), (143, "it is blue\n"), "{ended}");
    assert!(history(&home).last().is_some_and(|last| last.to_string().contains("it is blue")));
}

#[test]
fn k33_a_reply_of_the_turn_itself_comes_to_its_end_and_is_not_paid_for_again() {
    for verb in ["run", "chat"] {
        let server = ScriptedServer::start(blue());
        let home = Home::with(&server);
        let (code, stdout, stderr) = told(verb, (&server, &home), || (), || server.gate("reply").open());
        assert_eq!(code, 143, "{verb}: {stderr}");
        assert!(stderr.contains("--resume ses_"), "{verb}: {stderr}");
        if verb == "run" {
            let document: Value = serde_json::from_str(&stdout).expect("one document");
            assert_eq!(document["answer"], "it is blue", "{document}");
        }
        assert!(history(&home).last().is_some_and(|last| last.to_string().contains("it is blue")), "{verb}");
        let ended = home.legwork(&["run", "and now?", "--last"]).run();
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "still blue\n"), "{verb}: {ended}");
        assert_eq!(server.log().entries().len(), 2, "{verb}: {}", server.log().summary());
    }
}

/// What is under way in the conversation itself has its time, and meanwhile its subagents begin nothing either.
#[test]
fn k33_no_subagent_begins_anything_while_a_command_of_the_conversation_comes_to_its_end() {
    let slow = "touch begun; until [ -e go ]; do sleep 0.05; done; touch ended";
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(
        move |talk: &Conversation| match (talk.first_user_text(), talk.last_text()) {
            (goal, _) if goal.contains("the piece") => {
                gate("piece").call("terminal", json!({"command": "touch of-the-piece"}))
            }
            (_, last) if last.contains("send it out") => {
                call("delegate_task", json!({"goal": "this is the piece of work"}))
            }
            (_, last) if last.contains("work slowly") => call("terminal", json!({"command": slow})),
            _ => say("It is on its way."),
        },
    )));
    let home = Home::with(&server);
    let order = home.legwork(&["-v", "chat"]).set("stop_grace_ms", 30_000).env("NO_COLOR", "1");
    let mut screen = order.env("TERM", "xterm-256color").at_terminal(150, 30);
    screen.wait_for("›");
    screen.press("send it out\r");
    screen.wait_for("It is on its way.");
    server.gate("piece").wait_waiting(1);
    screen.press("work slowly\r");
    let is_there = |name: &str| home.project().join(name).exists();
    until("the command to begin", || is_there("begun").then_some(()));
    screen.signal(Signal::SIGTERM);
    until("it to be heard", || screen.everything().contains("nothing new begins").then_some(()));
    server.gate("piece").open();
    until("the reply to be stored", || {
        (home.count("SELECT count(*) FROM steps WHERE body LIKE '%of-the-piece%'") > 0).then_some(())
    });
    home.write("go", "");
    assert_eq!(screen.wait_for_end(), 143);
    assert!(is_there("ended") && !is_there("of-the-piece"), "{}", screen.everything());
    home.assert_nothing_runs();
}

/// What does not come in time is cut, and asked for again by whoever goes on.
#[test]
fn k33_what_takes_longer_than_the_grace_is_cut_and_stdout_has_its_document() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let server = ScriptedServer::start(blue());
        let home = Home::with(&server);
        let order = home.legwork(&["run", "the question", "--json"]).set("stop_grace_ms", 200);
        let running = order.start();
        server.gate("reply").wait_reached();
        running.signal(signal);
        let ended = running.wait();
        assert_eq!(ended.code, code, "{ended}");
        let document = ended.json();
        assert!(document["answer"].is_null() && document["failure"].is_string(), "{ended}");
        let session = document["session_id"].as_str().expect("an id").to_owned();
        assert!(ended.stderr.contains(&format!("--resume {session}")), "{ended}");
        home.assert_nothing_runs();
    }
}

#[test]
fn k33_a_wait_for_results_that_is_ended_prints_what_there_is_and_takes_nothing() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let server = ScriptedServer::start(blue());
        let home = Home::with(&server);
        let first = home.legwork(&["delegate", "--goal", "what colour is it?"]).start();
        let id = first.delegation();
        server.gate("reply").wait_reached();
        first.kill();
        let waiting = home.legwork(&["results", &id, "--wait", "--json"]).set("stop_grace_ms", 200).start();
        until("it to be taken up", || {
            let owner = home.ps()[0]["units"][0]["children"][0]["owner_pid"].clone();
            (owner == json!(waiting.pid())).then_some(())
        });
        waiting.signal(signal);
        let ended = waiting.wait();
        assert_eq!((ended.code, &ended.json()["complete"]), (code, &json!(false)), "{ended}");
        assert!(ended.stderr.contains(&format!("`legwork results {id} --wait`")), "{ended}");
        server.gate("reply").open();
        let again = home.legwork(&["results", &id, "--wait", "--json"]).run();
        assert_eq!((again.code, again.statuses()), (0, vec!["completed".to_owned()]), "{again}");
        home.assert_nothing_runs();
    }
}
