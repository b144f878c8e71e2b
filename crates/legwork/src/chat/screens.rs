//! Tests: whole screens as text, compared exactly with the files in `tests/screens`. With `LEGWORK_SCREENS=write` in the
//! environment they are written instead; whoever does that reads the difference.

mod subagents;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use legwork_agent::session::{Cause, SessionEvent};
use legwork_core::child::ChildState;
use legwork_core::ids::{ChildId, DelegationId, SessionId, UnitId};
use legwork_core::outcome::{Ending, Outcome};
use legwork_core::ports::{ChildView, EndFacts, Identity, LiveEvent, Runner, SessionView};
use legwork_core::pulse::{LineEvent, Phase, Pulse};
use legwork_core::report::{Cost, Report, Usage};

use super::rows::{Colours, Row};
use super::typing::{Intent, Key, Leaving, Typing};
use super::view::{Size, View, Who};

const GOALS: [&str; 7] = [
    "find every caller of parse_header and say which of them ignore its error",
    "run the tests of the store and explain the failure",
    "read docs/design and list contradictions",
    "比較兩個版本的設定檔並列出差異 across all crates",
    "measure start-up time",
    "look for unbounded queues",
    "write the missing tests of the courier, then run them twice",
];

/// A view and everything that it gave to the scrollback.
struct Stage {
    view: View,
    above: Vec<Row>,
    colours: Colours,
    now: Duration,
}

impl Stage {
    fn new(columns: usize, rows: usize, colours: Colours) -> Stage {
        let who = Who { model: "openai/gpt-5.2".to_owned(), session: "parser".to_owned() };
        let mut view = View::new(colours, Size { columns, rows }, who, Typing::default());
        view.greet("0.1.0");
        Stage { view, above: Vec::new(), colours, now: Duration::from_secs(60) }
    }

    fn tell(&mut self, event: SessionEvent) {
        self.view.apply(event, self.now);
    }

    fn told(&mut self, event: LineEvent) {
        self.tell(SessionEvent::Told(event));
    }

    fn says(&mut self, text: &str) {
        self.view.said(text.to_owned());
        self.tell(SessionEvent::TurnBegan(Cause::User(text.to_owned())));
    }

    fn answers(&mut self, text: &str) {
        self.told(LineEvent::Text(text.to_owned()));
        let usage = Usage { input: 3200, output: 220, ..Usage::default() };
        self.told(LineEvent::Replied { usage, cost: Cost::MicroUsd(4100) });
    }

    fn ends(&mut self) {
        self.tell(SessionEvent::TurnEnded(Box::new(Report::bare(Ending::Answered))));
        self.tell(SessionEvent::Idle);
    }

    fn calls(&mut self, tool: &str, arguments: &str, result: Result<&str, &str>) {
        let call = "c1".to_owned();
        self.told(LineEvent::ToolStarted {
            call: call.clone(),
            tool: tool.to_owned(),
            arguments: arguments.to_owned(),
        });
        let (text, is_error) = match result {
            Ok(text) => (text, false),
            Err(text) => (text, true),
        };
        let result = text.to_owned();
        self.told(LineEvent::ToolEnded { call, tool: tool.to_owned(), result, is_error, took_ms: 1250 });
    }

    fn types(&mut self, text: &str) {
        for character in text.chars() {
            let key = if character == '\n' { Key::NewLine } else { Key::Text(character.to_string()) };
            assert_eq!(self.press(key), None);
        }
    }

    fn press(&mut self, key: Key) -> Option<Intent> {
        self.view.key(key)
    }

    /// One of three that were sent out together ends.
    fn settles(&mut self, number: usize, outcome: Outcome, error: Option<&str>) {
        let goal = GOALS[number].to_owned();
        self.settles_as(who(number, 3, &goal), outcome, error);
    }

    fn settles_as(&mut self, child: Identity, outcome: Outcome, error: Option<&str>) {
        let counted = self::child(child.task_index, child.task_count, ChildState::Settled(outcome));
        let facts = EndFacts {
            error: error.map(str::to_owned),
            usage: counted.pulse.usage,
            cost: counted.pulse.cost,
            ..EndFacts::default()
        };
        self.view.live(&LiveEvent::Settled {
            child: Arc::new(child),
            outcome,
            elapsed: Duration::from_millis(83_000),
            facts: Arc::new(facts),
            ends_unit: true,
        });
    }

