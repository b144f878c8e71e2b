//! `kill -9` and SIGTERM in the middle of work, and another process that goes on with it: nothing that was paid for is paid
//! again, nothing that was done is done again, and the answer arrives (K02, K43).

use std::fs;

use legwork_testkit::server::{
    Call, Conversation, Reply, Script, ScriptedServer, Scripts, call, calls, gate, say,
};
use nix::sys::signal::Signal;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::{Ended, Home, Running, until};

/// Calls that the child makes, one a reply.
const STEPS: usize = 40;
/// The call in which it is killed.
const KILLED_IN: usize = 25;

/// A child of many steps that waits at the gate before one of its replies. Each step appends a line of its own.
fn long(waits_at: Option<usize>) -> Script {
    Script::from_fn(move |talk: &Conversation| {
        let step = talk.step();
        let reply = match step {
            STEPS.. => say("all steps are done"),
            step => call("terminal", json!({"command": format!("echo {step} >> steps.txt")})),
        };
        if waits_at == Some(step) { gate("here").then(reply) } else { reply }
    })
}

fn results(home: &Home, id: &str) -> Ended {
    home.legwork(&["results", id, "--wait", "--json"]).run()
}

/// Starts tasks, and kills the program when the gate is reached.
fn killed_at_gate(server: &ScriptedServer, home: &Home, goals: &[&str]) -> String {
    let goals = goals.iter().flat_map(|goal| ["--goal", goal]);
    let arguments: Vec<&str> = ["delegate"].into_iter().chain(goals).collect();
    let running = home.legwork(&arguments).start();
    let id = running.delegation();
    server.gate("here").wait_reached();
    running.kill();
    server.gate("here").open();
    id
}

fn assert_each_step_once(home: &Home) {
    let expected: Vec<String> = (0..STEPS).map(|step| step.to_string()).collect();
    assert_eq!(home.read("steps.txt").lines().collect::<Vec<_>>(), expected);
}

/// Moves every stored time a day ahead.
fn into_the_future(home: &Home) {
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let database = Connection::open(home.database()).expect("it opens");
    for (table, column) in [
        ("owners", "entered_at"),
        ("delegations", "accepted_at"),
        ("facts", "at"),
        ("children", "started_at"),
        ("children", "pulse_at"),
        ("steps", "at"),
        ("sessions", "created_at"),
        ("sessions", "touched_at"),
    ] {
        let sql = format!("UPDATE {table} SET {column} = {column} + {DAY_MS} WHERE {column} IS NOT NULL");
        database.execute(&sql, ()).expect("the column is there");
    }
}

/// Proves RECOV-2, DUR-9.
#[test]
fn k02_a_child_of_many_steps_goes_on_where_it_was_killed_and_pays_for_one_call_more_at_most() {
    for ahead in [false, true] {
        let server = ScriptedServer::start(Scripts::default().agent("many steps", long(Some(KILLED_IN))));
        let home = Home::with(&server);
        let id = killed_at_gate(&server, &home, &["many steps"]);
        if ahead {
            into_the_future(&home);
        }
        let ended = results(&home, &id);
        assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
        assert_eq!(ended.results()[0]["summary"], json!("all steps are done"), "{ended}");
        let asked = server.log().entries().len();
        assert!(asked <= STEPS + 2, "{asked} calls; {} without the kill", STEPS + 1);
        assert_each_step_once(&home);
        let entry = &ended.results()[0];
        assert_eq!(entry["tool_trace"].as_array().map(Vec::len), Some(STEPS), "{ended}");
        assert_eq!(entry["tokens"]["input"], json!(100 * (STEPS + 1)), "each reply is counted once: {ended}");
        assert!(ended.stderr.contains("1 subagent(s) go(es) on"), "{ended}");
        home.assert_nothing_runs();
        let again = home.legwork(&["results", &id, "--json"]).run();
        assert_eq!(again.results(), ended.results(), "it arrived and can be read again");
        assert_eq!(again.json()["delivery"], json!("delivered"), "{again}");
    }
}

