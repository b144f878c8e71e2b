//! Tasks files as text.

use std::fmt::Write as _;

/// A tasks file with one task for each goal.
pub fn tasks_toml(goals: &[impl AsRef<str>]) -> String {
    let mut text = String::new();
    for goal in goals {
        // A TOML string and a JSON string of plain words are written alike.
        writeln!(text, "[[tasks]]\ngoal = {:?}", goal.as_ref()).expect("writing to a string does not fail");
    }
    text
}
