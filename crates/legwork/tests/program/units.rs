//! Calls whose parts come back by themselves (`delegation.independent_completions`), through the built program.

use std::io::{BufRead, BufReader};

use legwork_testkit::server::{
    Call, Conversation, Finish, Reply, Script, ScriptedServer, Scripts, calls, gate, say, unauthorized,
};
use serde_json::{Value, json};

use crate::harness::{Home, Order, Screen, until};

/// The first words of a subagent's task.
const TASK: &str = "work on the piece ";
const PIECES: [(&str, Option<&str>); 6] = [
    ("ash", Some("a")),
    ("oak", None),
    ("birch", Some("b")),
    ("elm", Some("a")),
    ("fir", None),
    ("yew", None),
];

/// The six pieces as the tasks of a call.
fn tasks() -> Value {
    let task =
        |(name, group): &(&str, Option<&str>)| json!({"goal": format!("{TASK}{name}"), "group": group});
    json!({"tasks": PIECES.iter().map(task).collect::<Vec<_>>()})
}

/// A conversation that sends the six out on any word of its person; each piece waits at its gate.
fn server() -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(|talk: &Conversation| {
        match (talk.first_user_text().strip_prefix(TASK), talk.last_text()) {
            (Some(name), _) => gate(name).say(format!("{name} is done")),
            (None, "send them out") => calls([Call::new("delegate_task", tasks())]),
            (None, last) => heard(last),
        }
    })))
}

/// The agent says which unit it heard of; before that it waits.
fn heard(last: &str) -> Reply {
    match last.split("unit deleg_").nth(1).and_then(|rest| rest.get(8..10)) {
        Some(unit) => say(format!("Unit {unit} came.")),
        None => say("They are on their way."),
    }
}

fn independent<'a>(home: &'a Home, arguments: &[&str]) -> Order<'a> {
    home.legwork(arguments).env("LEGWORK_DELEGATION_INDEPENDENT_COMPLETIONS", "true")
}

fn chat(home: &Home) -> Screen {
    let order = independent(home, &["chat"]).env("NO_COLOR", "1").env("TERM", "xterm-256color");
    let screen = order.at_terminal(120, 40);
    screen.wait_for("›");
    screen
}

/// The units that `ps --all` lists.
fn units(home: &Home) -> Vec<Value> {
    home.list()
        .iter()
        .flat_map(|delegation| delegation["units"].as_array().cloned().unwrap_or_default())
        .collect()
}

/// Proves DISP-16, DISP-17, DISP-18, DISP-19, DISP-26, OUT-4, EVT-4, EVT-10, CFG-9.
#[test]
fn disp_16_six_tasks_in_two_groups_and_alone_come_back_as_five_completions() {
    let server = server();
    let home = Home::with(&server);
    let mut screen = chat(&home);
    screen.press("send them out\r");
    screen.wait_for("They are on their way.");
    PIECES.iter().for_each(|(name, _)| server.gate(name).wait_reached());
    let groups: Vec<Value> = units(&home).iter().map(|unit| unit["group"].clone()).collect();
    assert_eq!(groups, [json!("a"), json!(null), json!("b"), json!(null), json!(null)]);

    server.gate("ash").open();
    until("ash to have ended", || units(&home)[0].to_string().contains("completed").then_some(()));
    assert_eq!(units(&home)[0]["delivery"], "held", "a unit waits for all its tasks");
    server.gate("elm").open();
    screen.wait_for("Unit -1 came.");
    for (name, unit) in [("yew", "-5"), ("birch", "-3"), ("oak", "-2"), ("fir", "-4")] {
        server.gate(name).open();
        screen.wait_for(&format!("Unit {unit} came."));
    }

    let log = server.log();
    let whole = log.entries().last().expect("requests").body.to_string();
    assert_eq!(whole.matches("unit deleg_").count(), 5);
    for (place, (name, _)) in PIECES.iter().enumerate() {
        assert_eq!(whole.matches(&format!("TASK {}/6:", place + 1)).count(), 1, "{name}");
        assert_eq!(whole.matches(&format!("{name} is done")).count(), 1, "{name}");
    }
    assert!(whole.contains("Its other units report in messages of their own"));
    assert!(log.violations().is_empty(), "{}", log.summary());
    assert!(units(&home).iter().all(|unit| unit["delivery"] == "delivered"));
    assert_eq!(screen.leave(), 0);
}