#[test]
fn k02_killed_again_and_again_it_still_gets_there() {
    let server = ScriptedServer::start(Scripts::default().agent("many steps", long(Some(3))));
    let home = Home::with(&server);
    let id = killed_at_gate(&server, &home, &["many steps"]);
    for lines in [8, 16, 24] {
        let going_on = home.legwork(&["results", &id, "--wait"]).start();
        until("more steps", || (home.read("steps.txt").lines().count() >= lines).then_some(()));
        going_on.kill();
    }
    let ended = results(&home, &id);
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    // A command that was cut off may have run or not, and is never run again.
    let text = home.read("steps.txt");
    let lines: Vec<&str> = text.lines().collect();
    let once: std::collections::BTreeSet<&&str> = lines.iter().collect();
    assert_eq!(once.len(), lines.len(), "no step was done twice: {lines:?}");
    assert!(server.log().entries().len() <= STEPS + 1 + 4, "{}", server.log().summary());
    home.assert_nothing_runs();
}

#[test]
fn k02_a_call_that_was_cut_off_is_not_made_again_and_is_told_as_in_doubt() {
    let script = Script::from_fn(|talk: &Conversation| match talk.step() {
        0 => calls([Call::new("terminal", json!({"command": "echo once >> marks.txt; sleep 997"}))]),
        _ => say(format!("I read: {}", talk.last_text())),
    });
    let server = ScriptedServer::start(Scripts::default().agent("a long command", script));
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "a long command"]).start();
    let id = running.delegation();
    home.wait_for_processes("sleep 997", 1);
    running.kill();
    let ended = results(&home, &id);
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    let entry = &ended.results()[0];
    assert!(
        entry["summary"]
            .as_str()
            .is_some_and(|text| text.contains("effect is not known") || text.contains("had an effect")),
        "{ended}"
    );
    assert_eq!(entry["in_doubt"][0]["tool"], json!("terminal"), "{ended}");
    assert_eq!(home.read("marks.txt"), "once\n");
    home.assert_nothing_runs();
}

/// Proves RECOV-5.
#[test]
fn k43_a_joined_call_that_was_cut_off_in_run_is_finished_with_the_real_results() {
    let scripts = Scripts::default().agent("many steps", long(Some(KILLED_IN))).agent(
        "the prompt",
        Script::from_fn(|talk: &Conversation| match talk.step() {
            0 => call("delegate_task", json!({"goal": "this takes many steps"})),
            _ => say(format!("after {} results", talk.tool_results().len())),
        }),
    );
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let running = home.legwork(&["run", "this is the prompt"]).start();
    server.gate("here").wait_reached();
    running.kill();
    server.gate("here").open();
    let ended = home.legwork(&["run", "and now?", "--last"]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "after 1 results\n"), "{ended}");
    assert_each_step_once(&home);
    let log = server.log();
    assert!(log.of("many steps").len() <= STEPS + 2, "{}", log.summary());
    let last = log.entries().last().expect("a request").body["messages"].to_string();
    assert_eq!(last.matches("all steps are done").count(), 1, "{last}");
    assert!(home.ps().is_empty());
}

fn nested() -> Scripts {
    Scripts::default().agent("the lower piece", long(Some(KILLED_IN))).agent(
        "the upper piece",
        Script::from_fn(|talk: &Conversation| match talk.step() {
            0 => call("delegate_task", json!({"goal": "this is the lower piece of the work"})),
            _ if talk.last_text().contains("all steps are done") => say("the lower piece is done"),
            _ => say(format!("unexpected: {}", talk.last_text())),
        }),
    )
}

#[test]
fn k16_a_parent_that_waited_finds_its_children_again_in_one_slot() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let server = ScriptedServer::start(nested());
        let home = Home::with(&server);
        let order = home.legwork(&["delegate", "--goal", "this is the upper piece"]);
        let running = order.set("max_concurrent_children", 1).set("max_spawn_depth", 2).start();
        let id = running.delegation();
        server.gate("here").wait_reached();
        running.signal(signal);
        running.wait();
        server.gate("here").open();
        let order = home.legwork(&["results", &id, "--wait", "--json"]);
        let ended = order.set("max_concurrent_children", 1).set("max_spawn_depth", 2).run();
        assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{signal:?}: {ended}");
        assert_eq!(ended.results()[0]["summary"], json!("the lower piece is done"), "{signal:?}: {ended}");
        assert_each_step_once(&home);
        assert_eq!(home.list().len(), 2, "nothing was delegated twice");
        assert!(server.log().of("the lower piece").len() <= STEPS + 2);
        home.assert_nothing_runs();
    }
}

