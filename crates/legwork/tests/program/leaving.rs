//! A chat at a terminal that is left while its subagents run: they go on in a worker, and their results wait for the conversation.

use std::fs;
use std::time::{Duration, Instant};

use legwork_testkit::server::{
    Call, Conversation, Entry, Script, ScriptedServer, Scripts, call, calls, gate, say,
};
use serde_json::{Value, json};

use crate::harness::{Home, Screen, at, until};

const ENTER: &str = "\r";
const END_OF_INPUT: &str = "\u{4}";
/// How a completion of one task begins.
const COMPLETION: &str = "[The result of a subagent: delegation ";
/// The first words of a subagent's task.
const TASK: &str = "work on the piece ";
/// Another model than the one that a chat begins with.
const OTHER: &str = "openai/other";
const PIECES: [&str; 2] = ["alpha", "beta"];

/// A conversation that sends out two subagents, each with a call of its own. Each of them does something that can be counted, and
/// then waits at the gate of its piece.
fn server() -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(|talk: &Conversation| {
        let last = talk.last_text();
        let to_a_piece = |name: &&str| talk.first_user_text().strip_prefix(TASK) == Some(*name);
        match PIECES.into_iter().find(to_a_piece) {
            Some(name) if talk.step() == 0 => {
                call("terminal", json!({"command": format!("echo {name} >> done.txt")}))
            }
            Some(name) => gate(name).say(format!("{name} is done")),
            None if last == "send them out" => {
                calls(PIECES.map(|name| Call::new("delegate_task", json!({"goal": format!("{TASK}{name}")}))))
            }
            None if last.starts_with("send out ") => {
                let name = last.trim_start_matches("send out ");
                call("delegate_task", json!({"goal": format!("{TASK}{name}")}))
            }
            None => match PIECES.into_iter().find(|name| last.contains(&format!("{name} is done"))) {
                Some(name) => say(format!("Noted {name}.")),
                None if last == "what now" => say("Nothing more."),
                None => say("They are on their way."),
            },
        }
    })))
}

fn chat(home: &Home, arguments: &[&str]) -> Screen {
    let screen =
        home.legwork(arguments).env("NO_COLOR", "1").env("TERM", "xterm-256color").at_terminal(120, 30);
    screen.wait_for("›");
    screen
}

/// A chat whose two subagents have done their first step and wait for their model.
fn with_two_at_work(home: &Home, server: &ScriptedServer) -> Screen {
    two_at_work(chat(home, &["chat"]), server)
}

fn two_at_work(mut screen: Screen, server: &ScriptedServer) -> Screen {
    screen.press("send them out").press(ENTER);
    screen.wait_for("They are on their way.");
    PIECES.iter().for_each(|name| server.gate(name).wait_waiting(1));
    screen.wait_for("2 running");
    screen.wait_for_rest();
    screen
}

/// Asks how the chat is to be left and answers that a worker goes on.
fn leave_to_a_worker(screen: &mut Screen) {
    screen.press(END_OF_INPUT);
    screen.wait_for("[l]eave them to a worker");
    screen.press("l");
}

fn session(home: &Home) -> String {
    let listed = home.legwork(&["sessions", "--json"]).run().json();
    listed["sessions"][0]["session_id"].as_str().expect("an id").to_owned()
}

fn deliveries(home: &Home) -> Vec<Value> {
    let units = home.list().into_iter().flat_map(|one| one["units"].as_array().cloned().unwrap_or_default());
    units.map(|unit| unit["delivery"].clone()).collect()
}

/// Opens the conversation again: both results come in as turns of their own, and nothing was done twice.
fn resume(home: &Home, server: &ScriptedServer, when: &str) {
    let mut screen = chat(home, &["chat", "--resume", &session(home)]);
    until(&format!("both results to arrive ({when})"), || {
        (deliveries(home) == ["delivered", "delivered"]).then_some(())
    });
    PIECES.iter().for_each(|name| drop(screen.wait_for(&format!("Noted {name}."))));
    screen.wait_for_rest();
    screen.press("what now").press(ENTER);
    screen.wait_for("Nothing more.");
    let log = server.log();
    let whole = log.entries().iter().rev().find(|entry| entry.body.to_string().contains("what now"));
    let whole = whole.map(|entry| entry.body.to_string()).unwrap_or_default();
    assert_eq!(whole.matches(COMPLETION).count(), 2, "{when}: {whole}");
    for name in PIECES {
        assert_eq!(whole.matches(&format!("Noted {name}.")).count(), 1, "{when}: {whole}");
        let of_it =
            log.entries().iter().filter(|entry| first_user_text(entry).contains(&format!("{TASK}{name}")));
        let firsts = of_it.filter(|entry| !entry.body.to_string().contains("done.txt")).count();
        assert_eq!(firsts, 1, "{when}: a stored reply is not asked for again");
    }
    let mut done: Vec<String> = home.read("done.txt").lines().map(str::to_owned).collect();
    done.sort();
    assert_eq!(done, PIECES, "{when}: a finished call is not made again");
    assert!(log.violations().is_empty(), "{when}: {}", log.summary());
    screen.press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0, "{when}");
}

