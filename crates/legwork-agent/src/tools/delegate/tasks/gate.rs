//! The quality gate for goals that a model wrote as a list (TASK-7…9): it catches lists that were sent before they were
//! filled in.

use super::TaskError;
use legwork_core::batch::Task;

/// Goals of fewer characters say nothing when there are several of them.
const GOAL_CHARS_MIN: usize = 10;

/// Refuses the first goal that is no goal.
pub(super) fn check(tasks: &[Task]) -> Result<(), TaskError> {
    for (index, task) in tasks.iter().enumerate() {
        if let Some(message) = problem(&task.goal, tasks.len()) {
            return Err(TaskError { index: Some(index), message });
        }
    }
    Ok(())
}

fn problem(goal: &str, tasks: usize) -> Option<String> {
    if is_placeholder(goal) {
        return Some(format!("the goal {goal:?} is a placeholder; write out what the subagent is to do"));
    }
    if let Some(marker) = template_marker(goal) {
        return Some(format!("the goal still holds the marker {marker}; put in what it stands for"));
    }
    let chars = goal.trim().chars().count();
    (tasks > 1 && chars < GOAL_CHARS_MIN).then(|| {
        format!("the goal {goal:?} is too short to act on; the subagent knows nothing but this text")
    })
}

fn is_placeholder(goal: &str) -> bool {
    let goal = goal.trim().to_lowercase();
    let number = goal.strip_prefix("task").map(|rest| rest.trim_start().trim_start_matches('#'));
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|char| char.is_ascii_digit());
    goal == "todo" || number.is_some_and(is_number)
}

/// The first `<…>` or `{…}` around two or more words. A `<` right behind a word is taken for a type such as
/// `Box<dyn Error>`.
fn template_marker(goal: &str) -> Option<&str> {
    for (open, close) in [('<', '>'), ('{', '}')] {
        for (start, _) in goal.match_indices(open) {
            let behind_word = goal[..start].chars().next_back().is_some_and(char::is_alphanumeric);
            let Some(length) = goal[start..].find(close) else { continue };
            let inner = &goal[start + 1..start + length];
            if is_several_words(inner) && !(open == '<' && behind_word) {
                return Some(&goal[start..=start + length]);
            }
        }
    }
    None
}

fn is_several_words(inner: &str) -> bool {
    let words: Vec<&str> = inner.split([' ', '_', '-']).collect();
    let is_word = |word: &&str| !word.is_empty() && word.chars().all(char::is_alphanumeric);
    words.len() > 1 && words.iter().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_07_and_08_what_was_not_filled_in_is_refused() {
        for goal in ["TODO", " todo ", "Task 1", "task 12", "task #3", "task3"] {
            assert!(is_placeholder(goal), "{goal}");
        }
        for goal in ["todo list of the team", "task", "task one", "tasks 1"] {
            assert!(!is_placeholder(goal), "{goal}");
        }
        for (goal, marker) in [
            ("read <file name> and sum it up", Some("<file name>")),
            ("read {file_name}", Some("{file_name}")),
            ("see <the-other-one>", Some("<the-other-one>")),
            ("read <file>", None),
            ("use {name}", None),
            ("return Box<dyn Error>", None),
            ("a < b and c > d", None),
            ("print {\"a b\": 1}", None),
            ("an open <marker name", None),
        ] {
            assert_eq!(template_marker(goal), marker, "{goal}");
        }
    }
}
