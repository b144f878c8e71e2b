//! The terminal of `legwork chat`, key by key and screen by screen, through the built program.
//!
//! Screens are compared exactly with the files in `tests/screens`, with times, tokens and ids masked. With
//! `LEGWORK_SCREENS=write` in the environment they are written instead; whoever does that reads the difference.

use std::fs;
use std::path::Path;

use legwork_testkit::server::{Call, Conversation, Script, ScriptedServer, Scripts, call, calls, gate, say};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Home, Screen};

/// What the terminal sends for keys without a character.
const ENTER: &str = "\r";
const INTERRUPT: &str = "\u{3}";
const END_OF_INPUT: &str = "\u{4}";
const NEW_LINE: &str = "\n";
const LEFT: &str = "\u{1b}[D";
const UP: &str = "\u{1b}[A";

/// Sends out what `goals` say with its first answer, and then says what it hears.
fn sender(goals: Vec<String>) -> Script {
    let tasks: Vec<Value> = goals.iter().map(|goal| json!({"goal": goal})).collect();
    Script::from_fn(move |talk: &Conversation| match talk.step() {
        0 => call("delegate_task", json!({"tasks": tasks})),
        1 => say("They are **on their way**.\n\nAsk me anything meanwhile."),
        step => say(format!("Answer {step}.")),
    })
}

fn goals(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("piece {number}: read the sources and say what is missing")).collect()
}

/// A talk that has sent out so many subagents, all of which wait for their model at the gate `held`.
fn talk(home: &Home, server: &ScriptedServer, count: usize, (columns, rows): (u16, u16)) -> Screen {
    let order = home.legwork(&["chat", "--session", "release", "-q"]).set("max_concurrent_children", 40);
    let mut screen = order.env("NO_COLOR", "1").env("TERM", "xterm-256color").at_terminal(columns, rows);
    screen.wait_for("›");
    screen.press("send them out").press(ENTER);
    screen.wait_for("Ask me anything");
    if count > 0 {
        server.gate("held").wait_waiting(count);
        screen.wait_for(&format!("{count} running"));
        // The turn has ended, and the list is up to date: the first rows say what they wait for.
        screen.wait("the rows of the subagents", |rows| {
            rows.iter().any(|row| row.starts_with(&format!("{count} running")))
                && rows.iter().filter(|row| row.contains(" ● ")).all(|row| row.contains("model"))
        });
    } else {
        screen.wait_for_rest();
    }
    screen
}

fn server(count: usize) -> ScriptedServer {
    let script = if count == 0 {
        Script::from_fn(|_: &Conversation| say("They are **on their way**.\n\nAsk me anything meanwhile."))
    } else {
        sender(goals(count))
    };
    ScriptedServer::start(
        Scripts::default()
            .agent("send them out", script)
            .otherwise(Script::always(gate("held").say("it is done"))),
    )
}

/// The screen as text: without times, tokens and ids, and with the space that they leave.
fn masked(screen: &Screen) -> String {
    let mask = |row: &String| {
        let words: Vec<String> = row.split(' ').map(mask_word).collect();
        let mut text = words.join(" ");
        while text.contains("   ") {
            text = text.replace("   ", "  ");
        }
        text.replace(" # tok", " #").trim_end().to_owned()
    };
    let rows: Vec<String> = screen.rows().iter().map(mask).collect();
    let (row, column) = screen.cursor();
    format!("{}\n-- cursor: row {row}, column {column}\n", rows.join("\n").trim_end())
}

/// Whether a code that changes how text looks is among the bytes.
fn has_colours(bytes: &str) -> bool {
    let codes = bytes.split("\u{1b}[").skip(1);
    codes
        .filter_map(|code| code.find(|c: char| c.is_ascii_alphabetic()).map(|end| &code[end..=end]))
        .any(|end| end == "m")
}

/// Numbers that differ from run to run.
fn mask_word(word: &str) -> String {
    let core = word.trim_matches(|c: char| matches!(c, '(' | ')'));
    let is_time = core.ends_with('s') && core.starts_with(|c: char| c.is_ascii_digit());
    let is_count = core.starts_with(|c: char| c.is_ascii_digit()) && core.ends_with('k');
    if is_time || is_count { word.replace(core, "#") } else { word.to_owned() }
}

