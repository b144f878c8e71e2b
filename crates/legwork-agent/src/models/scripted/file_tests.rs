//! Scripts, right and wrong, as texts.

use super::*;

fn parse(text: &str) -> Result<Script, ScriptError> {
    Script::parse(text, Path::new("a.toml"))
}

fn check_wrong(text: &str, line_and_column: &str, says: &str) {
    let error = parse(text).expect_err("the script is wrong").to_string();
    assert!(error.starts_with(&format!("a.toml:{line_and_column}: ")), "{error}");
    assert!(error.contains(says), "{error}");
}

#[test]
fn the_marker_that_stands_first_wins_and_of_those_the_longest() {
    let agent =
        |marker: &str| format!("[[agent]]\nmarker = \"{marker}\"\n[[agent.step]]\nsay = \"{marker}\"\n");
    let text =
        format!("{}{}{}[[default.step]]\nsay = \"else\"", agent("task-1"), agent("task-12"), agent("b"));
    let script = parse(&text).expect("a script");
    let said = |goal: &str| script.steps(goal)[0].say.clone().expect("a text");
    assert_eq!(said("do task-12 and b"), "task-12");
    assert_eq!(said("do task-1 and b"), "task-1");
    assert_eq!(said("b before task-1"), "b");
    assert_eq!(said("something"), "else");
}

#[test]
fn all_that_a_step_can_hold() {
    let text = r#"
        [[default.step]]
        think = "hm"
        say = "ok"
        call = [{ tool = "a" }, { tool = "b", arguments = { n = 1, list = ["{goal}"] } }]
        delay_ms = 5
        usage = { input = 1, output = 2, cached = 1, reasoning = 1 }
    "#;
    let script = parse(text).expect("a script");
    let step = &script.steps("")[0];
    assert_eq!(step.calls.len(), 2);
    assert_eq!(step.calls[1].arguments["list"], serde_json::json!(["{goal}"]));
    assert_eq!(step.delay, Duration::from_millis(5));
    assert_eq!(step.usage, Some(Counts { input: 1, output: 2, cached: 1, reasoning: 1 }));
}

#[test]
fn every_mistake_is_told_with_its_line_and_column() {
    check_wrong("", "1:1", "the script is empty");
    check_wrong("[[agent]]\nmarker = \"x\n", "2:12", "string");
    check_wrong("[[default.step]]\nsey = \"x\"", "2:1", "sey");
    check_wrong("[[agent]]\nmarker = \" \"\n", "2:10", "the marker is empty");
    check_wrong("\n[[agent]]\nmarker = \"x\"\n", "2:1", "has no steps");
    check_wrong("[[default.step]]\ndelay_ms = 5\n", "1:1", "neither says nor calls");
    check_wrong("[[default.step]]\nsay = \"a {gaol}\"", "2:7", "{gaol}");
    check_wrong("[[default.step]]\ncall = [{ tool = \"\" }]", "2:9", "names no tool");
    check_wrong("[[default.step]]\ncall = [{ tool = \"a\", arguments = { p = [\"{x}\"] } }]", "2:9", "{x}");
    check_wrong("[[default.step]]\nsay = \"x\"\ndelay_ms = -1", "3:12", "-1");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Script::read(Path::new("/nowhere/a.toml")).expect_err("there is no such file");
    assert!(error.to_string().starts_with("cannot read the script /nowhere/a.toml: "), "{error}");
}
