//! `legwork chat` without a terminal, and which session it opens.

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say, unauthorized};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{Home, until};

/// Says what it was told last.
fn echo() -> Script {
    Script::from_fn(|talk: &Conversation| say(format!("you said {:?}", talk.last_text())))
}

#[test]
fn lines_of_stdin_are_messages_and_answers_come_on_stdout() {
    let server = ScriptedServer::start(Scripts::default().otherwise(echo()));
    let home = Home::with(&server);
    let ended = home.legwork(&["chat"]).stdin("first\n\nsecond\r\nthird").run();
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(ended.stdout, "you said \"first\"\nyou said \"second\"\nyou said \"third\"\n");
    assert!(!ended.stderr.contains('\u{1b}'), "{ended}");
}

#[test]
fn k04_what_is_delegated_by_lines_is_joined_before_the_end() {
    let main = Script::from_fn(|talk: &Conversation| match talk.step() {
        0 => call("delegate_task", json!({"tasks": [{"goal": "a piece"}]})),
        _ => say(format!("came back: {}", talk.last_text())),
    });
    let scripts =
        Scripts::default().agent("please", main).otherwise(Script::always(say("the piece is done")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let ended = home.legwork(&["chat"]).stdin("please\n").run();
    assert_eq!(ended.code, 0, "{ended}");
    assert!(ended.stdout.contains("the piece is done"), "{ended}");
    home.assert_nothing_runs();
}

#[test]
fn k01_results_that_wait_for_a_conversation_come_in_with_its_next_line_and_it_ends() {
    let scripts = Scripts::default()
        .agent("the piece", Script::always(say("the piece is done")))
        .otherwise(Script::always(say("heard")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let (session, _) = home.left_piece("this is the piece");
    // Without a line there is nothing that could bring them in, and nobody waits for that.
    let silent = home.legwork(&["chat", "--resume", &session]).run();
    assert_eq!((silent.code, silent.stdout.as_str()), (0, ""), "{silent}");
    let ended = home.legwork(&["chat", "--resume", &session]).stdin("and?\nthank you\n").run();
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(ended.stderr.matches("◆ Subagent: Completed · this is the piece").count(), 1, "{ended}");
    let log = server.log();
    let last = log.entries().last().expect("requests").body["messages"].to_string();
    assert_eq!(last.matches("the piece is done").count(), 1, "{last}");
    let (came, asked) = (last.find("the piece is done"), last.find("and?"));
    assert!(came < asked && asked < last.find("thank you"), "{last}");
    assert!(log.violations().is_empty(), "{}", log.summary());
    let shown = home.legwork(&["show", &home.only_delegation(), "--json"]).run().json();
    assert_eq!(shown["units"][0]["delivery"], json!("delivered"), "{shown}");
}

#[test]
fn k24_a_line_that_is_no_text_is_named_and_not_said() {
    let server = ScriptedServer::start(Scripts::default().otherwise(echo()));
    let home = Home::with(&server);
    let ended = home.legwork(&["chat"]).stdin(b"one\nqzq\xffc\nthree\n").run();
    assert_eq!(ended.code, 1, "{ended}");
    assert!(ended.stderr.contains("error: stdin: line 2 was left out: its byte 3 is not UTF-8"), "{ended}");
    let log = server.log();
    let last = log.entries().last().expect("two requests").body["messages"].to_string();
    assert!(last.contains("one") && last.contains("three") && !last.contains("qzq"), "{last}");
}

/// Nothing of it is stored, so nobody could go on with it.
#[test]
fn nobody_is_told_to_go_on_with_a_conversation_in_which_nothing_was_said() {
    let server = ScriptedServer::start(Scripts::default().otherwise(echo()));
    let home = Home::with(&server);
    let empty = home.legwork(&["chat"]).run();
    assert_eq!((empty.code, empty.stderr.as_str()), (0, ""), "{empty}");
    let said = home.legwork(&["chat"]).stdin("hello\n").run();
    let told = said.stderr.split('`').find(|part| part.starts_with("legwork chat --resume "));
    let words: Vec<&str> = told.expect("a command").split(' ').skip(1).collect();
    assert_eq!(home.legwork(&words).run().code, 0, "{said}");
}

#[test]
fn a_message_without_an_answer_is_told_in_the_exit_code() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(unauthorized())));
    let home = Home::with(&server);
    let ended = home.legwork(&["chat"]).stdin("hello\n").run();
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended}");
    assert!(ended.stderr.contains("401"), "{ended}");
}

#[test]
fn signals_end_a_talk_by_lines() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let server =
            ScriptedServer::start(Scripts::default().otherwise(Script::always(gate("held").say("late"))));
        let home = Home::with(&server);
        let running = home.legwork(&["chat"]).stdin("hello\n").start();
        server.gate("held").wait_reached();
        running.signal(signal);
        assert_eq!(running.wait().code, code);
        home.assert_nothing_runs();
    }
}