fn open_all(server: &ScriptedServer) {
    PIECES.iter().for_each(|(name, _)| server.gate(name).open());
}

/// Proves OUT-2, OUT-4.
#[test]
fn out_04_delegate_prints_each_unit_and_its_json_is_one_document() {
    let server = server();
    open_all(&server);
    let home = Home::with(&server);
    home.write("tasks.json", tasks().to_string());
    let ended = independent(&home, &["delegate", "tasks.json", "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let document = ended.json();
    let id = document["delegation_id"].as_str().expect("an id").to_owned();
    let summaries: Vec<Value> = ended.results().iter().map(|entry| entry["summary"].clone()).collect();
    assert_eq!(summaries, PIECES.map(|(name, _)| json!(format!("{name} is done"))));
    let shown: Vec<Value> = document["units"].as_array().expect("units").clone();
    let unit = |k: usize, group: Option<&str>, indexes: &[usize]| json!({"delegation_id": format!("{id}-{k}"), "group": group, "task_indexes": indexes});
    let expected = [
        unit(1, Some("a"), &[0, 3]),
        unit(2, None, &[1]),
        unit(3, Some("b"), &[2]),
        unit(4, None, &[4]),
        unit(5, None, &[5]),
    ];
    assert_eq!(shown, expected);

    let text = independent(&home, &["delegate", "tasks.json"]).run();
    let heads: Vec<&str> = text.stdout.lines().filter(|line| line.starts_with("deleg_")).collect();
    let (counts, units) = heads.split_last().expect("a line that counts");
    assert!(counts.contains("6 of 6 completed"), "{text}");
    let mut ends: Vec<&str> = units.iter().map(|head| &head["deleg_01234567".len()..]).collect();
    ends.sort_unstable();
    assert_eq!(ends, ["-1  group a", "-2", "-3  group b", "-4", "-5"], "{text}");

    let one = home.legwork(&["results", &format!("{id}-1"), "--json"]).run().json();
    assert_eq!((&one["group"], &one["delivery"], one.get("units")), (&json!("a"), &json!("delivered"), None));
    assert_eq!(one["results"].as_array().map(Vec::len), Some(2), "{one}");
}

/// Whether the unit with this number is stored as delivered.
fn is_delivered(home: &Home, number: usize) -> bool {
    units(home)[number - 1]["delivery"] == "delivered"
}

/// Proves DISP-18.
#[test]
fn disp_17_delegate_prints_each_unit_when_it_has_settled_and_the_others_go_on() {
    let server = server();
    let home = Home::with(&server);
    home.write("tasks.json", tasks().to_string());
    let running = independent(&home, &["delegate", "tasks.json"]).start();
    PIECES.iter().for_each(|(name, _)| server.gate(name).wait_reached());
    server.gate("yew").open();
    until("the unit on stdout", || running.stdout().contains("    yew is done").then_some(()));
    until("the unit to be delivered", || is_delivered(&home, 5).then_some(()));
    assert!(running.stdout().contains("✓ 6/6  work on the piece yew"), "{}", running.stdout());
    server.gate("ash").open();
    server.gate("birch").open();
    until("the next unit", || running.stdout().contains("    birch is done").then_some(()));
    assert!(!running.stdout().contains("ash is done"), "a unit waits for all its tasks");
    let held: Vec<bool> = (1..=5).map(|number| units(&home)[number - 1]["delivery"] == "held").collect();
    assert_eq!(held, [true, true, false, true, false]);
    open_all(&server);
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{ended}");
    for (place, (name, _)) in PIECES.iter().enumerate() {
        assert_eq!(ended.stdout.matches(&format!("{name} is done")).count(), 1, "{ended}");
        assert_eq!(ended.stdout.matches(&format!("✓ {}/6  ", place + 1)).count(), 1, "{ended}");
    }
    let last = ended.stdout.lines().last().unwrap_or_default();
    assert!(last.contains("6 of 6 completed in "), "{ended}");
    assert!((1..=5).all(|number| is_delivered(&home, number)));
}

/// What was printed counts as delivered, and what stdout did not take is parked.
#[test]
fn k01_units_that_a_reader_has_left_before_are_kept_and_the_one_that_it_read_is_delivered() {
    let server = server();
    let home = Home::with(&server);
    home.write("tasks.json", tasks().to_string());
    let (running, reader) = independent(&home, &["delegate", "tasks.json"]).start_with_stdout();
    server.gate("oak").open();
    let mut lines = BufReader::new(reader).lines().map(|line| line.expect("it can be read"));
    assert!(lines.any(|line| line.contains("oak is done")));
    until("the unit to be delivered", || is_delivered(&home, 2).then_some(()));
    drop(lines);
    open_all(&server);
    let ended = running.wait();
    assert_eq!(ended.code, 1, "{ended}");
    assert!(
        ended.stderr.contains("could not be written") && ended.stderr.contains("legwork results"),
        "{ended}"
    );
    let states: Vec<Value> = units(&home).iter().map(|unit| unit["delivery"].clone()).collect();
    assert_eq!(states, ["parked", "delivered", "parked", "parked", "parked"]);
    let again = home.legwork(&["results", &home.only_delegation()]).run();
    assert_eq!(again.code, 0, "{again}");
    assert!((1..=5).all(|number| is_delivered(&home, number)));
}

/// Proves DISP-17.
#[test]
fn a_unit_is_shown_and_given_up_by_its_own_id() {
    let server = server();
    open_all(&server);
    let home = Home::with(&server);
    home.write("tasks.json", tasks().to_string());
    let (running, reader) = independent(&home, &["delegate", "tasks.json"]).start_with_stdout();
    drop(reader);
    assert_eq!(running.wait().code, 1);
    let id = home.only_delegation();
    let second = format!("{id}-2");
    let gone = home.legwork(&["dismiss", "--json", &second]).run();
    assert_eq!((gone.code, &gone.json()["dismissed"]), (0, &json!([second])), "{gone}");
    let shown = home.legwork(&["show", &second, "--json"]).run().json();
    assert_eq!((&shown["kind"], &shown["delivery"]), (&json!("unit"), &json!("dismissed")), "{shown}");
    let deliveries: Vec<Value> = units(&home).iter().map(|unit| unit["delivery"].clone()).collect();
    assert_eq!(deliveries, ["parked", "dismissed", "parked", "parked", "parked"].map(Value::from));
    let rest = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!(rest.results().len(), 6, "{rest}");
    let deliveries: Vec<Value> = units(&home).iter().map(|unit| unit["delivery"].clone()).collect();
    assert_eq!(deliveries[0], "delivered", "{deliveries:?}");
}

/// Proves DISP-16.
#[test]
fn disp_16_a_group_in_a_file_has_no_effect_by_default_and_that_is_said() {
    let server = server();
    open_all(&server);
    let home = Home::with(&server);
    home.write("tasks.json", tasks().to_string());
    let ended = home.legwork(&["delegate", "tasks.json", "--json"]).run();
    assert_eq!((ended.code, ended.json().get("units")), (0, None), "{ended}");
    assert!(ended.stderr.contains("`group` has no effect"), "{ended}");
}

/// A conversation whose every word sends one piece out; each piece waits at its gate.
fn one_by_one() -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(|talk: &Conversation| {
        match (talk.first_user_text().strip_prefix(TASK), talk.last_text()) {
            (Some(name), _) => gate(name).say(format!("{name} is done")),
            (None, name @ ("ash" | "oak" | "elm")) => {
                let goal = format!("{TASK}{name}");
                calls([Call::new("delegate_task", json!({"tasks": [{"goal": goal}]}))])
            }
            (None, "two") => {
                let tasks = ["yew", "fir"].map(|name| json!({"goal": format!("{TASK}{name}")}));
                calls([Call::new("delegate_task", json!({"tasks": tasks}))])
            }
            (None, last) if last.contains("at_capacity") => say("It was done at once."),
            (None, last) if last.contains("dispatched") => say("It is on its way."),
            (None, _) => say("Noted."),
        }
    })))
}