/// A subagent with two calls under way, which calls once more when it has their results.
fn two_below() -> Scripts {
    let below = |name: &str| Call::new("delegate_task", json!({"goal": format!("this is the {name} piece")}));
    let upper = Script::new()
        .step(calls([below("left"), below("right")]))
        .step(call("delegate_task", json!({"goal": "this is a new piece"})))
        .step(say("all of it is there"));
    let lower = |name: &str| {
        Script::new()
            .step(call("terminal", json!({"command": format!("echo once >> {name}.txt")})))
            .step(gate("here").say(format!("the {name} answer")))
    };
    Scripts::default()
        .agent("the upper piece", upper)
        .agent("the left piece", lower("left"))
        .agent("the right piece", lower("right"))
}

/// What was accepted is rejoined whatever is allowed by now; what is asked for anew is judged by that.
#[test]
fn k16_calls_that_were_under_way_rejoin_their_children_whatever_is_allowed_by_now() {
    for (key, value, words) in [
        ("ORCHESTRATOR_ENABLED", "false", "depth limit reached"),
        ("MAX_SPAWN_DEPTH", "1", "depth limit reached"),
        ("MAX_CONCURRENT_CHILDREN", "1", "new piece"),
        ("DEFAULT_TOOLSETS", "file", "new piece"),
    ] {
        let server = ScriptedServer::start(
            two_below().agent("a new piece", Script::new().step(say("the new piece is done"))),
        );
        let home = Home::with(&server);
        let order = home.legwork(&["delegate", "--goal", "this is the upper piece"]);
        let running = order.set("max_spawn_depth", 3).start();
        let id = running.delegation();
        server.gate("here").wait_waiting(2);
        running.kill();
        server.gate("here").open();
        let order = home.legwork(&["results", &id, "--wait", "--json"]).set("max_spawn_depth", 3);
        let ended = order.env(&format!("LEGWORK_DELEGATION_{key}"), value).run();
        assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{key}: {ended}");
        let log = server.log();
        let last = log.of("the upper piece").last().expect("a request").body["messages"].to_string();
        for part in ["the left answer", "the right answer", words] {
            assert!(last.contains(part), "{key}: {part} is missing: {last}");
        }
        assert!(!last.contains("not allowed"), "{key}: {last}");
        let list = home.list();
        let states: Vec<&Value> =
            list.iter().map(|record| &record["units"][0]["children"][0]["state"]).collect();
        assert!(states.iter().all(|state| **state == "completed"), "{key}: {states:?}");
        assert_eq!(
            (home.read("left.txt"), home.read("right.txt")),
            ("once\n".to_owned(), "once\n".to_owned())
        );
        home.assert_nothing_runs();
    }
}

/// Proves RECOV-5.
#[test]
fn k33_a_batch_that_was_told_to_end_is_finished_from_where_it_was() {
    let server = ScriptedServer::start(Scripts::default().otherwise(long(Some(KILLED_IN))));
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "many steps"]).start();
    let id = running.delegation();
    server.gate("here").wait_reached();
    running.signal(Signal::SIGTERM);
    let left = running.wait();
    assert_eq!(left.code, 143, "{left}");
    server.gate("here").open();
    let worker = home.legwork(&["worker", "--only", &id]).run();
    assert_eq!(worker.code, 0, "{worker}");
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    assert_eq!(shown["units"][0]["delivery"], json!("parked"), "{}", shown["ledger"]);
    let ended = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    assert_each_step_once(&home);
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    assert_eq!(shown["units"][0]["delivery"], json!("delivered"), "{}", shown["ledger"]);
}

/// A child whose first reply waits at the gate and makes two calls: one that takes a while, and a short one.
fn unhurried() -> Script {
    let slow = Call::new(
        "terminal",
        json!({"command": "echo slow begins >> steps.txt; sleep 0.5; echo slow ends >> steps.txt"}),
    );
    let short = Call::new("terminal", json!({"command": "echo short >> steps.txt"}));
    Script::new().step(gate("reply").then(calls([slow, short]))).step(say("all of it is done"))
}

/// Tells the program to end, and waits until it has told its subagents.
fn tell_to_end(running: &Running) {
    running.signal(Signal::SIGTERM);
    until("it to be heard", || running.stderr().contains("nothing new begins").then_some(()));
}

/// Starts the unhurried child with time for its end, and tells the program to end once `when` says so.
fn told_to_end(server: &ScriptedServer, home: &Home, when: impl FnOnce(), then: impl FnOnce()) -> String {
    let order = home.legwork(&["-v", "delegate", "--goal", "take your time"]);
    let running = order.set("stop_grace_ms", 30_000).start();
    let id = running.delegation();
    server.gate("reply").wait_reached();
    when();
    tell_to_end(&running);
    then();
    let left = running.wait();
    assert_eq!(left.code, 143, "{left}");
    id
}