#[track_caller]
fn check(screen: &Screen, name: &str) {
    let now = masked(screen);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens").join(format!("{name}.txt"));
    if std::env::var_os("LEGWORK_SCREENS").is_some_and(|value| value == "write") {
        fs::write(&file, &now).expect("the screen can be written");
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(now == expected, "{} differs; now it is\n{now}", file.display());
}

#[test]
fn prog_12_screens_with_0_1_7_and_40_running_subagents() {
    for size in [(80, 24), (120, 40), (40, 20)] {
        for count in [0, 1, 7, 40] {
            let server = server(count);
            let home = Home::with(&server);
            let mut screen = talk(&home, &server, count, size);
            screen.press("half a line");
            screen.wait_for("› half a line");
            check(&screen, &format!("program_running_{count}_{}x{}", size.0, size.1));
            assert!(!has_colours(&screen.bytes()), "a terminal without colours gets none");
        }
    }
}

/// A call that is carried out while its conversation waits has a row as long as that lasts.
#[test]
fn tool_22_a_call_that_runs_is_labelled_with_its_tasks_and_where_they_are_seen() {
    let long = "比較兩個版本的設定檔並列出差異 and say which of them matter for the release";
    let main = Script::from_fn(move |talk: &Conversation| match talk.last_text() {
        "one" => calls(
            ["keep a slot", "keep the other slot"]
                .map(|goal| Call::new("delegate_task", json!({"goal": goal}))),
        ),
        "two" => call("delegate_task", json!({"tasks": [{"goal": "this piece"}, {"goal": "that piece"}]})),
        "three" => call("delegate_task", json!({"tasks": [{"goal": long}]})),
        _ => say("Heard."),
    });
    let child = Script::from_fn(|talk: &Conversation| match talk.first_user_text() {
        text if text.contains("slot") => gate("slot").say("kept"),
        text if text.contains("piece") => gate("pieces").say("done"),
        _ => gate("long").say("compared"),
    });
    let server = ScriptedServer::start(Scripts::default().agent("one", main).otherwise(child));
    let home = Home::with(&server);
    let order = home.legwork(&["chat"]).env("LEGWORK_DELEGATION_AT_CAPACITY", "sync");
    let mut screen = order.set("max_concurrent_children", 2).env("NO_COLOR", "1").at_terminal(100, 30);
    screen.wait_for("›");
    screen.press("one").press(ENTER);
    screen.wait_for("Heard.");
    server.gate("slot").wait_waiting(2);
    screen.press("two").press(ENTER);
    screen.wait("the label of several", |rows| {
        rows.iter().any(|row| row.starts_with("… delegate_task 2 tasks · /agents "))
    });
    server.gate("pieces").open();
    screen.wait_without("… delegate_task");
    screen.wait_for_rest();
    screen.press("three").press(ENTER);
    let cut: String = long.chars().take(29).collect();
    screen.wait("the label of one", |rows| {
        rows.iter().any(|row| {
            row.replace(' ', "").starts_with(&format!("…delegate_task{}…", cut.trim_end().replace(' ', "")))
        })
    });
    for name in ["long", "slot"] {
        server.gate(name).open();
    }
    screen.wait_without("… delegate_task");
    screen.wait_for_rest();
    screen.press(END_OF_INPUT).press("s");
    assert_eq!(screen.wait_for_end(), 0);
}

#[test]
fn tool_23_after_a_handle_one_faint_line_says_what_runs_on_and_that_nobody_has_to_wait() {
    let server = server(2);
    let home = Home::with(&server);
    let mut screen = home.legwork(&["chat"]).env("TERM", "xterm-256color").at_terminal(100, 30);
    screen.wait_for("›");
    screen.press("send them out").press(ENTER);
    let line = "· 2 background tasks run; the conversation goes on by itself when done";
    screen.wait_for(line);
    screen.wait_for("Ask me anything");
    assert_eq!(screen.everything().matches(line).count(), 1, "{}", screen.everything());
    assert!(screen.bytes().contains(&format!("\u{1b}[2m{line}")), "it is faint");
    server.gate("held").wait_waiting(2);
    server.gate("held").open();
    screen.wait_for("Answer 2.");
    screen.press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0);
    let mut lines = home.legwork(&["chat"]).env("TERM", "dumb").at_terminal(120, 30);
    lines.press("send them out\n");
    lines.wait_for(line);
    lines.wait_for("Answer 2.");
    lines.press(END_OF_INPUT);
    assert_eq!(lines.wait_for_end(), 0);
}