fn crowded(home: &Home, slots: u64) -> Screen {
    let order = home.legwork(&["chat"]).env("LEGWORK_DELEGATION_AT_CAPACITY", "sync");
    let order =
        order.set("max_concurrent_children", slots).env("NO_COLOR", "1").env("TERM", "xterm-256color");
    let screen = order.at_terminal(120, 40);
    screen.wait_for("›");
    screen
}

/// Proves CAP-2, CAP-6, OUT-9, TASK-3.
#[test]
fn cap_06_with_the_only_slot_taken_a_call_is_carried_out_inline() {
    let server = one_by_one();
    let home = Home::with(&server);
    let mut screen = crowded(&home, 1);
    screen.press("ash\r");
    screen.wait_for("It is on its way.");
    server.gate("ash").wait_reached();
    screen.press("oak\r");
    server.gate("oak").wait_reached();
    server.gate("oak").open();
    screen.wait_for("It was done at once.");
    let log = server.log();
    let last = log.entries().last().expect("requests").body.to_string();
    for words in
        ["oak is done", "at_capacity", "delegation.max_concurrent_children", "already holds the outcome"]
    {
        assert!(last.contains(words), "{words} is missing in {last}");
    }
    server.gate("ash").open();
    screen.wait_for("Noted.");
    let deliveries: Vec<Value> = units(&home).iter().map(|unit| unit["delivery"].clone()).collect();
    assert_eq!(deliveries, ["delivered", "delivered"]);
    assert_eq!(screen.leave(), 0);
    home.assert_nothing_runs();
}

