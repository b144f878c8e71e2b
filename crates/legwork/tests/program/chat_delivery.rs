//! Completions on their way into a conversation, through the built program: while its person keeps talking, through kills, in
//! great number, and while the conversation is summarised.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use legwork_testkit::server::{
    Call, Conversation, Entry, Log, Reply, Script, ScriptedServer, Scripts, calls, gate, say,
};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::{Home, Screen, at, until};

const ENTER: &str = "\r";
const END_OF_INPUT: &str = "\u{4}";
/// How a completion of one task begins.
const COMPLETION: &str = "[The result of a subagent: delegation ";
/// The window of most models, and more bytes than a token ever has.
const WINDOW_TOKENS: usize = 128_000;
const BYTES_PER_TOKEN_MAX: usize = 5;

fn delegations(goals: &[String]) -> Reply {
    calls(goals.iter().map(|goal| Call::new("delegate_task", json!({"tasks": [{"goal": goal}]}))))
}

fn pieces(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("{TASK}{name}")).collect()
}

/// A chat at a terminal, ready for the first message.
fn chat(home: &Home, arguments: &[&str]) -> Screen {
    let screen =
        home.legwork(arguments).env("NO_COLOR", "1").env("TERM", "xterm-256color").at_terminal(100, 30);
    screen.wait_for("›");
    screen
}

/// Says something, and waits for a part of the answer.
fn ask(screen: &mut Screen, words: &str, answer: &str) {
    screen.press(words).press(ENTER);
    screen.wait_for(answer);
}

fn wait_for_delivery(home: &Home, goal: &str, delivery: &str) {
    until(&format!("{goal} to be {delivery}"), || {
        let list = home.list();
        let units =
            list.iter().flat_map(|delegation| delegation["units"].as_array().cloned().unwrap_or_default());
        let unit = units.into_iter().find(|unit| unit["children"].to_string().contains(goal))?;
        (unit["delivery"] == delivery).then_some(())
    });
}

/// Who asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// The agent of a conversation.
    Conversation,
    /// A subagent.
    Child,
    /// Whoever writes a summary: it is offered no tools.
    Summariser,
}

/// The first words of a subagent's task.
const TASK: &str = "work on the piece ";

fn asker(entry: &Entry) -> Asker {
    if entry.body["tools"].as_array().is_none_or(Vec::is_empty) {
        Asker::Summariser
    } else if first_user_text(entry).starts_with(TASK) {
        Asker::Child
    } else {
        Asker::Conversation
    }
}

fn first_user_text(entry: &Entry) -> &str {
    let messages = entry.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let first = messages.iter().find(|message| message["role"] == "user");
    let content = first.map(|message| &message["content"]);
    content.and_then(|content| content.as_str().or_else(|| content[0]["text"].as_str())).unwrap_or_default()
}

/// The requests of conversations, in the order in which they came.
fn heard(log: &Log) -> Vec<&Entry> {
    log.entries().iter().filter(|entry| asker(entry) == Asker::Conversation).collect()
}

/// The last message of a request.
fn last(entry: &Entry) -> String {
    let messages = entry.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    messages.last().map(ToString::to_string).unwrap_or_default()
}

/// A server on which conversations say what `main` says, and every subagent waits at the gate of its piece.
fn server(main: impl Fn(&str) -> Reply + Send + Sync + 'static) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(move |talk: &Conversation| {
        if talk.tools.is_empty() {
            return say("They spoke of many things.");
        }
        match talk.first_user_text().strip_prefix(TASK) {
            Some(name) => gate(name).say(format!("{name} is done")),
            None => main(talk.last_text()),
        }
    })))
}