/// Whether it goes on as if nothing had happened: nothing is done or asked twice, nothing is in doubt.
fn assert_undisturbed(server: &ScriptedServer, home: &Home, id: &str) {
    let ended = results(home, id);
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    assert_eq!(home.read("steps.txt"), "slow begins\nslow ends\nshort\n", "{ended}");
    assert_eq!(ended.results()[0].get("in_doubt").filter(|doubt| !doubt.is_null()), None, "{ended}");
    assert_eq!(ended.results()[0]["tool_trace"].as_array().map(Vec::len), Some(2), "{ended}");
    assert_eq!(server.log().entries().len(), 2, "{}", server.log().summary());
    assert!(server.log().violations().is_empty(), "{}", server.log().summary());
}

#[test]
fn k33_a_command_that_runs_when_the_program_is_told_to_end_comes_to_its_end_and_no_other_begins() {
    let server = ScriptedServer::start(Scripts::default().otherwise(unhurried()));
    let home = Home::with(&server);
    let in_the_middle = || {
        server.gate("reply").open();
        until("the command to run", || home.project().join("steps.txt").exists().then_some(()));
    };
    let id = told_to_end(&server, &home, in_the_middle, || ());
    assert_eq!(home.read("steps.txt"), "slow begins\nslow ends\n");
    assert_undisturbed(&server, &home, &id);
}

#[test]
fn k33_a_reply_that_comes_after_the_program_was_told_to_end_is_kept_and_not_asked_for_again() {
    let server = ScriptedServer::start(Scripts::default().otherwise(unhurried()));
    let home = Home::with(&server);
    let id = told_to_end(&server, &home, || (), || server.gate("reply").open());
    assert_undisturbed(&server, &home, &id);
}

/// Proves SCHEMA-4 across the end of a process.
#[test]
fn k33_an_answer_that_comes_at_the_end_and_does_not_fit_is_corrected_by_whoever_goes_on() {
    let script = Script::new().step(gate("reply").say("in plain words")).step(say("{\"said\": \"it\"}"));
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    let schema = json!({"type": "object", "required": ["said"]});
    home.write("tasks.json", json!({"tasks": [{"goal": "say it", "output_schema": schema}]}).to_string());
    let running = home.legwork(&["-v", "delegate", "tasks.json"]).set("stop_grace_ms", 30_000).start();
    let id = running.delegation();
    server.gate("reply").wait_reached();
    tell_to_end(&running);
    server.gate("reply").open();
    assert_eq!(running.wait().code, 143);
    let ended = results(&home, &id);
    let entry = &ended.results()[0];
    assert_eq!((&entry["schema_valid"], &entry["schema_retries"]), (&json!(true), &json!(1)), "{ended}");
    assert_eq!((ended.code, server.log().entries().len()), (0, 2), "{}", server.log().summary());
}

