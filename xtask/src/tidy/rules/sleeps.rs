//! No sleeping instead of waiting for what one waits for. A timer that enforces a deadline has a comment that begins with
//! `// Deadline:` and says why, on its line or right above.

use crate::tidy::finding::Finding;
use crate::tidy::rust_file::RustFile;
use crate::tidy::scan::{in_name, word_offsets};
use crate::tidy::tree::Tree;

const RULE: &str = "sleeps";
const CALLS: [&str; 2] = ["sleep", "sleep_until"];
const MARK: &str = "// Deadline:";

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().iter().flat_map(unexplained).collect()
}

fn unexplained(file: &RustFile) -> Vec<Finding> {
    let lines: Vec<&str> = file.text.lines().collect();
    let sleeping = file.code_lines().filter(|(_, code)| CALLS.iter().any(|name| calls(code, name)));
    let silent = sleeping.filter(|(line, _)| !is_explained(&lines, *line));
    let message = "wait for an event, a gate or paused time; if a timer is what is meant, say why in a comment \
                   `// Deadline: …` right above";
    silent.map(|(line, _)| Finding::at(RULE, file.place(line), message)).collect()
}

/// Whether the code calls a function `name`. A method is not meant: a port may well offer one.
fn calls(code: &str, name: &str) -> bool {
    word_offsets(code, name).any(|offset| {
        let before = code[..offset].trim_end();
        code[offset + name.len()..].starts_with('(') && !before.ends_with('.') && !defines(before)
    })
}

fn defines(before: &str) -> bool {
    before.strip_suffix("fn").is_some_and(|rest| !rest.ends_with(in_name))
}

/// Whether line `line`, or the comment right above it, begins a reason after the mark.
fn is_explained(lines: &[&str], line: usize) -> bool {
    let has_reason = |text: &str| text.split_once(MARK).is_some_and(|(_, reason)| !reason.trim().is_empty());
    let above = lines[..line - 1].iter().rev().map(|text| text.trim());
    let mut comment = above.take_while(|text| text.starts_with("//") || text.starts_with("#["));
    has_reason(lines[line - 1]) || comment.any(|text| text.starts_with(MARK) && has_reason(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    #[test]
    fn unexplained_sleeps_are_caught_in_code_and_tests() {
        catches(check, &[("a.rs", "fn a() {\n    std::thread::sleep(B);\n}")], "a.rs:2: sleeps");
        catches(check, &[("crates/x/tests/a.rs", "async fn a() { tokio::time::sleep(B).await; }")], "sleeps");
        catches(check, &[("a.rs", "use tokio::time::sleep;\nasync fn a() { sleep(B).await }")], "a.rs:2");
        catches(check, &[("a.rs", "fn a() {\n    // Deadline:\n    sleep_until(b);\n}")], "a.rs:3");
    }

    #[test]
    fn deadlines_with_a_reason_methods_and_prose_pass() {
        passes(
            check,
            &[(
                "a.rs",
                "// Deadline: a child gets its grace,\n// then it is cut.\nlet timer = sleep(grace);",
            )],
        );
        passes(check, &[("a.rs", "let timer = sleep(grace); // Deadline: the grace of a stop")]);
        passes(check, &[("a.rs", "fn sleep() {}\nclock.sleep(b);\n// sleep(c)\nlet d = \"sleep(999)\";")]);
    }
}