/// Proves DISP-9, DISP-26, EVT-16.
#[test]
fn dlv_01_k13_results_come_one_by_one_as_turns_of_their_own_while_the_person_keeps_talking() {
    let names = ["alpha", "beta", "gamma"];
    let server = server(move |last| match last {
        "send them out" => delegations(&pieces(&names)),
        "hold on" => gate("turn").say("Done holding."),
        "how are you" => say("Fine, thank you."),
        _ => match names.into_iter().find(|name| last.contains(&format!("{name} is done"))) {
            Some(name) => say(format!("Noted {name}.")),
            None => say("They are on their way."),
        },
    });
    let home = Home::with(&server);
    let mut screen = chat(&home, &["chat"]);
    ask(&mut screen, "send them out", "They are on their way.");
    for name in names {
        server.gate(name).wait_reached();
    }
    ask(&mut screen, "how are you", "Fine, thank you.");
    server.gate("beta").open();
    screen.wait_for("Noted beta.");
    screen.press("hold on").press(ENTER);
    server.gate("turn").wait_reached();
    for name in ["gamma", "alpha"] {
        server.gate(name).open();
        wait_for_delivery(&home, &format!("piece {name}"), "ready");
    }
    server.gate("turn").open();
    screen.wait_for("Noted alpha.");
    let log = server.log();
    let completions = heard(&log).into_iter().map(last).filter(|last| last.contains(COMPLETION));
    let name = |last: String| names.into_iter().find(|name| last.contains(&format!("{name} is done")));
    assert_eq!(completions.map(name).collect::<Vec<_>>(), [Some("beta"), Some("gamma"), Some("alpha")]);
    assert!(log.violations().is_empty(), "{}", log.summary());
    screen.press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0);
    home.assert_nothing_runs();
    check_rows(&home, &["beta", "gamma", "alpha"]);
}

/// Stored completions are told from what somebody said, with their titles and what was counted.
#[track_caller]
fn check_rows(home: &Home, names: &[&str]) {
    let json = |arguments: &[&str]| home.legwork(&[&["sessions", "--json"], arguments].concat()).run().json();
    let listed = json(&[]);
    let id = listed["sessions"][0]["session_id"].as_str().expect("an id");
    for verb in ["show", "export"] {
        let told = json(&[verb, id]);
        let history = told["history"].as_array().expect("a list");
        let rows: Vec<&Value> = history.iter().filter(|row| row["author"] == "completion").collect();
        assert_eq!(rows.len(), names.len(), "{told}");
        for (row, name) in rows.iter().zip(names) {
            assert_eq!(row["display_kind"], json!("async_delegation_complete"), "{row}");
            let metadata = &row["metadata"];
            let keys = ["task_count", "completed_count", "failed_count", "flawed_count"];
            assert_eq!(
                keys.map(|key| metadata[key].clone()),
                [1, 1, 0, 0].map(|count| json!(count)),
                "{row}"
            );
            let title = metadata["display_text"].as_str().expect("a title");
            assert!(title.starts_with("Subagent: Completed · ") && title.contains(name), "{row}");
            assert!(metadata["delegation_id"].as_str().is_some_and(|id| id.starts_with("deleg_")), "{row}");
            assert!(metadata["duration_seconds"].is_number(), "{row}");
        }
        assert!(history.iter().all(|row| row["author"] == "completion" || row.get("display_kind").is_none()));
    }
}

/// Where a result is when the process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// Its subagent works.
    Held,
    /// It waits for the end of a turn.
    Ready,
    /// Its turn is under way.
    InItsTurn,
    /// So many milliseconds after its subagent's model may answer.
    After(u64),
}

fn server_for_kills() -> ScriptedServer {
    server(|last| match last {
        last if last.contains(COMPLETION) => gate("noted").say("Noted."),
        "send them out" => delegations(&pieces(&["work"])),
        last if last.contains("hold on") => gate("turn").say("Done holding."),
        last if last.contains("what now") => say("Nothing more."),
        last if last.contains("for me") => say("I know of nothing."),
        _ => say("They are on their way."),
    })
}

/// Brings a chat to that point and kills it there.
fn kill(server: &ScriptedServer, home: &Home, when: When) {
    let mut screen = chat(home, &["chat"]);
    ask(&mut screen, "send them out", "They are on their way.");
    server.gate("work").wait_reached();
    match when {
        When::Held => {}
        When::Ready => {
            screen.press("hold on").press(ENTER);
            server.gate("turn").wait_reached();
            server.gate("work").open();
            wait_for_delivery(home, "piece work", "ready");
        }
        When::InItsTurn => {
            server.gate("work").open();
            server.gate("noted").wait_reached();
        }
        When::After(delay) => {
            server.gate("work").open();
            at(Instant::now() + Duration::from_millis(delay));
        }
    }
    screen.kill();
    for name in ["work", "turn", "noted"] {
        server.gate(name).open();
    }
}

