//! Placeholders and what stands for them, as data.

use super::*;
use legwork_core::message::ToolResult;

#[test]
fn a_path_is_found_in_a_goal() {
    let cases = [
        (
            "Use read_file to read the file crates/legwork-core/src/child.rs and say it.",
            Some("crates/legwork-core/src/child.rs"),
        ),
        ("Read `README.md`, then stop.", Some("README.md")),
        ("Read the file LICENSE-MIT and say in one sentence what it is about.", Some("LICENSE-MIT")),
        ("See e.g. https://example.com/a.html and notes.txt.", Some("notes.txt")),
        ("Look into (src/).", Some("src/")),
        ("Read the file", None),
        ("Say hello.", None),
        ("", None),
    ];
    for (goal, path) in cases {
        assert_eq!(path_in(goal), path, "{goal}");
    }
}

fn conversation(result: Option<&str>) -> Vec<Arc<Message>> {
    let mut messages =
        vec![Message::text(Author::System, "s"), Message::text(Author::User, "Read a.txt now.")];
    messages.extend(result.map(|content| {
        let result = ToolResult { call_id: "c".into(), content: content.into(), is_error: false };
        Message { author: Author::Tool, parts: vec![Part::Result(result)] }
    }));
    messages.into_iter().map(Arc::new).collect()
}

#[test]
fn placeholders_are_filled_and_other_braces_stay() {
    let messages = conversation(Some("first\nsecond"));
    let filling = Filling::of(&messages);
    let check = |text: &str, expected: &str| assert_eq!(filling.fill(text).as_deref(), Ok(expected));
    check("{goal}", "Read a.txt now.");
    check("in {goal_path}: {last_result_line_2}, not {last_result_line_9}.", "in a.txt: second, not .");
    check("{last_result}", "first\nsecond");
    check("fn main() {} {X} { goal } {{goal_path}} {", "fn main() {} {X} { goal } {a.txt} {");
}

#[test]
fn what_is_filled_in_is_not_filled_again() {
    let messages = conversation(Some("{goal}"));
    assert_eq!(Filling::of(&messages).fill("{last_result}").as_deref(), Ok("{goal}"));
}

#[test]
fn a_long_result_is_cut_between_characters() {
    let long = "ä".repeat(RESULT_MAX_CHARS + 1);
    let messages = conversation(Some(&long));
    let filled = Filling::of(&messages).fill("{last_result}").expect("a result");
    assert_eq!(filled, format!("{}…", "ä".repeat(RESULT_MAX_CHARS)));
}

#[test]
fn a_result_before_any_call_is_an_error_that_says_so() {
    let messages = conversation(None);
    let error = Filling::of(&messages).fill("{last_result_line_1}").expect_err("there is none");
    assert!(error.contains("no tool was called"), "{error}");
}

#[test]
fn texts_deep_in_arguments_are_filled() {
    let messages = conversation(None);
    let fields = serde_json::json!({"a": [{"b": "{goal_path}"}], "n": 1});
    let filled = Filling::of(&messages).fill_fields(fields.as_object().expect("an object")).expect("filled");
    assert_eq!(Value::Object(filled), serde_json::json!({"a": [{"b": "a.txt"}], "n": 1}));
}
