//! No detached tasks outside tests: a task lives in the `JoinSet` of a service that awaits it.

use crate::tidy::finding::Finding;
use crate::tidy::rust_file::RustFile;
use crate::tidy::tree::Tree;

const RULE: &str = "detached-tasks";
const FORBIDDEN: [&str; 2] = ["tokio::spawn(", "task::spawn("];

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().iter().flat_map(detached).collect()
}

fn detached(file: &RustFile) -> Vec<Finding> {
    let spawns = file
        .code_lines()
        .filter(|(line, code)| FORBIDDEN.iter().any(|text| code.contains(text)) && !file.is_test_line(*line));
    let message =
        "a detached task is neither stopped nor heard when it fails: spawn it in a JoinSet that is awaited";
    spawns.map(|(line, _)| Finding::at(RULE, file.place(line), message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::samples::{catches, passes};

    #[test]
    fn a_detached_task_is_caught() {
        catches(check, &[("a.rs", "fn a() {\n    tokio::spawn(b());\n}")], "a.rs:2: detached-tasks");
        catches(check, &[("a.rs", "use tokio::task;\nfn a() { task::spawn(b()); }")], "a.rs:2");
    }

    #[test]
    fn join_sets_and_tests_pass() {
        passes(
            check,
            &[("a.rs", "fn a(s: &mut JoinSet<()>) { s.spawn(b()); tokio::task::spawn_blocking(c); }")],
        );
        passes(check, &[("a.rs", "#[cfg(test)]\nmod tests {\n    fn a() { tokio::spawn(b()); }\n}")]);
    }
}