fn first_user_text(entry: &Entry) -> String {
    let messages = entry.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let first = messages.iter().find(|message| message["role"] == "user");
    first.map(|first| first["content"].to_string()).unwrap_or_default()
}

fn open_all(server: &ScriptedServer) {
    PIECES.iter().for_each(|name| server.gate(name).open());
}

/// An upgrade puts another file in the place of the program, or takes it away.
#[test]
fn k33_a_chat_whose_program_was_replaced_is_left_to_a_worker_all_the_same() {
    for replaced in [true, false] {
        let server = server();
        let home = Home::with(&server);
        let order = home.legwork(&["chat"]).env("NO_COLOR", "1").env("TERM", "xterm-256color");
        let screen = order.after("cp \"$0\" installed && exec ./installed \"$@\"").at_terminal(120, 30);
        screen.wait_for("›");
        let mut screen = two_at_work(screen, &server);
        let program = home.project().join("installed");
        if replaced {
            home.write("new", "not a program");
            fs::rename(home.project().join("new"), &program).expect("it is replaced");
        } else {
            fs::remove_file(&program).expect("it is removed");
        }
        leave_to_a_worker(&mut screen);
        assert_eq!(screen.wait_for_end(), 0);
        open_all(&server);
        resume(&home, &server, "replaced");
        home.wait_until_nothing_runs();
    }
}

#[test]
fn k33_subagents_that_are_left_to_a_worker_go_on_there_and_their_results_wait_for_the_conversation() {
    let server = server();
    let home = Home::with(&server);
    let mut screen = with_two_at_work(&home, &server);
    leave_to_a_worker(&mut screen);
    assert_eq!(screen.wait_for_end(), 0);
    assert!(screen.everything().contains("a worker goes on with the subagents"), "{}", screen.everything());
    let id = session(&home);
    let processes = home.processes();
    let [worker] = processes.as_slice() else { panic!("not one worker: {processes:?}") };
    assert!(worker.command.contains(&format!("worker --apart --only {id}")), "{worker:?}");
    PIECES.iter().for_each(|name| server.gate(name).wait_waiting(1));
    let shown = home.ps();
    assert!(
        shown.iter().all(|one| one["units"].to_string().contains(&format!("\"owner_pid\":{}", worker.pid))),
        "{shown:?}"
    );
    open_all(&server);
    home.wait_until_nothing_runs();
    assert_eq!(deliveries(&home), ["ready", "ready"], "they wait for the conversation and for nobody else");
    assert!(home.state().join(format!("log/worker-{id}.log")).is_file());
    resume(&home, &server, "left");
    home.assert_nothing_runs();
}

