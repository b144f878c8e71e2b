//! What reaches a terminal: live lines and colours of ours, and never a control character that a child, a provider or a
//! tasks file wrote (K24).

use legwork_core::letters::reorders_or_hides;
use legwork_testkit::server::{ProviderError, Script, ScriptedServer, Scripts, call, gate, say, status_with};
use nix::sys::signal::Signal;

use crate::harness::{Ended, Home, Order, Running, tasks_toml, until};

/// Clears the screen, sets the title, rings, moves the cursor in one character, turns the direction, and hides.
const NASTY: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{7f}\u{202e}\u{200b}\u{e0041}";

#[track_caller]
fn assert_plain(ended: &Ended) {
    let is_nasty = |c: char| reorders_or_hides(c) || (c.is_control() && c != '\n' && c != '\t');
    let controls = |text: &str| text.chars().any(is_nasty);
    assert!(!controls(&ended.stdout) && !controls(&ended.stderr), "{:?}", ended);
}

#[test]
fn k24_no_control_character_of_a_child_is_printed_by_any_verb() {
    let error = ProviderError::new("bad", format!("no {NASTY} way"));
    let file = format!("word {NASTY}\n");
    let scripts = Scripts::default()
        .agent("nasty answer", Script::new().step(say(format!("an answer {NASTY} of sorts"))))
        .agent("nasty error", Script::new().step(status_with(400, error)))
        .agent(
            "nasty tool",
            Script::new()
                .step(call("terminal", serde_json::json!({"command": format!("printf '{NASTY}'")})))
                .step(call(format!("no{NASTY}tool"), serde_json::json!({"path": NASTY})))
                .step(say(format!("an answer {NASTY} of sorts"))),
        );
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    home.write("nasty.txt", file);
    let goals = ["nasty answer", "nasty error", "nasty tool"]
        .map(|goal| format!("{goal} \u{1b}[31m in a goal \u{7}"));
    home.write(
        "tasks.json",
        serde_json::json!({"tasks": goals.map(|goal| serde_json::json!({"goal": goal}))}).to_string(),
    );
    let ended = home.legwork(&["delegate", "tasks.json"]).run();
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stdout.contains("an answer [2J"), "the words are kept: {ended:?}");
    assert_plain(&ended);
    let id = home.only_delegation();
    let mut verbs = vec![vec!["ps", "--all"], vec!["results", &id], vec!["show", &id], vec!["tail", &id]];
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    let children: Vec<&str> = shown["children"]
        .as_array()
        .expect("children")
        .iter()
        .filter_map(|child| child["subagent_id"].as_str())
        .collect();
    verbs.extend(children.iter().map(|child| vec!["show", child]));
    for verb in verbs {
        let ended = home.legwork(&verb).run();
        assert!(!ended.stdout.is_empty(), "{ended:?}");
        assert_plain(&ended);
        let document = home.legwork(&[&verb[..], &["--json"]].concat()).run();
        assert_plain(&document);
        assert!(document.json().is_object(), "{document:?}");
    }
    let stored = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!(stored.results()[0]["summary"], format!("an answer {NASTY} of sorts"), "whole all the same");
    for prompt in ["nasty answer", "nasty error", "nasty tool"] {
        assert_plain(&home.legwork(&["run", prompt]).run());
    }
    assert_plain(&home.legwork(&["results", "deleg_\u{1b}[2J"]).run());
    home.write("tasks.toml", "[[tasks]]\ngoal = \"a\"\n\"\\u001b[2J\" = 1\n");
    assert_plain(&home.legwork(&["delegate", "tasks.toml"]).run());
}

/// Proves PROG-8, PROG-9.
#[test]
fn prog_04_a_terminal_shows_a_live_line_for_each_child() {
    let scripts = Scripts::default()
        .agent("quick", Script::new().step(say("quick is done")))
        .agent("held", Script::new().step(gate("held").say(format!("held {NASTY} is done"))));
    for no_color in [true, false] {
        let server = ScriptedServer::start(scripts.clone());
        let home = Home::with(&server);
        home.write("tasks.toml", tasks_toml(&["quick", "held"]));
        let order = home.legwork(&["delegate", "tasks.toml"]);
        let order = if no_color { order.env("NO_COLOR", "1") } else { order };
        let running = order.env("TERM", "xterm-256color").start_on_terminal(100, 30);
        server.gate("held").wait_reached();
        until("the line of the one that runs", || running.stderr().contains("held  ").then_some(()));
        until("what is left", || running.stderr().contains("🔀 set 1 · 1 task remaining").then_some(()));
        let live = running.stderr();
        assert!(live.contains("tok"), "{live:?}");
        assert_eq!(live.contains("\u{1b}[36m"), !no_color, "{live:?}");
        server.gate("held").open();
        let ended = running.wait();
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(
            ended.stderr.contains("✓ [set 1 · 1/2] quick") && ended.stderr.contains("✓ [set 1 · 2/2] held"),
            "{ended:?}"
        );
        assert!(!ended.stderr.contains("owned") && !ended.stdout.contains('\u{1b}'), "{ended:?}");
    }
}

#[test]
fn a_closed_terminal_releases_the_work() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(gate("held"))));
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "any"]).start_on_terminal(80, 24);
    server.gate("held").wait_reached();
    running.signal(Signal::SIGHUP);
    let ended = running.wait();
    assert_eq!(ended.code, 143, "{ended:?}");
    home.assert_nothing_runs();
}

#[test]
fn inv_17_a_command_can_neither_write_to_the_terminal_nor_change_its_modes() {
    let with = |order: Order<'_>| order.start_within_terminal();
    assert_ne!(terminal_of_a_program_whose_commands_have_none(with), "0");
    let without = |order: Order<'_>| order.in_a_session_of_its_own(&[]).start();
    assert_eq!(terminal_of_a_program_whose_commands_have_none(without), "0");
}

/// The controlling terminal of the program itself, as `/proc` numbers it.
#[track_caller]
fn terminal_of_a_program_whose_commands_have_none(start: impl FnOnce(Order<'_>) -> Running) -> String {
    let command = "(printf '%s%s' mark ed >/dev/tty) 2>/dev/null; echo $? >codes; \
                   stty -F /dev/tty -echo 2>/dev/null; echo $? >>codes; \
                   (read line </dev/tty) 2>/dev/null; echo $? >>codes";
    let tool = call("terminal", serde_json::json!({"command": command}));
    let script = Script::new().step(tool).step(gate("ran").say("it is done"));
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    let running = start(home.legwork(&["delegate", "--goal", "any"]).env("TERM", "xterm"));
    server.gate("ran").wait_reached();
    until("the head line on stderr", || running.stderr().contains("deleg_").then_some(()));
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", running.pid())).expect("it runs");
    let terminal =
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(4)).expect("a whole line").to_owned();
    assert_eq!(home.read("codes"), "1\n1\n1\n");
    server.gate("ran").open();
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(!ended.stderr.contains("marked"), "{ended:?}");
    terminal
}