/// Proves DISP-7, DISP-24, CAP-6.
#[test]
fn disp_24_a_stop_of_the_turn_reaches_a_call_that_was_handed_back_to_it_and_no_other() {
    let server = one_by_one();
    let home = Home::with(&server);
    let mut screen = crowded(&home, 1);
    screen.press("ash\r");
    screen.wait_for("It is on its way.");
    screen.press("elm\r");
    server.gate("elm").wait_reached();
    screen.wait_for_turn("elm");
    screen.press("\u{3}");
    until("elm to be stopped", || {
        let list = home.list();
        let elm = list.iter().find(|delegation| delegation.to_string().contains("piece elm"))?;
        elm.to_string().contains("\"interrupted\"").then_some(())
    });
    let list = home.list();
    let ash =
        list.iter().find(|delegation| delegation.to_string().contains("piece ash")).expect("it is there");
    assert_eq!(ash["state"], "running", "what works in the background goes on");
    server.gate("ash").open();
    screen.wait_for("Noted.");
    screen.press("and now\r");
    let log = until("the next turn", || {
        let log = server.log();
        log.entries().iter().any(|entry| entry.body.to_string().contains("and now")).then_some(log)
    });
    let heard = log.entries().last().expect("requests").body.to_string();
    assert!(heard.contains("stopped because its parent was stopped"), "{heard}");
    assert_eq!(screen.leave(), 0);
}

/// Proves DISP-7: what had ended keeps its own entry, and the others name the stop.
#[test]
fn disp_07_of_a_call_that_is_stopped_in_its_turn_the_finished_tasks_keep_their_results() {
    let server = one_by_one();
    let home = Home::with(&server);
    let mut screen = crowded(&home, 2);
    for name in ["ash", "oak"] {
        screen.press(&format!("{name}\r"));
        server.gate(name).wait_reached();
        screen.wait_for("It is on its way.");
    }
    screen.press("two\r");
    ["yew", "fir"].iter().for_each(|name| server.gate(name).wait_reached());
    server.gate("yew").open();
    let two = || home.list().into_iter().find(|delegation| delegation.to_string().contains("piece yew"));
    until("yew to have ended", || two()?.to_string().contains("\"completed\"").then_some(()));
    screen.wait_for_turn("two");
    screen.press("\u{3}");
    until("fir to be stopped", || two()?.to_string().contains("\"interrupted\"").then_some(()));
    ["ash", "oak"].iter().for_each(|name| server.gate(name).open());
    screen.press("and now\r");
    let log = until("the next turn", || {
        let log = server.log();
        log.entries().iter().any(|entry| entry.body.to_string().contains("and now")).then_some(log)
    });
    let heard = log.entries().last().expect("requests").body.to_string();
    for words in ["yew is done", "stopped because its parent was stopped"] {
        assert!(heard.contains(words), "{words} is missing in {heard}");
    }
    assert_eq!(screen.leave(), 0);
}