    /// The screen as a terminal would show it, with the place of the cursor.
    fn screen(&mut self) -> String {
        self.above.extend(self.view.take_above());
        let block = self.view.draw(self.now);
        let size = self.view.size;
        let rows: Vec<String> =
            self.above.iter().chain(&block.rows).map(|row| row.painted(self.colours)).collect();
        for row in self.above.iter().chain(&block.rows) {
            assert!(row.columns() <= size.columns, "{:?} is too wide", row.text());
        }
        assert!(block.rows.len() < size.rows, "the block leaves no room");
        let shown = &rows[rows.len().saturating_sub(size.rows)..];
        let (row, column) = block.cursor;
        let row = shown.len() - block.rows.len() + row;
        let text: String = shown.iter().map(|row| format!("{}\n", row.trim_end())).collect();
        format!("{text}-- cursor: row {row}, column {column}\n")
    }

    fn check(&mut self, name: &str) {
        let screen = self.screen();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens").join(format!("{name}.txt"));
        if std::env::var_os("LEGWORK_SCREENS").is_some_and(|value| value == "write") {
            fs::write(&file, &screen).expect("the screen can be written");
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        assert!(screen == expected, "{} differs; now it is\n{screen}", file.display());
    }
}

/// Who one of several is that were sent out together.
fn who(number: usize, of: usize, goal: &str) -> Identity {
    let delegation = DelegationId::from_bits(1);
    Identity {
        unit: UnitId::whole(&delegation),
        delegation,
        session: SessionId::from_bits(1),
        parent: None,
        child: ChildId::from_bits(number, 0xa0),
        depth: 1,
        task_index: number,
        task_count: of,
        unit_count: of,
        goal: goal.to_owned(),
        model: "openai/gpt-5.2-mini".to_owned(),
        tools: Default::default(),
    }
}

pub(super) fn child(number: usize, of: usize, state: ChildState) -> ChildView {
    let phases = [
        Phase::Model,
        Phase::Tool("terminal".to_owned()),
        Phase::Starting,
        Phase::Tool("search_files".to_owned()),
    ];
    let running = matches!(state, ChildState::Running { .. });
    let tokens = u64::try_from(number).expect("it is small") * 1730;
    let pulse = Pulse {
        phase: phases[number % 4].clone(),
        usage: Usage { input: tokens, ..Usage::default() },
        cost: if number == 1 { Cost::MicroUsd(12_300) } else { Cost::Unknown },
        ..Pulse::default()
    };
    let seconds = 12 + 31 * u64::try_from(number).expect("it is small");
    ChildView {
        delegation: DelegationId::from_bits(1),
        session: SessionId::from_bits(1),
        parent: None,
        child: ChildId::from_bits(number, 0xa0),
        task_index: number,
        task_count: of,
        goal: GOALS[number % GOALS.len()].to_owned(),
        model: "openai/gpt-5.2-mini".to_owned(),
        transcript: None,
        state,
        runner: Runner::Here,
        pulse,
        elapsed: Duration::from_secs(if running { seconds } else { 0 }),
        quiet: Duration::from_secs(if number == 2 { 48 } else { 1 }),
    }
}

fn children(running: usize, queued: usize) -> Vec<ChildView> {
    let of = running + queued;
    let state = |number| {
        if number < running { ChildState::Running { attempt: 1 } } else { ChildState::NEW }
    };
    (0..of).map(|number| child(number, of, state(number))).collect()
}

fn seen(children: Vec<ChildView>) -> SessionView {
    SessionView { children, unreadable: None }
}

/// A conversation in which subagents were sent out.
fn conversation(columns: usize, rows: usize, colours: Colours) -> Stage {
    let mut stage = Stage::new(columns, rows, colours);
    stage.says("is the parser ready for the release?");
    stage.told(LineEvent::ModelCalled);
    stage.calls("read_file", r#"{"path":"crates/parser/src/lib.rs"}"#, Ok("mod header;"));
    stage.calls(
        "delegate_task",
        r#"{"tasks":[{"goal":"find callers"},{"goal":"run the tests"}]}"#,
        Ok("dispatched"),
    );
    stage.answers("I have sent subagents to look at **three things**:\n\n1. the callers of `parse_header`\n2. the tests\n3. the docs\n\nAsk me anything meanwhile.");
    stage.ends();
    stage
}

/// Proves REG-12.
#[test]
fn prog_12_screens_with_running_subagents() {
    for (columns, rows) in [(80, 24), (120, 40), (40, 20)] {
        for (running, queued) in [(0, 0), (1, 0), (7, 3), (40, 0)] {
            let mut stage = conversation(columns, rows, Colours::Off);
            stage.view.set_children(seen(children(running, queued)));
            stage.types("what about the lexer");
            stage.check(&format!("running_{running}_{columns}x{rows}"));
        }
    }
}

#[test]
fn a_terminal_without_colours_gets_no_codes_and_one_with_them_does() {
    for (colours, name) in [(Colours::Off, "colourless"), (Colours::On, "coloured")] {
        let mut stage = conversation(80, 24, colours);
        stage.view.set_children(seen(children(3, 0)));
        let screen = stage.screen();
        assert_eq!(screen.contains('\u{1b}'), colours == Colours::On, "{name}: {screen:?}");
        stage.check(&format!("{name}_80x24"));
    }
}

#[test]
fn prog_08_a_completion_leaves_the_typed_line_alone() {
    let mut stage = conversation(80, 24, Colours::Off);
    stage.view.set_children(seen(children(3, 0)));
    stage.types("how do I write a ");
    stage.press(Key::Left);
    let before = stage.view.draw(stage.now);
    stage.settles(1, Outcome::Succeeded, None);
    stage.settles(2, Outcome::Stopped(legwork_core::outcome::StopReason::Stalled), None);
    stage.view.set_children(seen(children(1, 0)));
    let delegation = DelegationId::from_bits(1);
    stage.tell(SessionEvent::TurnBegan(Cause::Completion {
        unit: UnitId::whole(&delegation),
        title: "3 tasks finished with issues: parser".to_owned(),
        text: "=== results ===\nall of it".to_owned(),
    }));
    stage.told(LineEvent::Thinking("hm".to_owned()));
    stage.now += Duration::from_secs(3);
    let after = stage.view.draw(stage.now);
    assert_eq!(before.rows.last(), after.rows.last());
    assert_eq!(before.cursor.1, after.cursor.1);
    stage.check("completion_80x24");
    stage.types("x");
    assert!(stage.screen().contains("› how do I write ax\n"), "typing goes on in its place");
}

#[test]
fn a_turn_that_works() {
    let mut stage = conversation(80, 24, Colours::Off);
    stage.says("fix it");
    stage.calls("terminal", r#"{"command":"cargo test -p parser"}"#, Err("exit code 101\nmore"));
    stage.told(LineEvent::ToolStarted {
        call: "c2".to_owned(),
        tool: "terminal".to_owned(),
        arguments: r#"{"command":"cargo build --workspace --all-targets --features everything,and,more"}"#
            .to_owned(),
    });
    stage.view.said("and then run clippy".to_owned());
    stage.now += Duration::from_secs(12);
    stage.check("working_80x24");
    stage.told(LineEvent::ToolEnded {
        call: "c2".to_owned(),
        tool: "terminal".to_owned(),
        result: "warning: unused\nFinished".to_owned(),
        is_error: false,
        took_ms: 12_000,
    });
    stage.told(LineEvent::Text("Done. The *header* ".to_owned()));
    stage.check("writing_80x24");
    for character in "/open 4".chars() {
        stage.press(Key::Text(character.to_string()));
    }
    assert_eq!(stage.press(Key::Enter), None);
    let screen = stage.screen();
    assert!(screen.contains("command: cargo build") && screen.contains("warning: unused"), "{screen}");
}

#[test]
fn long_input_scrolls_in_its_part_of_the_screen() {
    let mut stage = conversation(40, 20, Colours::Off);
    for number in 1..=30 {
        stage.types(&format!("line {number} of what is typed, and a little more\n"));
    }
    stage.types("the end");
    stage.check("long_input_40x20");
    for _ in 0..20 {
        stage.press(Key::Up);
    }
    stage.check("long_input_middle_40x20");
}

/// Proves DLV-16.
#[test]
fn leaving_asks_what_becomes_of_the_subagents() {
    let mut stage = conversation(80, 24, Colours::Off);
    stage.view.set_children(seen(children(3, 2)));
    assert_eq!(stage.press(Key::EndOfInput), None);
    stage.check("leaving_80x24");
    assert_eq!(stage.press(Key::Text("x".to_owned())), None);
    assert_eq!(stage.view.leaving(), None);
    stage.press(Key::EndOfInput);
    assert_eq!(stage.press(Key::Text("w".to_owned())), Some(Intent::Leave(Leaving::WhenDone)));
    assert_eq!(stage.press(Key::Text("y".to_owned())), None);
    assert_eq!(stage.view.leaving(), None, "typing goes on");
    assert!(stage.screen().contains("› y"));
    stage.press(Key::Backspace);
    stage.press(Key::EndOfInput);
    for number in 0..5 {
        stage.settles(number, Outcome::Succeeded, None);
    }
    let screen = stage.screen();
    assert!(!screen.contains("[w]ait") && screen.contains("all subagents have ended"), "{screen}");
    assert_eq!(stage.press(Key::EndOfInput), Some(Intent::Leave(Leaving::Now)));
}

#[test]
fn a_conversation_that_cannot_be_left_to_a_worker_goes_on() {
    let mut stage = conversation(80, 24, Colours::Off);
    stage.view.set_children(seen(children(1, 0)));
    stage.press(Key::EndOfInput);
    assert_eq!(stage.press(Key::Text("l".to_owned())), Some(Intent::Leave(Leaving::ToWorker)));
    assert_eq!(stage.press(Key::Text("x".to_owned())), None, "it is on its way");
    assert!(!stage.screen().contains("› x"));
    stage.view.stay("no worker could be started");
    assert_eq!(stage.view.leaving(), None);
    stage.types("y");
    let screen = stage.screen();
    assert!(screen.contains("✗ no worker could be started") && screen.contains("› y"), "{screen}");
}

#[test]
fn an_interrupt_stops_the_turn_then_clears_the_line_then_leaves() {
    let mut stage = conversation(80, 24, Colours::Off);
    stage.says("go");
    stage.types("typed");
    assert_eq!(stage.press(Key::Interrupt), Some(Intent::StopTurn));
    assert!(stage.screen().contains("stopping") && stage.screen().contains("› typed"));
    stage.tell(SessionEvent::TurnEnded(Box::new(Report::bare(Ending::Interrupted))));
    stage.tell(SessionEvent::Idle);
    assert_eq!(stage.press(Key::Interrupt), None);
    assert!(!stage.screen().contains("typed"));
    assert_eq!(stage.press(Key::Interrupt), None);
    assert!(stage.screen().contains("Ctrl-C again"));
    stage.types("a");
    assert!(!stage.screen().contains("Ctrl-C again"));
    stage.press(Key::Backspace);
    stage.press(Key::Interrupt);
    assert_eq!(stage.press(Key::Interrupt), Some(Intent::Leave(Leaving::Now)));
}

#[test]
fn commands_are_answered_and_wrong_ones_stay_to_be_changed() {
    let mut stage = conversation(80, 24, Colours::Off);
    stage.view.set_children(seen(children(2, 1)));
    let enter = |stage: &mut Stage, text: &str| {
        stage.types(text);
        stage.press(Key::Enter)
    };
    assert_eq!(enter(&mut stage, "/agents"), Some(Intent::Agents));
    stage.view.list_agents();
    stage.check("agents_80x24");
    let steered = Intent::Steer { child: ChildId::from_bits(1, 0xa0), text: "only src".to_owned() };
    assert_eq!(enter(&mut stage, "/steer 2 only src"), Some(steered));
    assert_eq!(enter(&mut stage, "/stop sa-2"), Some(Intent::Stop(ChildId::from_bits(2, 0xa0))));
    let Some(Intent::Seek(sought)) = enter(&mut stage, "/stop sa-9") else { panic!("nobody is sought") };
    assert_eq!(stage.view.sought(sought), None, "they are not there after another look either");
    let screen = stage.screen();
    assert!(screen.contains("there is no subagent sa-9") && screen.contains("› /stop sa-9"), "{screen}");
    stage.press(Key::KillToStart);
    assert_eq!(enter(&mut stage, "/help"), None);
    stage.check("help_80x24");
    assert_eq!(enter(&mut stage, "/frob"), None);
    assert!(stage.screen().contains("/frob is no command"));
}

#[test]
fn what_was_typed_is_found_again() {
    let mut stage = Stage::new(80, 24, Colours::Off);
    let say = |stage: &mut Stage, text: &str| {
        stage.types(text);
        assert_eq!(stage.press(Key::Enter), Some(Intent::Say(text.to_owned())));
    };
    say(&mut stage, "first thing");
    say(&mut stage, "second\nthing");
    stage.types("half");
    stage.press(Key::Up);
    assert!(stage.screen().contains("› second\n  thing"));
    for _ in 0..2 {
        stage.press(Key::Up);
    }
    assert!(stage.screen().contains("› first thing"));
    for _ in 0..3 {
        stage.press(Key::Down);
    }
    assert!(stage.screen().contains("› half"));
    stage.press(Key::Search);
    stage.types("thing");
    assert!(stage.screen().contains("search: thing  second thing"), "{}", stage.screen());
    stage.press(Key::Search);
    assert!(stage.screen().contains("search: thing  first thing"));
    stage.press(Key::Enter);
    assert!(stage.screen().contains("› first thing"));
    stage.press(Key::KillToStart);
    stage.press(Key::Paste("a\nb".to_owned()));
    stage.types("\\");
    stage.press(Key::Enter);
    stage.types("c");
    assert_eq!(stage.press(Key::Enter), Some(Intent::Say("a\nb\nc".to_owned())));
}

#[test]
fn k39_a_tree_shows_whose_subagent_each_is() {
    let mut stage = conversation(80, 24, Colours::Off);
    let mut all = children(3, 0);
    all[2].parent = Some(all[0].child.clone());
    all[0].state = ChildState::Parked { attempt: 1 };
    all[1].state = ChildState::Settled(Outcome::Succeeded);
    stage.view.set_children(seen(all));
    stage.types("/agents");
    stage.press(Key::Enter);
    stage.view.list_agents();
    stage.check("tree_80x24");
}

#[test]
fn k24_no_size_is_too_small() {
    for columns in [1, 2, 3, 10, 20] {
        for rows in [1, 2, 3, 8] {
            let mut stage = conversation(columns, rows.max(2), Colours::On);
            stage.view.set_children(seen(children(5, 5)));
            stage.types("漢字 typed");
            stage.press(Key::EndOfInput);
            stage.above.extend(stage.view.take_above());
            let block = stage.view.draw(stage.now);
            assert!(block.rows.len() <= rows.max(2), "{columns}x{rows}");
            assert!(block.rows.iter().all(|row| row.columns() <= columns.max(2)), "{columns}x{rows}");
        }
    }
}

#[test]
fn k24_text_of_a_model_a_tool_or_a_child_moves_no_cursor() {
    let nasty = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}";
    let mut stage = conversation(80, 24, Colours::Off);
    stage.says(nasty);
    stage.calls(nasty, nasty, Err(nasty));
    stage.answers(&format!("{nasty}\n```\n{nasty}\n"));
    stage.told(LineEvent::Note(nasty.to_owned()));
    let mut all = children(2, 0);
    all[0].goal = nasty.to_owned();
    all[1].pulse.phase = Phase::Tool(nasty.to_owned());
    stage.view.set_children(seen(all));
    stage.settles_as(who(0, 2, nasty), Outcome::Lost, Some(nasty));
    stage.view.listing(&[nasty.to_owned()]);
    stage.press(Key::Paste(nasty.to_owned()));
    let screen = stage.screen();
    assert!(screen.contains("[2J") && screen.chars().all(|c| c == '\n' || !c.is_control()), "{screen:?}");
    assert!(!screen.contains('\u{202e}'));
}