/// Opens the session again and talks until everything has arrived; the result must be there exactly once.
fn resume(server: &ScriptedServer, home: &Home, when: When) {
    let mut screen = chat(home, &["chat", "--resume", &killed(home)]);
    wait_for_delivery(home, "piece work", "delivered");
    screen.wait_for("Noted.");
    ask(&mut screen, "what now", "Nothing more.");
    let log = server.log();
    let whole = heard(&log).last().map(|entry| entry.body.to_string()).unwrap_or_default();
    assert!(whole.contains("what now"), "{when:?}");
    assert_eq!(whole.matches(COMPLETION).count(), 1, "{when:?}: {whole}");
    assert_eq!(whole.matches("Noted.").count(), 1, "{when:?}: {whole}");
    assert!(log.violations().is_empty(), "{when:?}: {}", log.summary());
    screen.press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0, "{when:?}");
    home.assert_nothing_runs();
}

fn k02_at(moments: impl IntoIterator<Item = When>) {
    for when in moments {
        let server = server_for_kills();
        let home = Home::with(&server);
        kill(&server, &home, when);
        let other = home.legwork(&["chat", "--session", "other"]).stdin("is there something for me?\n").run();
        assert_eq!(other.code, 0, "{when:?}: {other}");
        let log = server.log();
        let others: Vec<&Entry> =
            heard(&log).into_iter().filter(|entry| first_user_text(entry).contains("for me")).collect();
        assert_eq!(others.len(), 1, "{when:?}");
        assert!(!others[0].body.to_string().contains(COMPLETION), "{when:?}: {}", others[0].body);
        resume(&server, &home, when);
    }
}

/// The id of the session that was killed.
fn killed(home: &Home) -> String {
    let sessions = home.legwork(&["sessions", "--json"]).run().json();
    let mut sessions = sessions["sessions"].as_array().expect("sessions").iter();
    let killed = sessions.find(|one| one["name"] != "other").expect("it is stored");
    killed["session_id"].as_str().expect("an id").to_owned()
}

/// Proves EVT-4, DLV-5, ROUTE-2.
#[test]
fn k02_k07_a_result_comes_once_wherever_the_process_was_killed() {
    k02_at([When::Held, When::Ready, When::InItsTurn]);
}

#[test]
fn k06_a_result_comes_once_from_kills_at_any_moment_of_its_way() {
    k02_at([0, 2, 4, 6, 8, 11, 15, 20, 30, 50].map(When::After));
}

/// What is to be reported after a crash, and not gone on with, comes back with all that is known of it.
/// Proves RECOV-4.
#[test]
fn evt_07_what_is_left_of_a_lost_subagent_is_told_to_the_conversation_that_asked() {
    let server = server(|last| match last {
        "send them out" => delegations(&pieces(&["work"])),
        last if last.contains(COMPLETION) => say("Noted."),
        _ => say("They are on their way."),
    });
    let home = Home::with(&server);
    let git =
        "git init -q -b main . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first";
    let made = std::process::Command::new("sh").args(["-c", git]).current_dir(home.project()).status();
    assert!(made.expect("there is a shell").success());
    let order = home.legwork(&["chat"]).env("LEGWORK_DELEGATION_ON_CRASH", "report");
    let mut screen = order.env("NO_COLOR", "1").env("TERM", "xterm-256color").at_terminal(100, 30);
    screen.wait_for("›");
    ask(&mut screen, "send them out", "They are on their way.");
    server.gate("work").wait_reached();
    until("its progress to be stored", || {
        let running = home.ps();
        (running.first()?["units"][0]["children"][0]["phase"] == "model").then_some(())
    });
    screen.kill();
    let mut screen = chat(&home, &["chat", "--resume"]);
    screen.wait_for("Noted.");
    let log = server.log();
    let told = heard(&log).into_iter().map(last).find(|last| last.contains(COMPLETION)).expect("it came");
    for part in [
        "✗ TASK 1/1: unknown",
        "Last known, and no longer so: waiting for the model, model calls: 1, tool calls: 0, ",
        "The end of its transcript:",
        "the subagent began",
        "Live transcript: ",
        "Git in its folder, as it is now:",
        "| branch: main",
    ] {
        assert!(told.contains(part), "{part:?} is missing in {told}");
    }
    screen.press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0);
}