#[test]
fn k33_results_of_what_was_left_to_a_worker_come_with_the_next_prompt_too() {
    let server = server();
    let home = Home::with(&server);
    let mut screen = with_two_at_work(&home, &server);
    leave_to_a_worker(&mut screen);
    assert_eq!(screen.wait_for_end(), 0);
    open_all(&server);
    home.wait_until_nothing_runs();
    let ended = home.legwork(&["run", "what now", "--last"]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Nothing more.\n"), "{ended}");
    assert_eq!(ended.stderr.matches("◂ ").count(), 2, "{ended}");
    assert_eq!(deliveries(&home), ["delivered", "delivered"]);
}

/// A chat that was left to a worker, opened again while that is at work, and the worker's process id.
fn reopened_beside_its_worker(home: &Home, server: &ScriptedServer) -> (Screen, i32) {
    let mut screen = with_two_at_work(home, server);
    leave_to_a_worker(&mut screen);
    assert_eq!(screen.wait_for_end(), 0);
    let processes = home.processes();
    let [worker] = processes.as_slice() else { panic!("not one worker: {processes:?}") };
    let pid = worker.pid;
    until("the worker to have taken both over", || {
        let shown = home.ps();
        let of_worker = |one: &Value| one["units"].to_string().contains(&format!("\"owner_pid\":{pid}"));
        (shown.len() == 2 && shown.iter().all(of_worker)).then_some(())
    });
    PIECES.iter().for_each(|name| server.gate(name).wait_waiting(1));
    let screen = chat(home, &["chat", "--resume", &session(home)]);
    screen.wait_for(&format!("2 in process {pid}"));
    (screen, pid)
}

/// Waits until the row that counts names no other process any more.
fn wait_for_the_others(screen: &Screen) {
    let counts = |row: &String| row.contains("in process") && row.contains(" · ses_");
    screen.wait("nobody in other processes", |rows| !rows.iter().any(counts));
}

/// Proves CTRL-2, KILL-3: what a worker runs for a conversation is that conversation's own.
#[test]
fn inv_34_a_reopened_chat_lists_steers_and_stops_what_its_worker_runs() {
    let server = server();
    let home = Home::with(&server);
    let (mut screen, pid) = reopened_beside_its_worker(&home, &server);
    screen.press("/agents").press(ENTER);
    screen.wait_for(&format!("· in process {pid} ·"));
    let children: Vec<Value> = home.ps().iter().map(|one| one["units"][0]["children"][0].clone()).collect();
    let of = |name: &str| {
        let found = children.iter().find(|child| child["goal"] == json!(format!("{TASK}{name}")));
        found.and_then(|child| child["subagent_id"].as_str()).expect("it runs").to_owned()
    };
    screen.press(&format!("/steer {} look twice", of("alpha"))).press(ENTER);
    screen.wait_for(&format!("runs in process {pid} and reads it at its next step"));
    screen.press(&format!("/stop {}", of("beta"))).press(ENTER);
    screen.wait_for(&format!("1 subagent was told to stop: 1 in process {pid}"));
    // The worker reads what is asked of it in order, so it has read the message by then.
    until("one of them to end", || (home.ps().len() == 1).then_some(()));
    open_all(&server);
    screen.wait_for("Noted alpha.");
    until("both results to arrive", || (deliveries(&home) == ["delivered", "delivered"]).then_some(()));
    let log = server.log();
    let is_of = |entry: &&Entry, name: &str| first_user_text(entry).contains(&format!("{TASK}{name}"));
    let steered = log.entries().iter().filter(|entry| is_of(entry, "alpha"));
    assert!(steered.clone().any(|entry| entry.body.to_string().contains("look twice")), "{}", log.summary());
    wait_for_the_others(&screen);
    screen.wait_for_rest();
    screen.press("/stop beta").press(ENTER);
    screen.wait_for("there is no subagent beta; /agents lists them");
    screen.press("\u{15}").press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0);
    home.wait_until_nothing_runs();
    home.assert_nothing_runs();
}

/// Proves CTRL-2, KILL-3, DLV-16.
#[test]
fn inv_34_leaving_says_what_goes_on_elsewhere_and_a_stop_of_all_reaches_it() {
    let server = server();
    let home = Home::with(&server);
    let (mut screen, pid) = reopened_beside_its_worker(&home, &server);
    screen.press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0, "nobody is asked about what goes on all the same");
    let shown = screen.everything();
    assert!(
        shown.contains(&format!("not ended: 2 in process {pid}")) && !shown.contains("[s]top"),
        "{shown}"
    );
    assert_eq!(home.ps().len(), 2);
    let mut screen = chat(&home, &["chat", "--resume", &session(&home)]);
    screen.press("/stop all").press(ENTER);
    screen.wait_for(&format!("2 subagents were told to stop: 2 in process {pid}"));
    until("both to end", || home.ps().is_empty().then_some(()));
    wait_for_the_others(&screen);
    screen.wait_for_rest();
    screen.press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0);
    home.wait_until_nothing_runs();
    home.assert_nothing_runs();
}