#[test]
fn prog_08_a_completion_disturbs_nothing_that_is_being_typed() {
    let pieces = Script::from_fn(|talk: &Conversation| {
        let number = (1..=3).find(|number| talk.first_user_text().contains(&format!("piece {number}")));
        gate("held").gate(format!("end {}", number.unwrap_or_default())).say("it is done")
    });
    let scripts = Scripts::default().agent("send them out", sender(goals(3))).otherwise(pieces);
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let mut screen = talk(&home, &server, 3, (80, 24));
    screen.press("tell me mre").press(LEFT).press(LEFT);
    screen.wait("the cursor", |rows| rows.iter().any(|row| row == "› tell me mre"));
    let before = |screen: &Screen| {
        let (row, column) = screen.cursor();
        (screen.rows()[row].clone(), column)
    };
    screen.wait("the moves", |_| before(&screen).1 == 11);
    let typed = before(&screen);
    server.gate("held").open();
    for number in 1..=3 {
        server.gate(&format!("end {number}")).open();
        screen.wait_for(&format!("✓ [set 1 · {number}/3]"));
        screen.wait("the cursor", |_| before(&screen) == typed);
    }
    screen.wait_for("Answer 2.");
    screen.wait_for_rest();
    screen.wait("the cursor", |_| before(&screen) == typed);
    screen.press("o");
    screen.wait_for("› tell me more");
    check(&screen, "program_completion_80x24");
    screen.press(ENTER);
    screen.wait_for("Answer 3.");
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    screen.press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0);
    home.assert_nothing_runs();
}

/// Proves KILL-6.
#[test]
fn k39_an_interrupt_stops_the_turn_and_no_subagent_then_clears_the_line_then_leaves() {
    let script = Script::from_fn(|talk: &Conversation| match talk.step() {
        0 => call(
            "delegate_task",
            json!({"tasks": [{"goal": "read the sources and say what is missing"}, {"goal": "run all tests and say what fails"}]}),
        ),
        1 => gate("turn").say("never said"),
        _ => say("here again"),
    });
    let scripts =
        Scripts::default().agent("send", script).otherwise(Script::always(gate("held").say("done")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let mut screen = home.legwork(&["chat"]).at_terminal(80, 24);
    screen.wait_for("›");
    screen.press("send").press(ENTER);
    server.gate("turn").wait_reached();
    screen.wait_for("2 running");
    server.gate("held").wait_waiting(2);
    screen.press("typed meanwhile");
    screen.wait_for("› typed meanwhile");
    screen.press(INTERRUPT);
    screen.wait_for("stopped");
    let rows = screen.wait_for("2 running");
    assert!(rows.iter().any(|row| row == "› typed meanwhile"), "{rows:?}");
    screen.press(INTERRUPT);
    screen.wait_without("typed meanwhile");
    screen.press(INTERRUPT);
    screen.wait_for("Ctrl-C again");
    screen.press(INTERRUPT);
    screen.wait_for("2 subagents are running");
    screen.press("x");
    screen.wait_without("[w]ait");
    assert_eq!(server.gate("held").waiting(), 2, "no subagent was stopped");
    screen.press(END_OF_INPUT);
    screen.wait_for("[s]top");
    screen.press("s");
    assert_eq!(screen.wait_for_end(), 0);
    let children: Vec<Value> = home.list()[0]["units"]
        .as_array()
        .expect("units")
        .iter()
        .flat_map(|unit| unit["children"].as_array().expect("children").clone())
        .collect();
    assert!(children.iter().all(|child| child["state"] == "interrupted"), "{children:?}");
    home.assert_nothing_runs();
}

#[test]
fn leaving_can_wait_for_all_results_and_their_answers() {
    let server = server(2);
    let home = Home::with(&server);
    let mut screen = talk(&home, &server, 2, (80, 24));
    screen.press(END_OF_INPUT);
    screen.wait_for("[w]ait");
    screen.press("w");
    screen.wait_for("leaving when all of them have ended");
    server.gate("held").open();
    assert_eq!(screen.wait_for_end(), 0);
    assert!(screen.everything().contains("Answer 2."), "{}", screen.everything());
    home.assert_nothing_runs();
}

#[test]
fn pasted_lines_stay_together_and_send_nothing() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(say("heard"))));
    let home = Home::with(&server);
    let mut screen = home.legwork(&["chat"]).at_terminal(80, 24);
    screen.wait_for("›");
    screen.press("\u{1b}[200~first\nsecond\r\n\u{1b}[201~");
    screen.press("third").press(NEW_LINE).press("fourth");
    screen.wait_for("  fourth");
    assert!(server.log().entries().is_empty(), "nothing was sent yet");
    screen.press(ENTER);
    screen.wait_for("heard");
    screen.wait_for_rest();
    let log = server.log();
    let said = &log.entries()[0].body["messages"][1]["content"];
    assert!(said.to_string().contains("first\\nsecond\\nthird\\nfourth"), "{said}");
    screen.press(UP);
    screen.wait_for("  fourth");
    screen.press(INTERRUPT).press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0);
    let history = fs::read_to_string(home.state().join("history")).expect("it is kept");
    assert_eq!(history, "\"first\\nsecond\\nthird\\nfourth\"\n");
}