#[test]
fn k25_130_large_results_in_one_long_turn_all_arrive_and_no_request_exceeds_the_window() {
    const RESULTS: usize = 130;
    const A_REPLY: usize = 10;
    let sent = AtomicUsize::new(0);
    let large = "All work and no play. ".repeat(100 * 1024 / 22);
    let main = move |last: &str| {
        if last.contains(COMPLETION) || last.contains("what now") {
            return say("Noted.");
        }
        let first = sent.fetch_add(A_REPLY, Ordering::SeqCst);
        if first >= RESULTS {
            return gate("turn").say("All are on their way.");
        }
        let goals: Vec<String> = (first..first + A_REPLY).map(|number| format!("{TASK}{number}")).collect();
        delegations(&goals)
    };
    let script = Script::from_fn(move |talk: &Conversation| {
        if talk.tools.is_empty() {
            say("They spoke of many things.")
        } else if talk.first_user_text().starts_with(TASK) {
            say(large.clone())
        } else {
            main(talk.last_text())
        }
    });
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    let mut screen = chat(&home, &["chat"]);
    screen.press("send them out").press(ENTER);
    server.gate("turn").wait_reached();
    until("all results to be ready", || {
        let states = deliveries(&home);
        (states.len() == RESULTS && states.iter().all(|state| state == "ready")).then_some(())
    });
    server.gate("turn").open();
    until("all results to be delivered", || {
        deliveries(&home).iter().all(|state| state == "delivered").then_some(())
    });
    screen.press("what now").press(ENTER);
    until("the last message to be asked", || {
        let log = server.log();
        heard(&log).last().is_some_and(|entry| last(entry).contains("what now")).then_some(())
    });
    let log = server.log();
    for entry in log.entries() {
        assert!(
            entry.body_bytes <= WINDOW_TOKENS * BYTES_PER_TOKEN_MAX,
            "a request of {} bytes",
            entry.body_bytes
        );
    }
    let last = heard(&log).into_iter().map(last);
    let ids = last.filter_map(|last| Some(last.split_once(COMPLETION)?.1.split(']').next()?.to_owned()));
    let mut arrived: Vec<String> = ids.collect();
    assert_eq!(arrived.len(), RESULTS);
    arrived.sort();
    arrived.dedup();
    assert_eq!(arrived.len(), RESULTS, "each of them once");
    assert!(log.violations().is_empty(), "{}", log.summary());
}

/// The states of all deliveries. `ps` lists fewer.
fn deliveries(home: &Home) -> Vec<String> {
    let database = Connection::open(home.database()).expect("the database opens");
    let mut states = database.prepare("SELECT state FROM units").expect("it has units");
    let rows = states.query_map((), |row| row.get(0)).expect("they can be read");
    rows.collect::<Result<_, _>>().expect("they are text")
}

/// Proves ROUTE-6.
#[test]
fn k26_a_conversation_that_is_summarised_twice_still_gets_its_results_and_knows_their_ids() {
    let server = server(|last| match last {
        last if last.contains(COMPLETION) => say("Noted."),
        "send them out" => delegations(&pieces(&["work"])),
        last if last.contains("tell me more") => {
            say(format!("Here it is. {}", "More and more. ".repeat(1000)))
        }
        _ => say("It is on its way."),
    });
    let home = Home::with(&server);
    let order = home.legwork(&["chat"]).env("NO_COLOR", "1").env("LEGWORK_MODEL_WINDOW_TOKENS", "20000");
    let mut screen = order.env("TERM", "xterm-256color").at_terminal(100, 30);
    screen.wait_for("›");
    ask(&mut screen, "send them out", "It is on its way.");
    server.gate("work").wait_reached();
    let id = home.only_delegation();
    let count = |asked: Asker| {
        let log = server.log();
        log.entries().iter().filter(|entry| asker(entry) == asked && entry.ended.is_some()).count()
    };
    while count(Asker::Summariser) < 2 {
        let before = count(Asker::Conversation);
        assert!(before < 20, "the window must be full by now: {}", server.log().summary());
        screen.press("tell me more").press(ENTER);
        until("the answer", || (count(Asker::Conversation) > before).then_some(()));
    }
    server.gate("work").open();
    screen.wait_for("Noted.");
    let log = server.log();
    let last = heard(&log).last().map(|entry| entry.body.to_string()).unwrap_or_default();
    assert!(
        last.matches(id.as_str()).count() >= 2,
        "in the ledger of the summary and in the completion: {last}"
    );
    assert_eq!(last.matches(COMPLETION).count(), 1, "{last}");
    assert!(log.violations().is_empty(), "{}", log.summary());
}