/// What `delegate --session` begins for a conversation that is open is found when it is meant.
#[test]
fn inv_34_what_begins_elsewhere_meanwhile_is_found_by_its_id() {
    let server = server();
    let home = Home::with(&server);
    let mut screen = chat(&home, &["chat"]);
    screen.press("what now").press(ENTER);
    screen.wait_for("Nothing more.");
    screen.wait_for_rest();
    let goal = format!("{TASK}alpha");
    let order = ["delegate", "--session", &session(&home), "--detach", "--goal", &goal];
    assert_eq!(home.legwork(&order).run().code, 0);
    server.gate("alpha").wait_waiting(1);
    let child = home.only_child(0);
    screen.press(&format!("/stop {child}")).press(ENTER);
    screen.wait_for("1 subagent was told to stop: 1 in process ");
    until("it to end", || home.ps().is_empty().then_some(()));
    wait_for_the_others(&screen);
    screen.wait_for_rest();
    screen.press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0);
    home.wait_until_nothing_runs();
}

/// What becomes of a chat that is being left.
#[derive(Debug, Clone, Copy)]
enum End {
    /// It is killed so many milliseconds after the answer.
    Killed(u64),
    /// It ends, and the conversation is opened again before the worker can have begun.
    Overtaken,
}

fn k02_left(ends: impl IntoIterator<Item = End>) {
    for end in ends {
        let when = format!("{end:?}");
        let server = server();
        let home = Home::with(&server);
        let mut screen = with_two_at_work(&home, &server);
        leave_to_a_worker(&mut screen);
        match end {
            End::Killed(delay) => {
                at(Instant::now() + Duration::from_millis(delay));
                screen.kill();
                open_all(&server);
                home.wait_until_nothing_runs();
            }
            End::Overtaken => {
                assert_eq!(screen.wait_for_end(), 0, "{when}");
                open_all(&server);
            }
        }
        resume(&home, &server, &when);
        home.wait_until_nothing_runs();
    }
}

#[test]
fn k02_a_chat_that_is_killed_while_it_hands_over_loses_nothing() {
    k02_left([0, 3, 10, 20, 40, 80, 160, 400].map(End::Killed));
}

#[test]
fn k06_a_conversation_that_is_opened_before_the_worker_began_gets_each_result_once() {
    k02_left([End::Overtaken, End::Overtaken]);
}

#[test]
fn k33_a_chat_for_which_no_worker_can_be_started_goes_on() {
    let server = server();
    let home = Home::with(&server);
    let mut screen = with_two_at_work(&home, &server);
    let log = home.state().join("log");
    fs::remove_dir_all(&log).expect("the folder is there");
    fs::write(&log, "in the way").expect("it can be written");
    leave_to_a_worker(&mut screen);
    screen.wait_for("no worker could be started, so nothing was left");
    open_all(&server);
    PIECES.iter().for_each(|name| drop(screen.wait_for(&format!("Noted {name}."))));
    screen.wait_for_rest();
    screen.press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0);
    home.assert_nothing_runs();
}

/// Another model answers from the next turn on.
fn choose(screen: &mut Screen, model: &str) {
    screen.press(&format!("/model {model}")).press(ENTER);
    screen.wait_for(&format!("{model} answers"));
}

/// The model that a subagent's last request named.
fn asked_of(server: &ScriptedServer, name: &str) -> String {
    let log = server.log();
    let of_it = |entry: &&Entry| first_user_text(entry).contains(&format!("{TASK}{name}"));
    let last = log.entries().iter().rev().find(of_it).map(|entry| entry.body["model"].clone());
    last.unwrap_or_default().as_str().unwrap_or_default().to_owned()
}

#[test]
fn k33_a_worker_asks_the_model_that_was_chosen_last() {
    let server = server();
    let home = Home::with(&server);
    let mut screen = chat(&home, &["chat"]);
    choose(&mut screen, OTHER);
    screen.press("send them out").press(ENTER);
    screen.wait_for("They are on their way.");
    PIECES.iter().for_each(|name| server.gate(name).wait_waiting(1));
    screen.wait_for("2 running");
    screen.wait_for_rest();
    leave_to_a_worker(&mut screen);
    assert_eq!(screen.wait_for_end(), 0);
    let processes = home.processes();
    let [worker] = processes.as_slice() else { panic!("not one worker: {processes:?}") };
    assert!(worker.command.contains(&format!("--model {OTHER}")), "{worker:?}");
    PIECES.iter().for_each(|name| server.gate(name).wait_waiting(1));
    open_all(&server);
    home.wait_until_nothing_runs();
    assert_eq!(deliveries(&home), ["ready", "ready"], "it could go on with them");
    PIECES.iter().for_each(|name| assert_eq!(asked_of(&server, name), "other", "{name}"));
    resume(&home, &server, "another model");
}

