//! Tests: what is shown of calls that run at once, and of subagents that end.

use super::*;

/// Two calls of one tool run at once and end in the other order.
#[test]
fn the_end_of_a_call_is_shown_with_its_own_arguments() {
    let mut stage = conversation(80, 24, Colours::Off);
    stage.says("look");
    let (tool, arguments) = ("read_file", ["first.rs", "second.rs"]);
    for path in arguments {
        let arguments = format!(r#"{{"path":"{path}"}}"#);
        stage.told(LineEvent::ToolStarted { call: path.to_owned(), tool: tool.to_owned(), arguments });
    }
    for path in ["second.rs", "first.rs"] {
        let (tool, result) = (tool.to_owned(), format!("this is {path}"));
        stage.told(LineEvent::ToolEnded {
            call: path.to_owned(),
            tool,
            result,
            is_error: false,
            took_ms: 10,
        });
    }
    let screen = stage.screen();
    assert!(
        screen.contains("read_file second.rs (0.0s) #3") && screen.contains("read_file first.rs (0.0s) #4"),
        "{screen}"
    );
    stage.types("/open 3");
    stage.press(Key::Enter);
    let screen = stage.screen();
    assert!(screen.contains("path: second.rs") && screen.contains("this is second.rs"), "{screen}");
}

/// A failure of a subagent that is alone has a warning and no line; of several, each has both.
/// Proves PROG-2, PROG-3, PROG-11, EVTC-6.
#[test]
fn subagents_are_headed_and_end_in_lines_and_failures_are_warned_of() {
    let mut stage = conversation(100, 24, Colours::Off);
    stage.settles_as(who(0, 1, "alone"), Outcome::Succeeded, None);
    stage.settles_as(
        Identity { delegation: DelegationId::from_bits(2), ..who(0, 1, "alone too") },
        Outcome::Lost,
        Some("it is gone"),
    );
    for (number, outcome) in [(0, Outcome::Succeeded), (1, Outcome::Lost)] {
        let child = Identity { delegation: DelegationId::from_bits(3), ..who(number, 2, "look") };
        stage.settles_as(child, outcome, None);
    }
    let below = Identity { parent: Some(ChildId::from_bits(0, 9)), ..who(0, 2, "far below") };
    stage.settles_as(below, Outcome::Succeeded, None);
    let screen = stage.screen();
    let lines: Vec<&str> = screen.lines().skip_while(|line| !line.contains("alone too")).take(4).collect();
    assert_eq!(
        lines,
        [
            "⚠ subagent failed: alone too (1m23s) — it is gone",
            "🔀 [set 3] 2 tasks",
            "✓ [set 3 · 1/2] look (1m23s)",
            "✗ [set 3 · 2/2] look (1m23s) — unknown",
        ]
    );
    assert!(!screen.contains("✓ alone") && !screen.contains("far below"), "{screen}");
}

/// Proves CTRL-2: what is not run here is shown with its process, and is not asked about.
#[test]
fn inv_34_leaving_does_not_ask_about_what_runs_elsewhere_and_says_where_it_is() {
    let mut stage = conversation(100, 30, Colours::Off);
    let mut all = children(3, 0);
    (all[0].runner, all[1].runner) = (Runner::Elsewhere { pid: 4711 }, Runner::Nobody);
    stage.view.set_children(seen(all.clone()));
    let screen = stage.screen();
    assert!(screen.contains("1 running · 1 in process 4711, 1 without a process"), "{screen}");
    stage.press(Key::EndOfInput);
    let screen = stage.screen();
    assert!(screen.contains("1 subagent is running: [w]ait"), "{screen}");
    stage.press(Key::Cancel);
    stage.view.set_children(seen(all[..1].to_vec()));
    stage
        .view
        .set_children(SessionView { children: Vec::new(), unreadable: Some("it is locked".to_owned()) });
    stage.view.list_agents();
    let screen = stage.screen();
    assert!(screen.contains("· in process 4711 ·") && screen.contains("it is locked"), "{screen}");
    assert_eq!(stage.press(Key::EndOfInput), Some(Intent::Leave(Leaving::Now)));
    let screen = stage.screen();
    assert!(screen.contains("not ended: 1 in process 4711; `legwork ps` shows them"), "{screen}");
}

#[test]
fn k39_a_list_that_was_made_before_an_end_brings_nobody_back() {
    let mut stage = conversation(80, 24, Colours::Off);
    stage.view.set_children(seen(children(1, 0)));
    stage.settles(0, Outcome::Succeeded, None);
    stage.view.set_children(seen(children(1, 0)));
    assert!(!stage.view.has_children());
    assert_eq!(stage.press(Key::EndOfInput), Some(Intent::Leave(Leaving::Now)));
}