#[test]
fn task_03_with_slots_for_calls_a_file_of_more_tasks_than_slots_is_refused() {
    let server = server();
    let home = Home::with(&server);
    home.write("tasks.json", tasks().to_string());
    let order =
        home.legwork(&["delegate", "tasks.json", "--json"]).env("LEGWORK_DELEGATION_AT_CAPACITY", "sync");
    let ended = order.set("max_concurrent_children", 5).run();
    ended.assert_refused(2, "input", &["6 tasks", "delegation.max_concurrent_children is 5", "fewer"]);
    assert!(server.log().entries().is_empty());
}

/// Proves EVT-16: one that a limit cut off has completed, and has its mark.
#[test]
fn evt_16_of_a_mixed_unit_each_end_is_counted_as_what_it_is() {
    let piece = |name: &str| json!({"goal": format!("{TASK}{name}")});
    let pieces = ["ash", "oak", "elm"].map(piece);
    let tasks = json!({"tasks": pieces});
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(
        move |talk: &Conversation| match (talk.first_user_text().strip_prefix(TASK), talk.last_text()) {
            (Some("ash"), _) => unauthorized(),
            (Some("elm"), _) => say("elm is half").finish(Finish::Length),
            (Some(name), _) => say(format!("{name} is done")),
            (None, "send them out") => calls([Call::new("delegate_task", tasks.clone())]),
            (None, last) if last.contains("TASK 3/3") => say("All came."),
            (None, _) => say("They are on their way."),
        },
    )));
    let home = Home::with(&server);
    let order = home.legwork(&["chat"]).env("NO_COLOR", "1").env("TERM", "xterm-256color");
    let mut screen = order.at_terminal(120, 40);
    screen.wait_for("›");
    screen.press("send them out\r");
    screen.wait_for("All came.");
    assert_eq!(screen.leave(), 0);
    let json = |arguments: &[&str]| home.legwork(&[&["sessions", "--json"], arguments].concat()).run().json();
    let id = json(&[])["sessions"][0]["session_id"].as_str().expect("an id").to_owned();
    let told = json(&["show", &id]);
    let rows = told["history"].as_array().expect("a list");
    let mut counts = rows.iter().filter(|row| row["author"] == "completion").map(|row| {
        let keys = ["task_count", "completed_count", "failed_count", "flawed_count"];
        keys.map(|key| row["metadata"][key].clone())
    });
    assert_eq!(counts.next_back(), Some([3, 2, 1, 1].map(Value::from)), "{told}");
}

/// Proves NOTE-1, NOTE-3, NOTE-5, DISP-14.
#[test]
fn note_05_a_failure_is_told_as_a_turn_of_its_own_and_the_whole_result_still_comes_once() {
    let server =
        ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(|talk: &Conversation| {
            match (talk.first_user_text().strip_prefix(TASK), talk.last_text()) {
                (Some("ash"), _) => unauthorized(),
                (Some(name), _) => gate(name).say(format!("{name} is done")),
                (None, "send them out") => calls([Call::new(
                    "delegate_task",
                    json!({"tasks": [{"goal": format!("{TASK}oak")}, {"goal": format!("{TASK}ash")}]}),
                )]),
                (None, last) if last.contains("failed early") => say("So ash has failed."),
                (None, last) if last.contains("The results of 2 subagents") => say("Now all are there."),
                (None, _) => say("They are on their way."),
            }
        })));
    let home = Home::with(&server);
    let screen = home.legwork(&["chat"]).env("NO_COLOR", "1").env("TERM", "xterm-256color");
    let mut screen = screen.at_terminal(120, 40);
    screen.wait_for("›");
    screen.press("send them out\r");
    screen.wait_for("So ash has failed.");
    screen.wait_for("Subagent 2/2: Failed early");
    let id = home.only_delegation();
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    let told = &shown["units"][0]["early_notices"];
    assert_eq!((&told[0]["delivery"], &shown["units"][0]["delivery"]), (&json!("delivered"), &json!("held")));
    server.gate("oak").open();
    screen.wait_for("Now all are there.");
    let log = server.log();
    let whole = log.entries().last().expect("requests").body.to_string();
    assert_eq!(whole.matches("[A subagent has failed early: ").count(), 1, "{whole}");
    assert_eq!(whole.matches("[The results of 2 subagents: ").count(), 1, "{whole}");
    assert_eq!(
        whole.matches("TASK 2/2: failed").count(),
        1,
        "the failure is in the whole result too: {whole}"
    );
    assert!(log.violations().is_empty(), "{}", log.summary());
    assert_eq!(screen.leave(), 0);
}