#[test]
fn k33_subagents_that_ask_different_models_are_not_left_to_a_worker_that_asks_one() {
    let server = server();
    let home = Home::with(&server);
    let mut screen = chat(&home, &["chat"]);
    screen.press("send out alpha").press(ENTER);
    server.gate("alpha").wait_waiting(1);
    screen.wait_for("1 running");
    screen.wait_for_rest();
    choose(&mut screen, OTHER);
    screen.press("send out beta").press(ENTER);
    server.gate("beta").wait_waiting(1);
    screen.wait_for("2 running");
    screen.wait_for_rest();
    leave_to_a_worker(&mut screen);
    screen.wait_for("nothing was left: the subagents ask several models");
    server.gate("alpha").open();
    screen.wait_for("Noted alpha.");
    screen.wait_for_rest();
    leave_to_a_worker(&mut screen);
    assert_eq!(screen.wait_for_end(), 0);
    open_all(&server);
    home.wait_until_nothing_runs();
    assert_eq!(deliveries(&home).iter().filter(|delivery| *delivery == "ready").count(), 1);
}

/// The choice that was made after they were sent out is none of theirs.
#[test]
fn k33_a_worker_asks_the_model_that_its_subagents_ask_whatever_was_chosen_since() {
    for (chosen, model) in [(None, "test"), (Some(OTHER), "other")] {
        let server = server();
        let home = Home::with(&server);
        let mut screen = chat(&home, &["chat"]);
        if let Some(chosen) = chosen {
            choose(&mut screen, chosen);
        }
        let mut screen = two_at_work(screen, &server);
        choose(&mut screen, "openai/third");
        screen.wait_for_rest();
        leave_to_a_worker(&mut screen);
        assert_eq!(screen.wait_for_end(), 0, "{model}");
        PIECES.iter().for_each(|name| server.gate(name).wait_waiting(1));
        open_all(&server);
        home.wait_until_nothing_runs();
        assert_eq!(deliveries(&home), ["ready", "ready"], "{model}: it could go on with them");
        PIECES.iter().for_each(|name| assert_eq!(asked_of(&server, name), model, "{name}"));
    }
}

/// A prompt is asked although a subagent of its conversation cannot go on here, and the others go on. The command that
/// is named does what is said of it.
#[test]
fn k29_what_asks_another_model_holds_up_no_prompt_and_is_named_with_the_command_that_goes_on_with_it() {
    let server = server();
    let home = Home::with(&server);
    let mut screen = chat(&home, &["chat"]);
    screen.press("send out alpha").press(ENTER);
    server.gate("alpha").wait_waiting(1);
    screen.wait_for_rest();
    choose(&mut screen, OTHER);
    screen.press("send out beta").press(ENTER);
    server.gate("beta").wait_waiting(1);
    screen.wait_for_rest();
    screen.kill();
    open_all(&server);
    let first = home.legwork(&["run", "what now", "--last"]).run();
    assert_eq!((first.code, first.stdout.as_str()), (0, "Nothing more.\n"), "{first}");
    let mut told =
        first.stderr.lines().filter(|line| line.contains(" waits for somebody who can go on with it: "));
    let (Some(told), None) = (told.next(), told.next()) else { panic!("one line tells of it: {first}") };
    assert!(told.starts_with("note: sa-0-"), "{told}");
    let command = told.split('`').find(|part| part.contains("--wait --model")).expect("a command");
    let states = ["alpha", "beta"].map(|name| home.state_of(name).expect("it is listed"));
    assert_eq!(states, ["completed", "orphaned"], "what could go on did: {first}");
    let listed = home.legwork(&["ps"]).run();
    assert!(listed.stderr.contains(&format!("asks {OTHER}, which is not the model of this")), "{listed}");
    assert!(listed.stderr.contains(&format!("`{command}` goes on with it")), "{listed}");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let went_on = home.legwork(&words).run();
    assert_eq!(went_on.code, 0, "{went_on}");
    assert!(went_on.stdout.contains("beta is done"), "{went_on}");
    assert_eq!(asked_of(&server, "beta"), "other");
    let ended = home.legwork(&["run", "what now", "--last"]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Nothing more.\n"), "{ended}");
    assert_eq!(deliveries(&home), ["delivered", "delivered"]);
}
