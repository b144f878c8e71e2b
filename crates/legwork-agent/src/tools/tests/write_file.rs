//! Tests of `write_file`: new and replaced files, links, places that cannot be written.

use super::rig::Rig;
use serde_json::json;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

/// Files in the caller's folder whose names begin with a dot.
fn hidden(rig: &Rig) -> usize {
    let entries = fs::read_dir(rig.folder()).expect("the folder");
    entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with('.')).count()
}

#[tokio::test]
async fn a_new_file_is_written_with_its_folders() {
    let rig = Rig::new();
    let path = rig.path("a/b/new.txt").display().to_string();
    let text = rig.ok("write_file", json!({"path": "a/b/new.txt", "content": "ü\nx"})).await;
    let folder = rig.path("a/b").display().to_string();
    assert_eq!(text, format!("wrote 4 bytes (2 lines) to {path}, a new file in the new folder {folder}"));
    assert_eq!(rig.read("a/b/new.txt"), "ü\nx");
    let text = rig.ok("write_file", json!({"path": "a/b/other", "content": ""})).await;
    assert!(text.starts_with("wrote 0 bytes (0 lines)") && text.ends_with(", a new file"), "{text}");
}

#[tokio::test]
async fn a_file_is_replaced_whole_and_keeps_its_mode() {
    let rig = Rig::new();
    rig.write("script", "#!/bin/sh\nold\n");
    fs::set_permissions(rig.path("script"), fs::Permissions::from_mode(0o750)).expect("a mode");
    let text = rig.ok("write_file", json!({"path": "script", "content": "new"})).await;
    assert!(text.ends_with("replacing 14 bytes"), "{text}");
    assert_eq!(rig.read("script"), "new");
    assert_eq!(rig.path("script").metadata().expect("facts").permissions().mode() & 0o777, 0o750);
    assert_eq!(hidden(&rig), 0, "nothing is left beside it");
}

#[tokio::test]
async fn a_link_stays_a_link() {
    let rig = Rig::new();
    rig.write("real", "old");
    symlink(rig.path("real"), rig.path("link")).expect("a link");
    rig.ok("write_file", json!({"path": "link", "content": "new"})).await;
    assert_eq!(rig.read("real"), "new");
    assert!(rig.path("link").symlink_metadata().expect("facts").is_symlink());
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_and_nothing_changes() {
    let rig = Rig::new();
    rig.write("file", "x");
    symlink(rig.path("gone"), rig.path("dangling")).expect("a link");
    let check = async |path: &str, words: &str| {
        let message = rig.err("write_file", json!({"path": path, "content": "y"})).await;
        assert!(message.contains(words) && message.ends_with("Nothing was written"), "{message}");
    };
    check(".", "is a folder; name a file in it").await;
    check("file/below", "").await;
    check("dangling", "is a link to something that does not exist").await;
    check("/dev/null", "is not a regular file").await;
    check("/proc/new-file", "/proc").await;
    assert_eq!((rig.read("file"), hidden(&rig)), ("x".to_owned(), 0));
}
