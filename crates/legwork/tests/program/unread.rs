//! What subagents of subagents have brought when those that asked for it end first: it is told once, with the results of
//! whoever asked, and nothing of it stays behind (CC#76681, CC#85534).

use legwork_testkit::server::{Conversation, Reply, Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::{Home, Order, Screen, until};

/// What the innermost subagent has said before it is cut off.
const HALF: &str = "half of the low work";
const TOP: &str = "the top work";
const LOW: &str = "the low work";
const ENTER: &str = "\r";

fn deep(order: Order<'_>) -> Order<'_> {
    order.set("max_spawn_depth", 2)
}

/// `top` sends out `low` and waits for it; `low` says something and stays at a gate. `main` is whoever talks with a person.
fn server(main: impl Fn(&Conversation) -> Option<Reply> + Send + Sync + 'static) -> ScriptedServer {
    let scripts = Scripts::default()
        .agent(
            LOW,
            Script::from_fn(|talk: &Conversation| match talk.step() {
                0 => say(HALF).call("terminal", json!({"command": "true"})),
                _ => gate("low").say("never said"),
            }),
        )
        .agent(
            TOP,
            Script::from_fn(|talk: &Conversation| match talk.step() {
                0 => call("delegate_task", json!({"goal": LOW})),
                _ => say(format!("top has read: {}", talk.last_text())),
            }),
        )
        .otherwise(Script::from_fn(move |talk: &Conversation| main(talk).unwrap_or_else(|| say("fine"))));
    ScriptedServer::start(scripts)
}

/// How often the conversation has been told it.
fn halves(talk: &Conversation) -> usize {
    talk.messages.iter().map(|message| message.text.matches(HALF).count()).sum()
}

/// A prompt whose agent sends out `top` and says what it read then.
fn of_a_prompt() -> ScriptedServer {
    server(|talk| match talk.step() {
        0 => Some(call("delegate_task", json!({"goal": TOP}))),
        _ => Some(say(format!("heard {}", halves(talk)))),
    })
}

/// The delegation of the task with this goal, as `ps --all` lists it.
fn delegation_of(home: &Home, goal: &str) -> Value {
    let list = home.list();
    let found = list.into_iter().find(|one| one["units"][0]["children"][0]["goal"] == goal);
    found.unwrap_or_else(|| panic!("nobody does {goal}"))
}

fn id_of(home: &Home, goal: &str) -> String {
    delegation_of(home, goal)["delegation_id"].as_str().expect("an id").to_owned()
}

fn session_of(home: &Home) -> String {
    delegation_of(home, TOP)["session_id"].as_str().expect("an id").to_owned()
}

fn shown(home: &Home, id: &str) -> Value {
    home.legwork(&["show", id, "--json"]).run().json()
}

/// Both have come to their end, the low one with the top one, each once.
#[track_caller]
fn assert_told_once(home: &Home) {
    let (top, low) = (shown(home, &id_of(home, TOP)), shown(home, &id_of(home, LOW)));
    for one in [&top, &low] {
        let ledger = one["ledger"].as_array().expect("a ledger");
        let delivered = ledger.iter().filter(|line| line["state"] == "delivered").count();
        assert_eq!(delivered, 1, "{one}");
        assert_eq!(one["units"][0]["delivery"], "delivered", "{one}");
    }
    let place = low["units"][0]["where"].as_str().expect("a sentence");
    let unit = top["units"][0]["unit_id"].as_str().expect("an id");
    assert!(place.contains(&format!("with the results of {unit}")), "{low}");
    home.assert_nothing_runs();
}

/// Nothing of the session is left that could keep it from being deleted.
#[track_caller]
fn assert_deletable(home: &Home, session: &str) {
    let doctor = home.legwork(&["doctor", "--offline"]).run();
    assert!(doctor.stdout.contains("0 undelivered"), "{doctor}");
    let deleted = home.legwork(&["sessions", "delete", session, "--yes"]).run();
    assert_eq!(deleted.code, 0, "{deleted}");
}

#[test]
fn k01_what_a_stopped_subagent_had_not_read_is_told_with_it_to_the_prompt_that_waits() {
    let server = of_a_prompt();
    let home = Home::with(&server);
    let running = deep(home.legwork(&["run", "send it out", "--json"])).start();
    server.gate("low").wait_reached();
    let top = id_of(&home, TOP);
    assert_eq!(home.legwork(&["stop", &top]).run().code, 0);
    let ended = running.wait();
    let document = ended.json();
    assert_eq!((ended.code, &document["answer"]), (1, &json!("heard 1")), "{ended}");
    let unread = &document["delegations"][0]["results"][0]["unread_results"];
    assert_eq!(unread.as_array().map(Vec::len), Some(1), "{ended}");
    assert_eq!((&unread[0]["status"], &unread[0]["goal"]), (&json!("interrupted"), &json!(LOW)), "{ended}");
    assert!(unread[0]["summary"].as_str().is_some_and(|text| text.contains(HALF)), "{ended}");
    assert_told_once(&home);
    assert_deletable(&home, &session_of(&home));
}

#[test]
fn k01_what_a_stopped_subagent_had_not_read_comes_with_it_into_a_conversation() {
    let server = server(|talk| match talk.last_text() {
        "send it out" => Some(call("delegate_task", json!({"goal": TOP}))),
        text if text.contains("[The result of a subagent") => {
            Some(say(format!("Noted {} of {}.", text.matches(HALF).count(), halves(talk))))
        }
        _ => Some(say("On its way.")),
    });
    let home = Home::with(&server);
    let mut screen = chat(&home, &["chat"]);
    screen.press("send it out").press(ENTER);
    screen.wait_for("On its way.");
    server.gate("low").wait_reached();
    let (top, session) = (id_of(&home, TOP), session_of(&home));
    assert_eq!(home.legwork(&["stop", &top]).run().code, 0);
    screen.wait_for("Noted 1 of 1.");
    assert_eq!(screen.leave(), 0);
    assert_told_once(&home);
    assert_deletable(&home, &session);
}

fn chat(home: &Home, arguments: &[&str]) -> Screen {
    let order = deep(home.legwork(arguments)).env("NO_COLOR", "1").env("TERM", "xterm-256color");
    let screen = order.at_terminal(100, 30);
    screen.wait_for("›");
    screen
}

#[test]
fn k12_ctrl_c_prints_what_a_subagent_had_not_read_of_its_own() {
    for json in [&["--json"][..], &[]] {
        let server = server(|_| None);
        let home = Home::with(&server);
        let running = deep(home.legwork(&[&["delegate", "--goal", TOP][..], json].concat())).start();
        server.gate("low").wait_reached();
        running.signal(Signal::SIGINT);
        let ended = running.wait();
        assert_eq!((ended.code, ended.stdout.matches(HALF).count()), (130, 1), "{ended}");
        assert_told_once(&home);
        let again = home.legwork(&["results", &id_of(&home, TOP)]).run();
        assert!(again.stdout.contains(HALF), "it is printed again and again: {again}");
    }
}

#[test]
fn k02_what_a_lost_subagent_had_not_read_is_told_with_it() {
    let server = of_a_prompt();
    let home = Home::with(&server);
    let running =
        deep(home.legwork(&["run", "send it out"])).env("LEGWORK_DELEGATION_ON_CRASH", "report").start();
    server.gate("low").wait_reached();
    running.kill();
    let ended = deep(home.legwork(&["run", "--last", "and?", "--json"])).run();
    assert!(ended.json()["answer"].as_str().is_some_and(|text| text.starts_with("heard ")), "{ended}");
    let top = home.legwork(&["results", &id_of(&home, TOP), "--json"]).run();
    assert_eq!(top.statuses(), ["unknown"], "{top}");
    assert_eq!(top.results()[0]["unread_results"][0]["goal"], json!(LOW), "{top}");
    assert_told_once(&home);
    assert_deletable(&home, &session_of(&home));
}

/// As `sessions delete` says it: opening the conversation takes in what a turn that was cut off had waited for.
#[test]
fn k01_what_a_stopped_prompt_had_waited_for_comes_with_the_next_message_of_a_conversation() {
    let server = server(|talk| match talk.last_text() {
        "send it out" => Some(call("delegate_task", json!({"goal": TOP}))),
        _ => Some(say(format!("It says {}.", halves(talk)))),
    });
    let home = Home::with(&server);
    let running = deep(home.legwork(&["run", "send it out"])).start();
    server.gate("low").wait_reached();
    running.signal(Signal::SIGINT);
    assert_eq!(running.wait().code, 130);
    let session = session_of(&home);
    let refused = home.legwork(&["sessions", "delete", &session, "--yes"]).run();
    assert!(refused.code == 1 && refused.stderr.contains("chat --resume"), "{refused}");
    let low = shown(&home, &id_of(&home, LOW));
    assert!(low["units"][0]["where"].as_str().is_some_and(|text| text.contains("told with")), "{low}");
    let mut screen = chat(&home, &["chat", "--resume", &session]);
    screen.press("what came of it?").press(ENTER);
    screen.wait_for("It says 1.");
    assert_eq!(screen.leave(), 0);
    assert_told_once(&home);
    assert_deletable(&home, &session);
}

/// Giving up what a subagent has brought gives up what it had not read.
#[test]
fn k05_what_is_below_is_given_up_with_what_is_above() {
    let server = of_a_prompt();
    let home = Home::with(&server);
    let running = deep(home.legwork(&["run", "send it out"])).start();
    server.gate("low").wait_reached();
    running.signal(Signal::SIGINT);
    assert_eq!(running.wait().code, 130);
    assert_eq!(home.legwork(&["dismiss", &id_of(&home, TOP)]).run().code, 0);
    let low = shown(&home, &id_of(&home, LOW));
    assert_eq!(low["units"][0]["delivery"], json!("dismissed"), "{low}");
    assert_deletable(&home, &session_of(&home));
}

/// Results of a time in which nobody told of them: the conversation takes them in by themselves.
#[test]
fn k01_what_was_left_behind_below_results_that_had_arrived_comes_into_the_conversation() {
    let server = of_a_prompt();
    let home = Home::with(&server);
    let running = deep(home.legwork(&["run", "send it out"])).start();
    server.gate("low").wait_reached();
    assert_eq!(home.legwork(&["stop", &id_of(&home, TOP)]).run().code, 0);
    running.wait();
    let (session, low) = (session_of(&home), id_of(&home, LOW));
    let database = Connection::open(home.database()).expect("it opens");
    let sql = "UPDATE units SET state = 'ready', due_to = ?1, due_no = 1 WHERE id = ?2";
    assert_eq!(database.execute(sql, (&session, &low)).expect("it is written"), 1);
    let waits = shown(&home, &low);
    assert!(
        waits["units"][0]["where"].as_str().is_some_and(|text| text.contains("chat --resume")),
        "{waits}"
    );
    let ended = deep(home.legwork(&["run", "--last", "and?"])).run();
    assert!(ended.stderr.contains("◂ "), "{ended}");
    until("it to have arrived", || (shown(&home, &low)["units"][0]["delivery"] == "delivered").then_some(()));
    assert_deletable(&home, &session);
}
