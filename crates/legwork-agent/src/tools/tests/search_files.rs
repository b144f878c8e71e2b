//! Tests of `search_files`: what a match looks like, wrong patterns, bounds.

use super::rig::Rig;
use serde_json::json;

fn project() -> Rig {
    let rig = Rig::new();
    rig.write("src/main.rs", "fn main() {\n    run();\n}\n");
    rig.write("src/run.rs", "/// Runs.\npub fn run() {}\r\n");
    rig.write("target/out.rs", "fn run() {}\n");
    rig.write(".gitignore", "target/\n");
    rig.write("image", b"run\0run");
    rig
}

#[tokio::test]
async fn matches_come_with_path_and_line() {
    let rig = project();
    let text = rig.ok("search_files", json!({"pattern": r"\brun\("})).await;
    assert_eq!(
        text,
        "src/main.rs:2:    run();\nsrc/run.rs:2:pub fn run() {}\n[1 binary files were left out]\n"
    );
    let text = rig
        .ok("search_files", json!({"pattern": "RUNS", "case": "insensitive", "glob": "*.rs", "context": 1}))
        .await;
    assert_eq!(text, "src/run.rs:1:/// Runs.\nsrc/run.rs-2-pub fn run() {}\n");
    let text = rig.ok("search_files", json!({"pattern": "run", "path": "target"})).await;
    assert_eq!(text, "out.rs:1:fn run() {}\n", "an ignored folder can be asked for by name");
    let text = rig.ok("search_files", json!({"pattern": "main", "path": "src/main.rs"})).await;
    assert_eq!(text, "main.rs:1:fn main() {\n");
}

#[tokio::test]
async fn no_match_is_an_answer_and_a_wrong_pattern_an_error_with_its_place() {
    let rig = project();
    let text = rig.ok("search_files", json!({"pattern": "nowhere", "glob": "*.rs"})).await;
    assert_eq!(text, "[no line matches \"nowhere\" in 2 files]\n");
    let message = rig.err("search_files", json!({"pattern": "run(("})).await;
    assert!(
        message.contains("run((\n") && message.contains("^") && message.contains("unclosed group"),
        "{message}"
    );
    assert!(
        rig.err("search_files", json!({"pattern": "x", "path": "gone"})).await.contains("does not exist")
    );
    assert!(rig.err("search_files", json!({"pattern": "x", "context": 99})).await.contains("at most 10"));
}

#[tokio::test]
async fn k27_many_and_long_matches_are_cut_and_say_so() {
    let rig = Rig::new();
    rig.write("many", "hit\n".repeat(1000));
    let text = rig.ok("search_files", json!({"pattern": "hit"})).await;
    assert_eq!(text.lines().count(), 201);
    assert!(text.contains("[200 matches are shown and there may be more: narrow"), "{text}");
    let rig = Rig::new();
    rig.write("long", format!("{}needle{}\n", "é".repeat(500_000), "z".repeat(1_000_000)));
    let text = rig.ok("search_files", json!({"pattern": "needle"})).await;
    assert!(text.len() < 600 && text.starts_with("long:1:[…] é") && text.contains("éneedlez"), "{text}");
}

#[tokio::test]
async fn a_file_that_cannot_be_searched_does_not_hide_the_others() {
    let rig = Rig::new();
    rig.write("a-flat", "x".repeat(20 * 1024 * 1024));
    rig.write("b-good", "needle\n");
    let text = rig.ok("search_files", json!({"pattern": "needle"})).await;
    assert!(text.starts_with("b-good:1:needle\n[1 files could not be searched: a-flat: "), "{text}");
}