#[test]
fn a_named_session_goes_on_and_a_resumed_one_shows_what_was_said() {
    let server = ScriptedServer::start(Scripts::default().otherwise(echo()));
    let home = Home::with(&server);
    let say = |arguments: &[&str], line: &str| {
        let ended = home.legwork(arguments).stdin(format!("{line}\n")).run();
        assert_eq!(ended.code, 0, "{ended}");
        ended
    };
    say(&["chat", "--session", "release"], "one");
    say(&["chat", "--session", "other"], "two");
    say(&["chat", "--session", "release"], "three");
    let log = server.log();
    let last = log.entries().last().expect("three requests").body["messages"].to_string();
    assert!(last.contains("one") && last.contains("three") && !last.contains("two"), "{last}");
    let mut screen = home.legwork(&["chat", "--resume"]).at_terminal(80, 24);
    screen.wait_for("› three");
    screen.wait_for("you said \"one\"");
    screen.press("\u{4}");
    assert_eq!(screen.wait_for_end(), 0);
    let ended = home.legwork(&["chat", "--resume", "ses_none"]).stdin("x\n").run();
    assert_eq!(ended.code, 4, "{ended}");
}

#[test]
fn a_session_that_is_open_elsewhere_is_refused_with_the_process_that_has_it() {
    let server = ScriptedServer::start(Scripts::default().otherwise(echo()));
    let home = Home::with(&server);
    let mut screen = home.legwork(&["chat", "--session", "release"]).at_terminal(80, 24);
    screen.wait_for("›");
    screen.press("hello\r");
    screen.wait_for("you said");
    let ended = home.legwork(&["chat", "--session", "release"]).stdin("x\n").run();
    assert_eq!(ended.code, 3, "{ended}");
    assert!(ended.stderr.contains(&screen.pid().to_string()), "{ended}");
    screen.press("\u{4}");
    assert_eq!(screen.wait_for_end(), 0);
    assert_eq!(home.legwork(&["chat", "--session", "release"]).stdin("x\n").run().code, 0);
}

#[test]
fn a_terminal_that_can_only_print_gets_lines() {
    let server = ScriptedServer::start(Scripts::default().otherwise(echo()));
    let home = Home::with(&server);
    let mut screen = home.legwork(&["chat"]).env("TERM", "dumb").at_terminal(80, 24);
    screen.press("hello\n");
    screen.wait_for("you said \"hello\"");
    screen.press("\u{4}");
    assert_eq!(screen.wait_for_end(), 0);
    assert!(!screen.bytes().contains('\u{1b}'), "{:?}", screen.bytes());
}

#[test]
fn chat_has_no_json_form() {
    let home = Home::without_model();
    let ended = home.legwork(&["chat", "--json"]).run();
    ended.assert_refused(2, "usage", &["JSON", "run --json"]);
}

#[test]
fn a_killed_talk_goes_on_where_it_was_cut_off() {
    let script = Script::from_fn(|talk: &Conversation| match talk.step() {
        0 => gate("held").say("answered after all"),
        _ => say("more"),
    });
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    let running = home.legwork(&["chat", "--session", "release"]).stdin("hello\n").start();
    server.gate("held").wait_reached();
    running.kill();
    server.gate("held").open();
    let mut screen = home.legwork(&["chat", "--session", "release"]).at_terminal(80, 24);
    screen.wait_for("answered after all");
    screen.wait_for_rest();
    screen.press("\u{4}");
    assert_eq!(screen.wait_for_end(), 0);
}

#[test]
fn a_session_in_which_nobody_talks_is_not_gone_on_with() {
    let server = ScriptedServer::start(Scripts::default().otherwise(echo()));
    let home = Home::with(&server);
    assert_eq!(home.legwork(&["delegate", "--goal", "a piece"]).run().code, 0);
    let list = home.legwork(&["sessions", "--shell", "--json"]).run().json()["sessions"].clone();
    let shell = list[0]["session_id"].as_str().expect("the one of `delegate`").to_owned();
    for verb in [&["chat", "--resume", &shell][..], &["run", "any", "--resume", &shell]] {
        let ended = home.legwork(verb).stdin("x\n").run();
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{ended}");
        assert!(ended.stderr.contains("nobody talks in it"), "{ended}");
    }
    // The newest in which somebody talks is meant without an id.
    let none = home.legwork(&["chat", "--resume"]).stdin("x\n").run();
    assert_eq!(none.code, 4, "{none}");
}

#[test]
fn a_terminal_that_does_not_read_keeps_no_signal_from_ending_the_talk() {
    let long = "a row of an answer that nobody reads\n".repeat(5_000);
    let scripts = Scripts::default().otherwise(Script::from_fn(move |_: &Conversation| say(long.clone())));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let order = home.legwork(&["chat", "--session", "release"]).env("TERM", "xterm-256color");
    let (mut running, _unread) = order.start_at_deaf_terminal("hello\r");
    until("the answer to be stored", || {
        let shown = home.legwork(&["sessions", "show", "release", "--json"]).run();
        (shown.code == 0 && shown.json()["history"].to_string().contains("nobody reads")).then_some(())
    });
    assert!(!running.has_ended());
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.code, 143, "{ended}");
    let again = home.legwork(&["run", "any", "--resume", "release"]).run();
    assert_eq!(again.code, 0, "it is open nowhere any more: {again}");
}
