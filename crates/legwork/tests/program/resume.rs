//! `legwork run --resume` and `--last`: a stored conversation goes on where it was. What was cut off is finished first, what
//! came back meanwhile comes in first, and stdout has the answer to the prompt alone.

use std::fs;

use legwork_testkit::server::{
    Alternation, Call, Conversation, Reply, Role, Script, ScriptedServer, Scripts, call, calls, gate, say,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Ended, Home, Running, until};

/// Says how many messages of users it has been sent, and the last of them.
fn listener(talk: &Conversation) -> Reply {
    let users: Vec<&str> = users(talk).collect();
    say(format!("{} questions, last: {}", users.len(), users.last().unwrap_or(&"none")))
}

fn users(talk: &Conversation) -> impl Iterator<Item = &str> {
    let users = talk.messages.iter().filter(|message| message.role == Role::User);
    users.map(|message| message.text.as_str())
}

#[track_caller]
fn run(home: &Home, arguments: &[&str]) -> Ended {
    let ended = home.legwork(&[&["run", "--json"], arguments].concat()).run();
    assert_eq!(ended.code, 0, "{ended}");
    ended
}

fn session(ended: &Ended) -> String {
    ended.json()["session_id"].as_str().expect("an id").to_owned()
}

fn answer(ended: &Ended) -> String {
    ended.json()["answer"].as_str().expect("an answer").to_owned()
}

#[test]
fn a_stored_conversation_goes_on_with_all_that_was_said() {
    let server = ScriptedServer::start(
        Scripts::default().otherwise(Script::from_fn(listener)).alternation(Alternation::Strict),
    );
    let home = Home::with(&server);
    let first = run(&home, &["the first question"]);
    let id = session(&first);
    let second = run(&home, &["the second question", "--last"]);
    assert_eq!(
        (session(&second), answer(&second).as_str()),
        (id.clone(), "2 questions, last: the second question")
    );
    run(&home, &["a question of another session"]);
    let third = run(&home, &["the third question", "--resume", &id[..12]]);
    assert_eq!(
        (session(&third), answer(&third).as_str()),
        (id.clone(), "3 questions, last: the third question")
    );
    let fourth = home.legwork(&["run", "the fourth question", "--resume"]).run();
    assert_eq!(
        fourth.stdout, "4 questions, last: the fourth question\n",
        "the newest is the one said something in last"
    );
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    let systems =
        log.entries().last().expect("a request").body["messages"].as_array().expect("messages").clone();
    assert_eq!(systems.iter().filter(|message| message["role"] == "system").count(), 1, "one system text");
}

#[test]
fn a_conversation_goes_on_in_its_own_folder() {
    let look = Script::from_fn(|talk| match talk.last_text() {
        text if text.starts_with("look") => call("terminal", json!({"command": "pwd"})),
        text => say(text),
    });
    let server = ScriptedServer::start(Scripts::default().otherwise(look));
    let home = Home::with(&server);
    let id = session(&run(&home, &["a question"]));
    fs::create_dir(home.project().join("elsewhere")).expect("the folder is made");
    let ended = run(&home, &["look where you are", "--resume", &id, "--cwd", "elsewhere"]);
    let folder = fs::canonicalize(home.project()).expect("it is there").display().to_string();
    assert!(answer(&ended).contains(&folder) && !answer(&ended).contains("elsewhere"), "{ended}");
    let none = home.legwork(&["run", "any", "--last", "--json", "--cwd", "elsewhere"]).run();
    none.assert_refused(4, "not_found", &["elsewhere", "legwork sessions --all"]);
}

/// Delegates first, then answers whatever comes.
fn delegating(talk: &Conversation) -> Reply {
    match talk.step() {
        0 => call("delegate_task", json!({"goal": "the held piece of work"})),
        _ => say(format!("I heard: {}", talk.last_text())),
    }
}

fn with_a_held_child() -> Scripts {
    let child = Script::new()
        .step(say("half of the work is done").call("terminal", json!({"command": "echo half"})))
        .step(gate("held").say("all of the work is done"));
    Scripts::default()
        .agent("the prompt", Script::from_fn(delegating))
        .agent("held piece", child)
        .alternation(Alternation::Strict)
}

/// A run whose child waits at the gate.
fn under_way(server: &ScriptedServer, home: &Home) -> Running {
    let running = home.legwork(&["run", "this is the prompt"]).start();
    server.gate("held").wait_reached();
    running
}

/// Two calls at once, so that there are two units.
fn delegating_twice(talk: &Conversation) -> Reply {
    match talk.step() {
        0 => calls(["one", "two"].map(|name| {
            Call::new("delegate_task", json!({"goal": format!("the held piece of work number {name}")}))
        })),
        _ => say(format!("I heard: {}", talk.last_text())),
    }
}

