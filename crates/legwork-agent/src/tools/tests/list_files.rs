//! Tests of `list_files` on folders made for them: order, ignored files, bounds.

use super::rig::Rig;
use serde_json::json;
use std::os::unix::fs::symlink;

fn project() -> Rig {
    let rig = Rig::new();
    for name in [
        "README.md",
        "src/main.rs",
        "src/deep/er/than/three.rs",
        "target/built.rs",
        ".github/ci.yml",
        ".git/HEAD",
    ] {
        rig.write(name, "");
    }
    rig.write(".gitignore", "target/\n");
    rig
}

#[tokio::test]
async fn a_folder_is_listed_in_order_without_what_is_ignored() {
    let rig = project();
    let text = rig.ok("list_files", json!({})).await;
    let expected = ".github/\n.github/ci.yml\n.gitignore\nREADME.md\nsrc/\nsrc/deep/\nsrc/deep/er/\nsrc/main.rs\n\
                    [1 folders at depth 3 were not looked into: send a larger depth]\n";
    assert_eq!(text, expected);
    let text = rig.ok("list_files", json!({"depth": 1})).await;
    assert!(
        text.ends_with("src/\n[2 folders at depth 1 were not looked into: send a larger depth]\n"),
        "{text}"
    );
    let text = rig.ok("list_files", json!({"path": "target"})).await;
    assert_eq!(text, "built.rs\n", "an ignored folder can be asked for by name");
}

#[tokio::test]
async fn a_glob_goes_as_deep_as_there_is() {
    let rig = project();
    assert_eq!(
        rig.ok("list_files", json!({"glob": "*.rs"})).await,
        "src/deep/er/than/three.rs\nsrc/main.rs\n"
    );
    assert_eq!(rig.ok("list_files", json!({"glob": "src/*.rs"})).await, "src/main.rs\n");
    let text = rig.ok("list_files", json!({"glob": "*.py"})).await;
    assert!(text.starts_with("[nothing to list in ") && text.contains("gitignore"), "{text}");
    assert!(rig.err("list_files", json!({"glob": "{a"})).await.contains("the glob does not work"));
}

#[tokio::test]
async fn k27_a_large_folder_is_cut_and_says_so() {
    let rig = Rig::new();
    (0..700).for_each(|n| rig.write(&format!("{n:03}"), ""));
    let text = rig.ok("list_files", json!({})).await;
    assert_eq!(text.lines().count(), 501);
    assert!(text.contains("\n499\n[the first 500 of 700 entries: send a glob"), "{text}");
}

#[tokio::test]
async fn links_are_not_followed_and_files_are_not_folders() {
    let rig = project();
    symlink("..", rig.path("src/loop")).expect("a link");
    assert!(rig.ok("list_files", json!({"path": "src", "depth": 1})).await.contains("loop\n"));
    assert!(rig.err("list_files", json!({"path": "README.md"})).await.contains("use read_file"));
    assert!(rig.err("list_files", json!({"path": "scr"})).await.contains("there is: src"));
}
