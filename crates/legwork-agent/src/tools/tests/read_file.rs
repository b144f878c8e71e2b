//! Tests of `read_file`: parts and their notes, files that are no text, names that are nearly right.

use super::rig::Rig;
use serde_json::json;

fn lines(count: usize) -> String {
    (1..=count).map(|n| format!("line {n}\n")).collect()
}

#[tokio::test]
async fn a_small_file_comes_as_it_is() {
    let rig = Rig::new();
    rig.write("notes.txt", "one\ntwo\nno end");
    assert_eq!(rig.ok("read_file", json!({"path": "notes.txt"})).await, "one\ntwo\nno end");
    let absolute = rig.path("./notes.txt");
    assert_eq!(rig.ok("read_file", json!({"path": absolute})).await, "one\ntwo\nno end");
    rig.write("empty", "");
    assert!(rig.ok("read_file", json!({"path": "empty"})).await.ends_with("is empty]"));
}

#[tokio::test]
async fn a_part_says_which_lines_it_is_and_how_to_get_the_rest() {
    let rig = Rig::new();
    rig.write("long", lines(2500));
    let first = rig.ok("read_file", json!({"path": "long"})).await;
    let path = rig.path("long").display().to_string();
    assert!(
        first.starts_with(&format!("[{path}, lines 1-2000 of 2500; the rest: offset=2001]\nline 1\n")),
        "{first}"
    );
    assert!(first.ends_with("line 2000\n"));
    let rest = rig.ok("read_file", json!({"path": "long", "offset": 2001})).await;
    assert!(rest.starts_with(&format!("[{path}, lines 2001-2500 of 2500]\nline 2001\n")), "{rest}");
    let middle = rig.ok("read_file", json!({"path": "long", "offset": 7, "limit": 2})).await;
    assert_eq!(middle, format!("[{path}, lines 7-8 of 2500; the rest: offset=9]\nline 7\nline 8\n"));
}

#[tokio::test]
async fn beyond_the_end_is_an_error_with_the_number_of_lines() {
    let rig = Rig::new();
    rig.write("short", lines(3));
    let message = rig.err("read_file", json!({"path": "short", "offset": 9})).await;
    assert!(message.ends_with("short has 3 lines, so there is nothing from line 9 on"), "{message}");
}

#[tokio::test]
async fn k25_parts_of_a_large_file_are_bounded_and_lossless() {
    let rig = Rig::new();
    let whole: String = (1..=4000).map(|n| format!("{n} {}\n", "ü".repeat(n % 90))).collect();
    rig.write("large", &whole);
    let mut gathered = String::new();
    let mut offset = 1;
    while gathered.len() < whole.len() {
        let part = rig.ok("read_file", json!({"path": "large", "offset": offset})).await;
        assert!(part.len() < 50 * 1024, "{}", part.len());
        let (head, text) = part.split_once("]\n").expect("it is a part");
        gathered.push_str(text);
        offset = head.rsplit_once("offset=").map_or(0, |(_, next)| next.parse().expect("a number"));
    }
    assert_eq!(gathered, whole);
}

#[tokio::test]
async fn k24_one_line_of_ten_megabytes_is_cut_at_a_whole_character() {
    let rig = Rig::new();
    rig.write("flat", format!("x{}\nlast\n", "👩‍👧".repeat(1_000_000)));
    let text = rig.ok("read_file", json!({"path": "flat"})).await;
    assert!(text.len() < 9 * 1024, "{}", text.len());
    assert!(!text.contains('\u{fffd}'), "no character is torn");
    assert!(
        text.contains("line 1 has 11000002 bytes and is cut") && text.ends_with(" […]\nlast\n"),
        "{}",
        &text[..200]
    );
}

#[tokio::test]
async fn what_is_no_text_file_is_refused_with_words() {
    let rig = Rig::new();
    rig.write("image", b"\x89PNG\0\0");
    let message = rig.err("read_file", json!({"path": "image"})).await;
    assert!(message.contains("is not a text file (6 bytes)"), "{message}");
    assert!(rig.err("read_file", json!({"path": "."})).await.contains("is a folder; use list_files"));
    assert!(rig.err("read_file", json!({"path": "/dev/zero"})).await.contains("not a regular file"));
}

#[tokio::test]
async fn a_pipe_is_refused_without_being_opened() {
    let rig = Rig::new();
    let path = rig.path("pipe");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    assert!(rig.err("read_file", json!({"path": "pipe"})).await.contains("not a regular file"));
}

#[tokio::test]
async fn k24_bytes_that_are_not_utf_8_are_replaced_and_counted() {
    let rig = Rig::new();
    rig.write("latin", b"caf\xe9\nna\xefve\n");
    let text = rig.ok("read_file", json!({"path": "latin"})).await;
    assert!(text.contains("2 places are not UTF-8"), "{text}");
    assert!(text.ends_with("caf\u{fffd}\nna\u{fffd}ve\n"), "{text}");
}

#[tokio::test]
async fn a_missing_file_is_answered_with_near_names() {
    let rig = Rig::new();
    rig.write("src/Main.rs", "");
    rig.write("src/other.txt", "");
    let message = rig.err("read_file", json!({"path": "src/main.rs"})).await;
    assert!(
        message.contains("does not exist; near it, in ") && message.ends_with("there is: Main.rs"),
        "{message}"
    );
    let message = rig.err("read_file", json!({"path": "scr/deep/main.rs"})).await;
    assert!(message.contains("there is: src"), "{message}");
    let message = rig.err("read_file", json!({"path": "src/zzzzzzzz"})).await;
    assert!(message.contains("use list_files there"), "{message}");
}