#[test]
fn a_terminal_that_changes_its_size_loses_and_doubles_nothing() {
    let server = server(7);
    let home = Home::with(&server);
    let mut screen = talk(&home, &server, 7, (100, 30));
    screen.press("half a line");
    screen.wait_for("› half a line");
    for (columns, rows) in [(50, 30), (34, 30), (120, 40), (80, 24)] {
        screen.resize(columns, rows);
        // The row of the last subagent is about as wide as the terminal.
        let wide = usize::from(columns);
        screen.wait(&format!("the block at {columns} columns"), |rows| {
            // Behind the time there is room for tokens, of which there are none yet.
            let columns = |row: &String| row.chars().count();
            let fits = |row: &String| row.contains("@7 ●") && (wide - 12..=wide).contains(&columns(row));
            rows.iter().any(fits) && rows.iter().any(|row| row == "› half a line")
        });
        let all = screen.everything();
        for once in ["› send them out", "Ask me anything meanwhile.", "@1 ●", "@7 ●", "› half a line"]
        {
            assert_eq!(all.matches(once).count(), 1, "{once:?} at {columns} columns:\n{all}");
        }
    }
    screen.press(INTERRUPT).press(INTERRUPT).press(INTERRUPT);
    screen.wait_for("[s]top");
    screen.press("s");
    assert_eq!(screen.wait_for_end(), 0);
}

#[test]
fn a_signal_releases_the_work_and_puts_the_terminal_back() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let server = server(1);
        let home = Home::with(&server);
        let mut screen = talk(&home, &server, 1, (80, 24));
        screen.press("half a line");
        screen.wait_for("› half a line");
        screen.signal(signal);
        assert_eq!(screen.wait_for_end(), 143);
        home.assert_nothing_runs();
    }
}

#[test]
fn commands_reach_subagents() {
    let server =
        ScriptedServer::start(Scripts::default().agent("send them out", sender(goals(1))).otherwise(
            Script::from_fn(|talk: &Conversation| match talk.step() {
                0 => gate("held").call("list_files", json!({"path": "."})),
                _ => say(format!("heard: {}", talk.last_text())),
            }),
        ));
    let home = Home::with(&server);
    let mut screen = talk(&home, &server, 1, (100, 30));
    screen.press("/agents").press(ENTER);
    screen.wait_for(" · sa-0-");
    screen.press("/steer 1 only the tests, please").press(ENTER);
    screen.wait_for("reads it at its next step");
    screen.press("/agents 1").press(ENTER);
    screen.wait_for("read the sources and say what is missing");
    screen.press("/steerr").press(ENTER);
    screen.wait_for("did you mean /steer?");
    screen.press("\u{15}/sessions").press(ENTER);
    screen.wait_for("release");
    server.gate("held").open();
    screen.wait_for("Answer 2.");
    screen.press("/open 2").press(ENTER);
    screen.wait_for("only the tests, please");
    screen.press("/quit").press(ENTER);
    assert_eq!(screen.wait_for_end(), 0);
}