#[test]
fn k33_a_worker_takes_what_lost_its_process_leaves_the_living_alone_and_releases_when_told_to_end() {
    let scripts = Scripts::default()
        .agent("living", Script::new().step(gate("living").say("the living answer")))
        .agent("orphan", Script::new().step(gate("here").say("the first answer")).step(say("never")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let living = home.legwork(&["delegate", "--goal", "the living", "--json"]).start();
    server.gate("living").wait_reached();
    let orphan = home.legwork(&["delegate", "--goal", "an orphan"]).start();
    let id = orphan.delegation();
    server.gate("here").wait_reached();
    orphan.kill();
    let worker = home.legwork(&["worker"]).start();
    server.gate("here").wait_waiting(1);
    until("the worker to have it", || {
        let owner = home.ps().iter().find(|known| known["delegation_id"] == json!(id))?["units"][0]["children"][0]["owner_pid"].clone();
        (owner == json!(worker.pid())).then_some(())
    });
    worker.signal(Signal::SIGTERM);
    let ended = worker.wait();
    assert_eq!(ended.code, 143, "{ended}");
    server.gate("here").open();
    server.gate("living").open();
    assert_eq!(living.wait().code, 0);
    let ended = results(&home, &id);
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
}

#[test]
fn k29_without_the_key_the_work_waits_and_it_is_said_why() {
    let server =
        ScriptedServer::start(Scripts::default().agent("any", Script::new().step(gate("here").say("done"))));
    let home = Home::with(&server);
    let id = killed_at_gate(&server, &home, &["any"]);
    let refused =
        home.legwork(&["results", &id, "--wait", "--json"]).env("LEGWORK_MODEL", "openai/another").run();
    refused.assert_refused(3, "no_model", &[&id, "openai/test"]);
    assert!(format!("{refused}").contains("--wait --model openai/test"), "{refused}");
    let keyless = home.legwork(&["results", &id, "--wait", "--json"]).without("LEGWORK_API_KEY");
    let elsewhere =
        home.legwork(&["results", &id, "--wait", "--json"]).env("LEGWORK_BASE_URL", "http://127.0.0.1:9/v1");
    for order in [keyless, elsewhere] {
        let refused = order.run();
        refused.assert_refused(3, "no_model", &[&id, "configure what it needs"]);
        assert!(!format!("{refused}").contains("--model"), "it is the model that was configured: {refused}");
    }
    let looked = home.legwork(&["ps"]).without("LEGWORK_API_KEY").run();
    assert!(looked.stderr.contains("LEGWORK_API_KEY"), "{looked}");
    let ended = results(&home, &id);
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
}

#[test]
fn wt_03_a_folder_that_is_gone_is_an_error_of_the_child() {
    let server =
        ScriptedServer::start(Scripts::default().agent("any", Script::new().step(gate("here").say("done"))));
    let home = Home::with(&server);
    fs::create_dir(home.project().join("inner")).expect("it is made");
    let running = home.legwork(&["delegate", "--goal", "any", "--cwd", "inner"]).start();
    let id = running.delegation();
    server.gate("here").wait_reached();
    running.kill();
    fs::remove_dir(home.project().join("inner")).expect("it is empty");
    let ended = results(&home, &id);
    assert_eq!((ended.code, ended.statuses()), (1, vec!["error".to_owned()]), "{ended}");
    assert!(ended.results()[0]["error"].as_str().is_some_and(|error| error.contains("inner")), "{ended}");
}

#[test]
fn k12_work_whose_process_died_can_be_stopped_for_good() {
    let server =
        ScriptedServer::start(Scripts::default().agent("any", Script::new().step(gate("here").say("done"))));
    let home = Home::with(&server);
    let id = killed_at_gate(&server, &home, &["any"]);
    let stopped = home.legwork(&["stop", &id, "--json"]).run();
    assert_eq!(stopped.json()["stopped"].as_array().map(Vec::len), Some(1), "{stopped}");
    let ended = results(&home, &id);
    assert_eq!((ended.code, ended.statuses()), (1, vec!["interrupted".to_owned()]), "{ended}");
    assert_eq!(server.log().entries().len(), 1, "nothing was asked any more");
}

/// Whoever goes on with the work at the same moment reads the stop.
#[test]
fn k12_a_stop_of_work_whose_process_died_is_on_record_and_carried_out() {
    let server =
        ScriptedServer::start(Scripts::default().agent("any", Script::new().step(gate("here").say("done"))));
    let home = Home::with(&server);
    let id = killed_at_gate(&server, &home, &["any"]);
    let stopped = home.legwork(&["stop", &id]).run();
    assert_eq!(stopped.code, 0, "{stopped}");
    let database = Connection::open(home.database()).expect("it opens");
    let sql = "SELECT count(*), count(settled_at), max(fate) FROM requests";
    let row = database.query_row(sql, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let asked: (i64, i64, String) = row.expect("it reads, and there is one");
    assert_eq!((asked.0, asked.1), (1, 1), "{asked:?}");
    assert!(asked.2.contains("carried_out"), "{asked:?}");
}

#[test]
fn k20_a_stop_of_orphaned_work_is_not_told_as_a_loss() {
    let held = || Script::from_fn(|_: &Conversation| gate("here").say("done"));
    let server = ScriptedServer::start(Scripts::default().agent("first", held()).agent("second", held()));
    let home = Home::with(&server);
    let id = killed_at_gate(&server, &home, &["first", "second"]);
    let one = home.only_child(0);
    let part = home.legwork(&["stop", &one]).run();
    assert_eq!((part.code, part.stdout.as_str()), (0, format!("stopped: {one}\n").as_str()), "{part}");
    assert!(!part.stderr.contains("lost") && !part.stderr.contains("goes on"), "{part}");
    let whole = home.legwork(&["stop", &id]).run();
    assert_eq!(whole.code, 0, "{whole}");
    assert!(whole.stdout.starts_with("stopped: "), "{whole}");
    assert!(!whole.stderr.contains("lost") && !whole.stderr.contains("goes on"), "{whole}");
    assert!(home.ps().is_empty());
}

/// Proves RECOV-3.
#[test]
fn recov_03_a_task_says_for_itself_what_becomes_of_it() {
    let script = || Script::from_fn(|_: &Conversation| gate("here").say("done"));
    let server = ScriptedServer::start(Scripts::default().agent("first", script()).agent("second", script()));
    let home = Home::with(&server);
    home.write(
        "tasks.toml",
        "[[tasks]]\ngoal = \"first\"\non_crash = \"report\"\n[[tasks]]\ngoal = \"second\"\n",
    );
    let running = home.legwork(&["delegate", "tasks.toml"]).start();
    let id = running.delegation();
    server.gate("here").wait_waiting(2);
    running.kill();
    server.gate("here").open();
    let ended = results(&home, &id);
    assert_eq!(ended.statuses(), ["unknown", "completed"], "{ended}");
    home.write("wrong.toml", "[[tasks]]\ngoal = \"first\"\non_crash = \"again\"\n");
    home.legwork(&["delegate", "wrong.toml", "--json"]).run().assert_refused(
        2,
        "input",
        &["on_crash", "resume", "report"],
    );
}

/// A chat that its person keeps open, whose subagent waits at the gate.
fn chat_with_work(server: &ScriptedServer, home: &Home) -> Running {
    let running = home.legwork(&["chat", "--session", "work"]).stdin("please delegate\n").start();
    server.gate("here").wait_reached();
    running
}

/// Proves RECOV-5.
#[test]
fn k03_a_conversation_that_is_opened_again_goes_on_with_its_work() {
    let scripts = Scripts::default().agent("many steps", long(Some(KILLED_IN))).agent(
        "please delegate",
        Script::from_fn(|talk: &Conversation| -> Reply {
            match talk.step() {
                0 => call("delegate_task", json!({"goal": "this takes many steps"})),
                _ => say(format!("heard: {}", talk.last_text().contains("all steps are done"))),
            }
        }),
    );
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    chat_with_work(&server, &home).kill();
    server.gate("here").open();
    let ended = home.legwork(&["chat", "--session", "work"]).stdin("").run();
    assert_eq!(ended.code, 0, "{ended}");
    assert_each_step_once(&home);
    let states: Vec<Value> = home.list().iter().map(|known| known["units"][0]["delivery"].clone()).collect();
    assert_eq!(states, [json!("delivered")]);
    assert!(ended.stdout.contains("heard: true"), "{ended}");
}

/// Proves invariant 6 for every limit that a call is judged by: what was accepted is not judged again.
#[test]
fn k42_a_call_that_is_asked_again_rejoins_what_it_started_whatever_the_limits_are_by_then() {
    let task = |number: usize| json!({"goal": format!("this is piece {number} of the work")});
    let whole = || vec![Call::new("delegate_task", json!({"tasks": (0..4).map(task).collect::<Vec<_>>()}))];
    let single = || (0..3).map(|number| Call::new("delegate_task", task(number))).collect::<Vec<_>>();
    let cases = [
        ("max_concurrent_children", (4, 1), single(), 3),
        ("oneshot_max_children", (4, 2), whole(), 4),
        ("goal_max_bytes", (100, 15), whole(), 4),
    ];
    for (key, (before, after), sent, pieces) in cases {
        let server = ScriptedServer::start(Scripts::default().agent("piece", waits()).agent(
            "the prompt",
            Script::from_fn(move |talk: &Conversation| match talk.step() {
                0 => calls(sent.clone()),
                _ => say(format!(
                    "heard of {}",
                    talk.tool_results().concat().matches("a piece is done").count()
                )),
            }),
        ));
        let home = Home::with(&server);
        let order = |arguments: &[&str]| {
            home.legwork(arguments).set("max_concurrent_children", 4).set("oneshot_max_children", 4)
        };
        let running = order(&["run", "this is the prompt"]).set(key, before).start();
        server.gate("here").wait_waiting(pieces);
        running.kill();
        server.gate("here").open();
        let ended = order(&["run", "and now?", "--last"]).set(key, after).run();
        assert_eq!(
            (ended.code, ended.stdout),
            (0, format!("heard of {pieces}\n")),
            "{key}: {}",
            ended.stderr
        );
    }
}

fn waits() -> Script {
    Script::from_fn(|_: &Conversation| gate("here").say("a piece is done"))
}