#[test]
fn inv_04_results_that_came_back_late_come_in_one_by_one_before_the_prompt() {
    let scripts = with_a_held_child().agent("two pieces", Script::from_fn(delegating_twice));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let running = home.legwork(&["run", "hand out two pieces"]).start();
    server.gate("held").wait_waiting(2);
    running.signal(Signal::SIGINT);
    assert_eq!(running.wait().code, 130);
    let of_all = |field: &str| -> Vec<Value> {
        home.list().iter().map(|known| known["units"][0][field].clone()).collect()
    };
    assert_eq!(of_all("delivery"), ["ready", "ready"], "nobody has taken them");
    let before = server.log().entries().len();
    let ended = home.legwork(&["run", "and what now?", "--last"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(ended.stdout, "I heard: and what now?\n", "the answer to the prompt alone: {ended}");
    assert_eq!(ended.stderr.matches("◂ ").count(), 2, "{ended}");
    assert_eq!(of_all("delivery"), ["delivered", "delivered"]);
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    let asked: Vec<String> =
        log.entries()[before..].iter().map(|entry| entry.body["messages"].to_string()).collect();
    assert_eq!(asked.len(), 3, "a turn for each result and one for the prompt: {}", log.summary());
    for id in of_all("unit_id").iter().filter_map(Value::as_str) {
        // Each is in the requests from the turn on that brought it.
        let with_it = asked.iter().filter(|text| text.contains(id)).count();
        assert!(with_it == 2 || with_it == 3, "{id}: {asked:?}");
    }
    assert!(!asked[1].contains("and what now?") && asked[2].contains("and what now?"));
    let again = home.legwork(&["run", "and then?", "--last"]).run();
    assert_eq!((again.code, again.stdout.as_str()), (0, "I heard: and then?\n"), "{again}");
    assert_eq!(server.log().entries().len(), before + 4, "they came once");
}

#[test]
fn k43_a_turn_that_was_cut_off_is_finished_first() {
    let prompt = Script::from_fn(|talk| match talk.step() {
        0 => call("terminal", json!({"command": "echo once >> steps.txt"})),
        1 => gate("cut").say("the first answer"),
        _ => say(format!("after {} questions", users(talk).count())),
    });
    let server = ScriptedServer::start(
        Scripts::default().agent("the prompt", prompt).alternation(Alternation::Strict),
    );
    let home = Home::with(&server);
    let running = home.legwork(&["run", "this is the prompt"]).start();
    server.gate("cut").wait_reached();
    running.kill();
    server.gate("cut").open();
    let ended = home.legwork(&["run", "a second question", "--last"]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "after 2 questions\n"), "{ended}");
    assert!(ended.stderr.contains("the first answer"), "{ended}");
    assert_eq!(home.read("steps.txt"), "once\n", "no step was done twice");
    assert!(server.log().violations().is_empty(), "{}", server.log().summary());
}

#[test]
fn what_cannot_be_gone_on_with_is_refused_before_anything_is_asked() {
    let home = Home::without_model();
    let refused = |home: &Home, arguments: &[&str]| {
        home.legwork(&[&["run", "any", "--json"], arguments].concat())
            .env("LEGWORK_MODEL", "scripted/none")
            .run()
    };
    refused(&home, &["--last"]).assert_refused(4, "not_found", &["no session", "legwork sessions --all"]);
    refused(&home, &["--resume", "ses_1"]).assert_refused(4, "not_found", &["ses_1"]);
    assert!(!home.state().exists(), "nothing was made");
    let server = ScriptedServer::start(with_a_held_child());
    let home = Home::with(&server);
    let running = under_way(&server, &home);
    let pid = format!("process {}", running.pid());
    for choice in [&["--last"][..], &["--resume"]] {
        let ended = home.legwork(&[&["run", "any", "--json"], choice].concat()).run();
        ended.assert_refused(3, "open_elsewhere", &[&pid, "sessions fork"]);
    }
    let asked = server.log().entries().len();
    server.gate("held").open();
    assert_eq!(running.wait().code, 0);
    home.legwork(&["delegate", "--goal", "the held piece"]).run();
    let list = home.legwork(&["sessions", "--shell", "--json"]).run().json()["sessions"].clone();
    let shell = list.as_array().expect("a list").iter().find(|known| known["kind"] == "shell");
    let shell =
        shell.and_then(|known| known["session_id"].as_str()).expect("the one of `delegate`").to_owned();
    let ended = home.legwork(&["run", "any", "--json", "--resume", &shell]).run();
    ended.assert_refused(2, "input", &[&shell, "delegate", "legwork results"]);
    assert!(server.log().entries().len() > asked);
    home.legwork(&["run", "any", "--json", "--resume", "--last"]).run().assert_refused(
        2,
        "usage",
        &["--last"],
    );
}

/// Proves DLV-11, ROUTE-7, SEC-8.
#[test]
fn inv_01_a_copy_goes_on_by_itself_and_gets_nothing_of_the_other() {
    let server = ScriptedServer::start(with_a_held_child());
    let home = Home::with(&server);
    let running = under_way(&server, &home);
    let list = home.legwork(&["sessions", "--json"]).run().json()["sessions"].clone();
    let original = list[0]["session_id"].as_str().expect("an id").to_owned();
    let copied = home.legwork(&["sessions", "fork", &original, "--name", "copy", "--json"]).run();
    assert_eq!(copied.code, 0, "{copied}");
    running.signal(Signal::SIGINT);
    running.wait();
    let of_copy = |field: &str| -> Value {
        home.legwork(&["sessions", "show", "copy", "--json"]).run().json()[field].clone()
    };
    assert_eq!((of_copy("undelivered"), of_copy("delegations")), (json!(0), json!([])));
    // The copy was made before the answer, so its agent delegates anew.
    server.gate("held").open();
    let ended = run(&home, &["and now?", "--resume", "copy"]);
    assert_eq!(session(&ended), copied.json()["session_id"].as_str().expect("an id"));
    assert_eq!(of_copy("delegations").as_array().map(Vec::len), Some(1), "what it delegated itself");
    let waiting =
        home.legwork(&["sessions", "show", &original, "--json"]).run().json()["undelivered"].clone();
    assert_eq!(waiting, json!(1), "it waits for the one that asked");
    until("nothing of it is open any more", || home.ps().is_empty().then_some(()));
}

/// Answers what comes after the results, without repeating them.
fn heard_results(talk: &Conversation) -> Reply {
    if talk.last_text().starts_with('{') {
        say("thank you")
    } else {
        say(format!("I heard: {}", talk.last_text()))
    }
}

/// How often each unit of the only session was delivered, in the order in which they were made.
fn deliveries(home: &Home) -> Vec<usize> {
    let mut units: Vec<Value> =
        home.list().into_iter().map(|known| known["units"][0]["unit_id"].clone()).collect();
    units.reverse();
    let ledger = |unit: &Value| {
        let shown = home.legwork(&["show", unit.as_str().expect("an id"), "--json"]).run().json();
        shown["ledger"].as_array().expect("a ledger").clone()
    };
    let count = |unit: &Value| ledger(unit).iter().filter(|line| line["state"] == "delivered").count();
    units.iter().map(count).collect()
}

/// Kills the program, finishes the conversation by a second prompt, and sees that each result was told once.
#[track_caller]
fn assert_told_once(server: &ScriptedServer, home: &Home, running: Running, answers: &[&str]) {
    running.kill();
    server.gate("held").open();
    let ended = home.legwork(&["run", "and what now?", "--last"]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "I heard: and what now?\n"), "{ended}");
    let turns = ended.stderr.matches("◂ ").count();
    assert_eq!(turns, 1, "the one that was cut off; nothing comes in that was told already: {ended}");
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    let last = log.entries().last().expect("a request").body["messages"].to_string();
    for answer in answers {
        assert_eq!(last.matches(answer).count(), 1, "{answer}: {last}");
    }
    assert!(deliveries(home).iter().all(|times| *times == 1), "{:?}", deliveries(home));
}

