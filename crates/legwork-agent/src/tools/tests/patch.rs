//! Tests of `patch`: both forms, what is refused and how, and that nothing is done where not everything can be.

use super::rig::Rig;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

fn replace(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "old_string": old, "new_string": new})
}

/// A patch of these lines, between its begin and its end.
fn patch(lines: &str) -> Value {
    json!({"patch": format!("*** Begin Patch\n{lines}\n*** End Patch\n")})
}

/// Files of the caller's folder, by name, without what is in folders.
fn names(rig: &Rig) -> Vec<String> {
    let entries = fs::read_dir(rig.folder()).expect("the folder").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The call fails with these words, and the file is as it was.
async fn refused(rig: &Rig, arguments: Value, words: &[&str]) {
    let before = names(rig);
    let message = rig.err("patch", arguments).await;
    for part in words {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
    assert_eq!(names(rig), before, "{message}");
}

#[tokio::test]
async fn a_text_that_is_there_once_is_replaced_and_the_answer_shows_it() {
    let rig = Rig::new();
    rig.write("a.txt", "one\ntwo\nthree\n");
    fs::set_permissions(rig.path("a.txt"), fs::Permissions::from_mode(0o750)).expect("a mode");
    let text = rig.ok("patch", replace("a.txt", "two", "2")).await;
    let path = rig.path("a.txt").display().to_string();
    assert_eq!(
        text,
        format!("changed {path} (+1 -1 lines)\n--- {path}\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n")
    );
    assert_eq!(rig.read("a.txt"), "one\n2\nthree\n");
    assert_eq!(rig.path("a.txt").metadata().expect("facts").permissions().mode() & 0o777, 0o750);
    assert_eq!(names(&rig), ["a.txt"], "nothing is left beside it");
}

#[tokio::test]
async fn a_text_that_is_there_often_is_refused_with_its_lines_unless_all_are_meant() {
    let rig = Rig::new();
    rig.write("a.txt", "x\ny\nx\nx\n");
    refused(
        &rig,
        replace("a.txt", "x", "z"),
        &["3 times, at lines 1, 3, 4", "replace_all", "Nothing was changed"],
    )
    .await;
    let mut all = replace("a.txt", "x", "z");
    all["replace_all"] = json!(true);
    rig.ok("patch", all).await;
    assert_eq!(rig.read("a.txt"), "z\ny\nz\nz\n");
}

#[tokio::test]
async fn a_text_that_is_not_there_is_answered_with_the_closest_lines() {
    let rig = Rig::new();
    rig.write("a.py", "import os\n\ndef greet(name):\n\treturn 'hi ' + name\n");
    refused(
        &rig,
        replace("a.py", "def greet(name):\n    return 'hi ' + name", "x"),
        &["with other spaces", "    3: def greet(name):\n    4: \treturn 'hi ' + name"],
    )
    .await;
    refused(&rig, replace("a.py", "def greets(nam):", "x"), &["closest", "    3: def greet(name):"]).await;
    refused(&rig, replace("a.py", "%%%%%%%", "x"), &["Nothing like it is in its 4 lines"]).await;
    refused(&rig, replace("b.py", "x", "y"), &["does not exist; near it", "a.py"]).await;
}

#[tokio::test]
async fn line_ends_and_a_mark_at_the_start_stay() {
    let rig = Rig::new();
    rig.write("dos.txt", "\u{feff}one\r\ntwo\r\nthree\r\n");
    rig.ok("patch", replace("dos.txt", "one\ntwo\n", "1\n1b\n2\n")).await;
    assert_eq!(rig.read("dos.txt"), "\u{feff}1\r\n1b\r\n2\r\nthree\r\n");
    rig.ok("patch", patch("*** Update File: dos.txt\n@@\n 2\n-three\n+3\n+4")).await;
    assert_eq!(rig.read("dos.txt"), "\u{feff}1\r\n1b\r\n2\r\n3\r\n4\r\n");
    rig.write("open.txt", "one\ntwo");
    rig.ok("patch", patch("*** Update File: open.txt\n two\n+three")).await;
    assert_eq!(rig.read("open.txt"), "one\ntwo\nthree", "a last line without an end stays one");
}

#[tokio::test]
async fn a_patch_changes_adds_moves_and_deletes_files_in_one_call() {
    let rig = Rig::new();
    rig.write(
        "src/a.py",
        "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n",
    );
    rig.write("old.txt", "keep\ngo\n");
    rig.write("gone.txt", "x\n");
    let text = rig
        .ok("patch", patch("*** Update File: src/a.py\n@@ class B:\n@@     def f(self):\n-        return 1\n+        return 2\n\n*** Update File: old.txt\n*** Move to: new/name.txt\n@@\n keep\n-go\n*** Add File: new/b.txt\n+first\n+\n+last\n\n*** Delete File: gone.txt"))
        .await;
    assert_eq!(
        rig.read("src/a.py"),
        "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 2\n"
    );
    assert_eq!(rig.read("new/name.txt"), "keep\n");
    assert_eq!(rig.read("new/b.txt"), "first\n\nlast\n");
    assert_eq!(names(&rig), ["new", "src"]);
    for part in ["changed ", "new ", "deleted ", "+        return 2\n", "+first\n"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn a_hunk_that_fits_no_place_or_several_is_refused() {
    let rig = Rig::new();
    rig.write("a.txt", "a\nx\nb\nx\nc\nend\n");
    let update = |lines: &str| patch(&format!("*** Update File: a.txt\n{lines}"));
    refused(&rig, update("@@\n-x\n+y"), &["2 times, at lines 2, 4", "a line above them after @@"]).await;
    refused(&rig, update("@@\n-c\n+C\n@@\n-a\n+A"), &["only at line 1", "in the order of the file"]).await;
    refused(&rig, update("@@ nowhere\n-x\n+y"), &["`nowhere`, which @@ names, is not in it"]).await;
    refused(&rig, update("@@\n-xx\n+y"), &["line 3 of the patch are not in it"]).await;
    refused(&rig, update("+y"), &["does not say where"]).await;
    refused(&rig, update("@@\n x"), &["2 times"]).await;
    refused(&rig, update("@@\n a\n b"), &["are not in it"]).await;
    rig.ok("patch", update("@@ b\n-x\n+y\n@@ end\n+last\n*** End of File")).await;
    assert_eq!(rig.read("a.txt"), "a\nx\nb\ny\nc\nend\nlast\n");
}

#[tokio::test]
async fn blanks_at_line_ends_and_a_gap_behind_a_hunk_do_not_matter() {
    let rig = Rig::new();
    rig.write("a.txt", "one  \ntwo\n\nthree\n");
    rig.ok("patch", patch("*** Update File: a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\n\n")).await;
    assert_eq!(rig.read("a.txt"), "one  \n2\n\nthree\n", "what stays is taken from the file");
}

#[tokio::test]
async fn a_patch_text_with_a_mistake_is_refused_with_its_line() {
    let rig = Rig::new();
    rig.write("a.txt", "x\n");
    let text = |text: &str| json!({"patch": text});
    refused(&rig, text("--- a.txt\n+++ a.txt\n"), &["must begin with the line *** Begin Patch"]).await;
    refused(
        &rig,
        text("*** Begin Patch\n*** Update File: a.txt\n-x\n+y\n"),
        &["a part of it may be missing"],
    )
    .await;
    refused(&rig, patch(""), &["the patch is empty"]).await;
    refused(&rig, patch("-x"), &["line 2 of the patch belongs to no file"]).await;
    refused(&rig, patch("*** Update File: a.txt\nx"), &["line 3 of the patch begins with none of"]).await;
    refused(&rig, patch("*** Update File: a.txt"), &["changes nothing in a.txt"]).await;
    refused(&rig, patch("*** Update File: a.txt\n x"), &["leaves it as it is"]).await;
    refused(&rig, patch("*** Add File: a.txt\n+y"), &["is there already"]).await;
    refused(&rig, patch("*** Add File: b.txt\ny"), &["line 3 of the patch must begin with +"]).await;
    refused(&rig, patch("*** Delete File: a.txt\n-x"), &["takes no lines"]).await;
    refused(&rig, patch("*** Update File: a.txt\n-x\n+y\n*** Update File: ./a.txt\n-y\n+z"), &["not in it"])
        .await;
    refused(&rig, patch("*** Update File: a.txt\n-x\n+y\n*** Delete File: ./a.txt"), &["is named twice"])
        .await;
    let mut both = replace("a.txt", "x", "y");
    both["patch"] = json!("");
    refused(&rig, both, &["together with arguments of the other form"]).await;
    refused(&rig, json!({"path": "a.txt"}), &["send `path`, `old_string` and `new_string`"]).await;
    refused(&rig, replace("a.txt", "", "y"), &["old_string is empty"]).await;
    refused(&rig, replace("a.txt", "x", "x"), &["are the same"]).await;
    assert_eq!(rig.read("a.txt"), "x\n");
}

#[tokio::test]
async fn nothing_is_changed_where_one_file_of_several_cannot_be() {
    let rig = Rig::new();
    rig.write("a.txt", "x\n");
    rig.write("b.txt", "x\n");
    let good = "*** Update File: a.txt\n-x\n+y\n*** Add File: new/deep/c.txt\n+c";
    refused(
        &rig,
        patch(&format!("{good}\n*** Update File: b.txt\n-z\n+y")),
        &["b.txt", "Nothing was changed"],
    )
    .await;
    // A file of the system that can be read and not be taken out of its place: that shows only at the last move.
    refused(
        &rig,
        patch(&format!("{good}\n*** Delete File: b.txt\n*** Delete File: /proc/version")),
        &["/proc/version", "Nothing was changed"],
    )
    .await;
    assert_eq!((rig.read("a.txt"), rig.read("b.txt")), ("x\n".to_owned(), "x\n".to_owned()));
    assert_eq!(names(&rig), ["a.txt", "b.txt"]);
}

#[tokio::test]
async fn what_is_no_text_file_of_a_fit_size_is_refused() {
    let rig = Rig::new();
    rig.write("image", b"\x89PNG\0\0");
    rig.write("latin", b"ok\ncaf\xe9\n");
    rig.write("large", "x\n".repeat(5 * 1024 * 1024));
    rig.write("grows", "xy".repeat(1000));
    symlink(rig.path("gone"), rig.path("dangling")).expect("a link");
    refused(&rig, replace("image", "x", "y"), &["is not a text file (6 bytes)"]).await;
    refused(&rig, replace("latin", "ok", "y"), &["is not UTF-8: there is a wrong byte in line 2"]).await;
    refused(&rig, replace("large", "x", "y"), &["has 10485760 bytes", "at most 8388608", "sed -i"]).await;
    refused(&rig, replace(".", "x", "y"), &["is a folder; name a file in it"]).await;
    refused(&rig, replace("/dev/zero", "x", "y"), &["is not a regular file"]).await;
    refused(&rig, replace("dangling", "x", "y"), &["is a link to something that does not exist"]).await;
    let mut grown = replace("grows", "x", &"z".repeat(1024 * 1024));
    grown["replace_all"] = json!(true);
    refused(&rig, grown, &["would have 1048577000 bytes", "at most 8388608"]).await;
}

#[tokio::test]
async fn a_link_stays_a_link_and_its_file_is_changed() {
    let rig = Rig::new();
    rig.write("real", "x\n");
    symlink(rig.path("real"), rig.path("link")).expect("a link");
    rig.ok("patch", replace("link", "x", "y")).await;
    assert_eq!(rig.read("real"), "y\n");
    assert!(rig.path("link").symlink_metadata().expect("facts").is_symlink());
    refused(&rig, patch("*** Update File: link\n-y\n+z\n*** Update File: real\n-y\n+w"), &["is named twice"])
        .await;
}

#[tokio::test]
async fn a_long_answer_is_cut_and_a_file_of_equal_lines_takes_no_time() {
    let rig = Rig::new();
    rig.write("flat", "x\n".repeat(200_000));
    let mut all = replace("flat", "x", "y");
    all["replace_all"] = json!(true);
    let text = rig.ok("patch", all).await;
    assert!(text.len() < 14 * 1024 && text.contains("bytes of the diff are left out"), "{}", text.len());
    let hunk = format!("*** Update File: flat\n@@\n{}-x\n+z", " y\n".repeat(20_000));
    refused(&rig, patch(&hunk), &["are not in it"]).await;
}