#[test]
fn k24_what_models_and_children_write_moves_no_cursor() {
    let nasty = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m";
    let script = Script::from_fn(move |talk: &Conversation| match talk.step() {
        0 => call("delegate_task", json!({"tasks": [{"goal": format!("goal {nasty} held")}]})),
        1 => call(format!("no{nasty}tool"), json!({"path": nasty})),
        2 => say(format!("an answer {nasty}\n```\n{nasty}\n```")),
        _ => say("Answered."),
    });
    let child = Script::always(gate("held").say(format!("done {nasty}")));
    let server = ScriptedServer::start(Scripts::default().agent("send", script).otherwise(child));
    let home = Home::with(&server);
    let mut screen = home.legwork(&["chat"]).at_terminal(80, 24);
    screen.wait_for("›");
    screen.press("send").press(ENTER);
    screen.wait_for("an answer [2J");
    server.gate("held").wait_waiting(1);
    screen.wait_for("1 running");
    server.gate("held").open();
    screen.wait_for("Answered.");
    screen.press("/open 3").press(ENTER);
    screen.wait_for("| done \u{fffd}[2J");
    screen.press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0);
    let bytes = screen.bytes();
    for code in ["\u{1b}[2J", "\u{1b}]0;", "\u{7}", "\u{9b}"] {
        assert!(!bytes.contains(code), "{code:?} reached the terminal");
    }
}

#[test]
fn what_is_said_during_a_turn_waits_for_its_end() {
    let script = Script::from_fn(|talk: &Conversation| match talk.step() {
        0 => gate("turn").say("The first answer."),
        _ => say(format!("To {:?}.", talk.last_text())),
    });
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    let mut screen = home.legwork(&["chat"]).at_terminal(80, 24);
    screen.wait_for("›");
    screen.press("one").press(ENTER);
    server.gate("turn").wait_reached();
    screen.press("two").press(ENTER).press("three").press(ENTER);
    screen.wait_for("› three (waits)");
    server.gate("turn").open();
    screen.wait_for("To \"three\".");
    screen.wait_without("(waits)");
    let all = screen.everything();
    let places: Vec<Option<usize>> =
        ["› one", "The first answer.", "› two", "To \"two\".", "› three", "To \"three\"."]
            .map(|text| all.find(text))
            .to_vec();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{all}");
    screen.press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0);
}

#[test]
fn another_model_answers_from_the_next_turn_on() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(say("heard"))));
    let home = Home::with(&server);
    let mut screen = home.legwork(&["chat"]).at_terminal(80, 24);
    screen.wait_for("›");
    screen.press("/model nonsense/x").press(ENTER);
    screen.wait_for("nonsense");
    screen.press("/model openai/other").press(ENTER);
    screen.wait_for("openai/other answers from the next turn on");
    screen.press("hello").press(ENTER);
    screen.wait_for("heard");
    assert_eq!(server.log().entries().last().expect("a request").body["model"], json!("other"));
    screen.press(END_OF_INPUT);
    assert_eq!(screen.wait_for_end(), 0);
}

/// Typed by a program (`tmux send-keys`, `expect`), or pasted where the terminal does not mark that: it comes at once, and is long.
#[test]
fn k38_what_comes_to_a_terminal_at_once_is_read_to_its_end() {
    for letters in [1000, 1023, 1024, 1500, 4000] {
        let answers = Script::from_fn(|_: &Conversation| say("I read it all"));
        let server = ScriptedServer::start(Scripts::default().otherwise(answers));
        let home = Home::with(&server);
        let mut screen = home.legwork(&["chat", "-q"]).env("TERM", "xterm-256color").at_terminal(80, 24);
        screen.wait_for("›");
        let message = "z".repeat(letters);
        screen.press(&format!("{message}{ENTER}"));
        screen.wait_for("I read it all");
        assert!(server.log().entries()[0].body.to_string().contains(&message), "{letters}");
        screen.kill();
    }
}
