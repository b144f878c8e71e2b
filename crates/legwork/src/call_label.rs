//! What people read of a call that sends out subagents: a few words while it runs, and a line once its work goes on without it.
//!
//! It reads what a model wrote and what a tool answered, and trusts neither to have the right shape.

use std::borrow::Cow;

use legwork_agent::tools::DELEGATE_TASK;
use serde_json::Value;

use crate::wording;

/// Characters of the goal of a single task.
const GOAL_WIDTH: usize = 30;

/// The label of a running call that sends out subagents: how many tasks it has and where they are seen, such as
/// `3 tasks · /agents`, or the goal of a single one, cut (TOOL-22). `None` for every other call.
pub fn running(tool: &str, arguments: &str, monitor: &str) -> Option<String> {
    if tool != DELEGATE_TASK {
        return None;
    }
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    let goal = |task: &Value| Some(wording::one_line(task.get("goal")?.as_str()?, GOAL_WIDTH));
    match tasks(&arguments).as_deref() {
        Some([]) | None => goal(&arguments),
        Some([task]) => goal(task),
        Some(tasks) => Some(format!("{} tasks · {monitor}", tasks.len())),
    }
}

/// What is said when a call was answered with a handle: how many of its tasks run in the background, and that nobody
/// has to wait for them (TOOL-23). `None` when nothing of it does.
pub fn handed_off(tool: &str, result: &str) -> Option<String> {
    if tool != DELEGATE_TASK {
        return None;
    }
    let handle: Value = serde_json::from_str(result).ok()?;
    if handle["status"] != "dispatched" {
        return None;
    }
    let inline = handle["inline_results"].as_array().map_or(0, Vec::len);
    let count = usize::try_from(handle["count"].as_u64()?).ok()?.saturating_sub(inline);
    let run = match count {
        0 => return None,
        1 => "1 background task runs".to_owned(),
        count => format!("{count} background tasks run"),
    };
    Some(format!("{run}; the conversation goes on by itself when done"))
}

/// The list of tasks, also where a model wrote it as text.
fn tasks(arguments: &Value) -> Option<Cow<'_, [Value]>> {
    match arguments.get("tasks")? {
        Value::Array(tasks) => Some(Cow::Borrowed(tasks)),
        Value::String(text) => serde_json::from_str(text).ok().map(Cow::Owned),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_22_a_running_call_says_how_many_tasks_it_has_or_the_goal_of_a_single_one() {
        let long = "比較兩個版本的設定檔並列出差異".repeat(4);
        let cut = format!("{}…", long.chars().take(GOAL_WIDTH - 1).collect::<String>());
        let table = [
            (r#"{"tasks":[{"goal":"a"},{"goal":"b"},{"goal":"c"}]}"#.to_owned(), Some("3 tasks · /agents")),
            (r#"{"tasks":"[{\"goal\":\"a\"},{\"goal\":\"b\"}]"}"#.to_owned(), Some("2 tasks · /agents")),
            (
                r#"{"tasks":[{"goal":"thirty characters are just 30."}]}"#.to_owned(),
                Some("thirty characters are just 30."),
            ),
            (
                r#"{"goal":"one more than thirty characters","tasks":[]}"#.to_owned(),
                Some("one more than thirty characte…"),
            ),
            (format!(r#"{{"goal":"{long}"}}"#), Some(cut.as_str())),
            (r#"{"goal":"a\u001b[2J\nb"}"#.to_owned(), Some("a [2J b")),
            (r#"{"action":"list"}"#.to_owned(), None),
            ("not json".to_owned(), None),
        ];
        for (arguments, label) in table {
            assert_eq!(running(DELEGATE_TASK, &arguments, "/agents").as_deref(), label, "{arguments}");
        }
        assert_eq!(running("terminal", r#"{"goal":"a"}"#, "/agents"), None);
    }

    #[test]
    fn tool_23_a_handle_says_how_many_tasks_run_on_and_an_answer_with_results_says_nothing() {
        let one = "1 background task runs; the conversation goes on by itself when done";
        let two = "2 background tasks run; the conversation goes on by itself when done";
        let table = [
            (r#"{"status":"dispatched","count":1}"#, Some(one)),
            (r#"{"status":"dispatched","count":3,"inline_results":[{}]}"#, Some(two)),
            (r#"{"status":"dispatched","count":1,"inline_results":[{}]}"#, None),
            (r#"{"results":[{}],"count":1}"#, None),
            ("not json", None),
        ];
        for (result, line) in table {
            assert_eq!(handed_off(DELEGATE_TASK, result).as_deref(), line, "{result}");
        }
        assert_eq!(handed_off("terminal", table[0].0), None);
    }
}