/// Proves DUR-11, DUR-12, RECOV-9.
#[test]
fn inv_06_a_joined_result_whose_claim_died_with_the_process_is_told_once() {
    let scripts = Scripts::default()
        .agent("quick piece", Script::new().step(say("the quick answer")))
        .agent("slow piece", Script::new().step(gate("held").say("the slow answer")))
        .agent(
            "the prompt",
            Script::from_fn(|talk: &Conversation| match talk.step() {
                0 => calls(["quick", "slow"].map(|name| {
                    Call::new("delegate_task", json!({"goal": format!("this is the {name} piece of work")}))
                })),
                _ => heard_results(talk),
            }),
        )
        .alternation(Alternation::Strict);
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let running = home.legwork(&["run", "this is the prompt"]).start();
    server.gate("held").wait_reached();
    until("the first result to be claimed", || {
        let states: Vec<Value> =
            home.list().iter().map(|known| known["units"][0]["delivery"].clone()).collect();
        states.contains(&json!("claimed")).then_some(())
    });
    assert_told_once(&server, &home, running, &["the quick answer", "the slow answer"]);
}

#[test]
fn inv_06_results_of_a_group_that_was_stored_are_told_once_when_a_later_group_is_cut_off() {
    let scripts = Scripts::default()
        .agent("quick piece", Script::new().step(say("the quick answer")))
        .agent(
            "the prompt",
            Script::from_fn(|talk: &Conversation| match talk.step() {
                0 => calls([
                    Call::new("delegate_task", json!({"goal": "this is the quick piece of work"})),
                    Call::new("terminal", json!({"command": "sleep 997"})),
                ]),
                _ => heard_results(talk),
            }),
        )
        .alternation(Alternation::Strict);
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let running = home.legwork(&["run", "this is the prompt"]).start();
    home.wait_for_processes("sleep 997", 1);
    assert_told_once(&server, &home, running, &["the quick answer"]);
    home.assert_nothing_runs();
}
