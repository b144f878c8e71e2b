//! Tests of `terminal`: commands that behave, and commands that leave things behind.

use super::ledger::Ledger;
use super::rig::Rig;
use crate::tools::ToolOutput;
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

async fn run(rig: &Rig, command: &str) -> ToolOutput {
    rig.call("terminal", json!({"command": command})).await
}

/// The output must be exactly this.
async fn check(command: &str, expected: &str) {
    let rig = Rig::new();
    assert_eq!(run(&rig, command).await.content, expected);
    assert_eq!(rig.left(), 0);
}

#[tokio::test]
async fn exit_code_and_output_in_the_order_of_writing() {
    check("echo out; echo err >&2; echo out again", "[exit code 0]\nout\nerr\nout again\n").await;
    check("true", "[exit code 0]\n[no output]\n").await;
    check("printf 'no line end'; exit 3", "[exit code 3]\nno line end\n").await;
    check("kill -9 $$", "[ended by signal 9]\n[no output]\n").await;
}

#[tokio::test]
async fn a_failing_command_is_an_error_and_a_missing_one_is_told() {
    let rig = Rig::new();
    assert!(run(&rig, "exit 3").await.is_error);
    let output = run(&rig, "no-such-command-here").await;
    assert!(output.is_error && output.content.starts_with("[exit code 127]\n"), "{}", output.content);
    let output = run(&rig, "if then (").await;
    assert!(output.is_error && output.content.contains("syntax error"), "{}", output.content);
}

#[tokio::test]
async fn a_script_may_have_lines_quotes_and_a_last_backslash() {
    check("cat <<'EOF'\n$HOME \"'\nEOF\necho done", "[exit code 0]\n$HOME \"'\ndone\n").await;
    check("echo a\\\n b", "[exit code 0]\na b\n").await;
    check("  \n# only a comment\n", "[exit code 0]\n[no output]\n").await;
    check("echo \"[$LEGWORK_SCRIPT]\" $0 $#", "[exit code 0]\n[] bash 0\n").await;
}

#[tokio::test]
async fn it_runs_in_the_callers_folder_or_in_another_one() {
    let rig = Rig::new();
    rig.write("sub/file", "");
    let folder = rig.folder().canonicalize().expect("the folder");
    let output = run(&rig, "pwd -P; ls").await.content;
    assert_eq!(output, format!("[exit code 0]\n{}\nsub\n", folder.display()));
    let output = rig.ok("terminal", json!({"command": "ls", "workdir": "sub"})).await;
    assert_eq!(output, "[exit code 0]\nfile\n");
}

#[tokio::test]
async fn k31_a_missing_folder_is_an_error_and_nothing_runs() {
    let rig = Rig::new();
    let message = rig.err("terminal", json!({"command": "touch /tmp/never", "workdir": "gone"})).await;
    assert!(message.contains("gone does not exist") && message.ends_with("nothing was run"), "{message}");
    rig.write("file", "");
    let message = rig.err("terminal", json!({"command": "true", "workdir": "file"})).await;
    assert!(message.contains("is not a folder"), "{message}");
    assert!(rig.ledger.noted().is_empty());
}

#[tokio::test]
async fn k08_stdin_is_empty_and_there_is_no_terminal_to_ask() {
    check("cat; read line; echo $?", "[exit code 0]\n1\n").await;
    check("read line 2>/dev/null </dev/tty; echo $?", "[exit code 0]\n1\n").await;
}

#[tokio::test]
async fn inv_22_a_command_of_any_size_is_neither_in_arguments_nor_environment() {
    let rig = Rig::new();
    let data = "x".repeat(200_000);
    let command = format!(
        "data={data}; echo ${{#data}}; tr '\\0' '\\n' </proc/$$/cmdline | grep -c xxxx; env | grep -c xxxx"
    );
    let output = run(&rig, &command).await;
    assert_eq!(output.content, "[exit code 1]\n200000\n0\n0\n");
    let message = rig.err("terminal", json!({"command": "echo \0"})).await;
    assert!(message.contains("NUL"), "{message}");
}

#[tokio::test]
async fn k29_no_key_of_the_parent_is_in_the_environment() {
    let keys = [("OPENAI_API_KEY", "sk-nonce-1"), ("MY_TOKEN", "nonce-2"), ("SSH_AUTH_SOCK", "/nonce-3")];
    let rig = Rig::in_environment(Ledger::default(), &keys);
    let environment = run(&rig, "env").await.content;
    assert!(environment.contains("PATH=") && !environment.contains("nonce"), "{environment}");
    assert!(environment.contains(&format!("LEGWORK_CHILD={}", rig.child)), "{environment}");
}

#[tokio::test]
async fn inv_14_the_group_is_stored_before_the_command_and_forgotten_after_it() {
    let rig = Rig::new();
    let output = run(&rig, "echo $$").await.content;
    let noted = rig.ledger.noted();
    assert_eq!(output, format!("[exit code 0]\n{}\n", noted[0].pgid));
    assert!(noted[0].start_ticks > 0 && !noted[0].boot_id.is_empty());
    run(&rig, "true").await;
    assert_eq!(rig.ledger.dropped(), noted[..1]);
}

#[tokio::test]
async fn inv_14_a_group_that_cannot_be_stored_runs_nothing() {
    let rig = Rig::with(Ledger::refusing());
    let message = rig.err("terminal", json!({"command": "touch ran"})).await;
    assert!(message.starts_with("nothing was run, because its process could not be stored"), "{message}");
    assert!(!rig.path("ran").exists());
    assert_eq!(rig.left(), 0);
}

#[tokio::test]
async fn k35_a_command_waits_for_a_store_in_trouble_and_runs_once() {
    let rig = Rig::with(Ledger::in_trouble(2));
    let output = rig.ok("terminal", json!({"command": "echo ran >>ran; cat ran"})).await;
    assert!(output.ends_with("ran\n") && output.matches("ran").count() == 1, "{output}");
    assert_eq!(rig.ledger.noted().len(), 1);
}

/// Longer than a busy machine needs for anything here, and much shorter than the commands that are left behind would go on.
const AT_ONCE: Duration = Duration::from_secs(60);
/// Four processes of the kinds that outlive a command. It goes on once each of them has got its name.
const LEAVES_FOUR: &str = r#"
    becomes() { until grep -qsx "$1" "/proc/$2/comm"; do :; done; }
    sleep 991 & becomes sleep $!
    mkfifo up; setsid sh -c 'echo >up; exec sleep 992' & read line <up
    (trap '' TERM; sleep 993; true) & shell=$!
    until inner=$(cat /proc/$shell/task/$shell/children) && [ -n "$inner" ]; do :; done; becomes sleep $inner
    nohup sh -c 'while :; do sleep 1; done' >/dev/null 2>&1 & becomes sh $!
"#;

#[tokio::test]
async fn k15_what_a_command_leaves_behind_is_ended_and_named() {
    let rig = Rig::new();
    let begun = Instant::now();
    let output = run(&rig, &format!("{LEAVES_FOUR} echo done")).await;
    assert!(begun.elapsed() < AT_ONCE, "it took {:?}", begun.elapsed());
    assert_eq!(rig.left(), 0);
    let content = output.content;
    assert!(
        content.starts_with("[exit code 0]\ndone\n[4 processes that were still running were ended: "),
        "{content}"
    );
    for name in ["sleep 991", "sleep 992", "(sleep 993)", "sh -c while :; do sleep 1; done"] {
        assert!(content.contains(name), "{name} is missing: {content}");
    }
}

#[tokio::test]
async fn k15_nothing_is_left_after_the_time_limit() {
    let rig = Rig::new();
    let call = json!({"command": format!("{LEAVES_FOUR} echo begun; trap '' TERM; sleep 994"), "timeout_seconds": 1});
    let message = rig.err("terminal", call).await;
    assert!(message.starts_with("[ended at its time limit of 1 s; "), "{message}");
    assert!(message.contains("\nbegun\n"), "{message}");
    assert_eq!(rig.left(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn k15_nothing_is_left_after_the_call_is_dropped() {
    let rig = Rig::new();
    let pipe = rig.path("begun");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let command = format!("{LEAVES_FOUR} echo now >begun; sleep 995");
    let begun = tokio::task::spawn_blocking(move || std::fs::read_to_string(pipe));
    tokio::select! {
        output = run(&rig, &command) => panic!("it ended: {}", output.content),
        heard = begun => assert_eq!(heard.expect("no panic").expect("the pipe"), "now\n"),
    }
    assert_eq!(rig.left(), 0, "dropping kills at once");
    let noted = rig.ledger.noted();
    run(&rig, "true").await;
    assert_eq!(rig.ledger.dropped(), noted, "and the group is forgotten");
}

#[tokio::test]
async fn k08_a_background_process_that_holds_the_output_open_does_not_hold_the_call() {
    let rig = Rig::new();
    let begun = Instant::now();
    let output = run(&rig, "(trap '' TERM HUP; sleep 996; true) & echo done").await;
    assert!(output.content.starts_with("[exit code 0]\ndone\n[1 process that was still running was ended: "));
    assert!(begun.elapsed() < AT_ONCE);
    assert_eq!(rig.left(), 0);
}

#[tokio::test]
async fn k27_ten_megabytes_are_whole_in_a_file_and_cut_in_the_answer() {
    let rig = Rig::new();
    let output = rig.ok("terminal", json!({"command": "seq 1 1300000"})).await;
    assert!(output.len() < 32 * 1024, "{}", output.len());
    assert!(output.starts_with("[exit code 0]\n1\n2\n") && output.contains("\n1300000\n[the whole output, "));
    let file =
        std::fs::read_dir(rig.path("spill")).expect("the folder").next().expect("one").expect("entry").path();
    let whole = std::fs::read_to_string(&file).expect("the file");
    let expected: String = (1..=1_300_000).map(|n| format!("{n}\n")).collect();
    assert!(whole == expected, "the file has {} bytes of {}", whole.len(), expected.len());
    assert!(output.contains(&format!("{} bytes, is in {}", whole.len(), file.display())), "{output}");
    let read = rig.ok("read_file", json!({"path": file, "offset": 700_000, "limit": 1})).await;
    assert!(read.ends_with("]\n700000\n"), "{read}");
}

#[tokio::test]
async fn k24_binary_output_and_characters_at_the_limit() {
    let rig = Rig::new();
    let output = rig.ok("terminal", json!({"command": "head -c 100000 /dev/urandom"})).await;
    assert!(output.contains("places of the output are not UTF-8"), "{output}");
    let emoji = rig
        .ok(
            "terminal",
            json!({"command": "x=👩‍👧; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do x=$x$x; done; echo $x"}),
        )
        .await;
    assert!(!emoji.contains('\u{fffd}') && emoji.contains("bytes are left out here"), "no character is torn");
    check("printf '\\033[31mred\\033[0m\\r\\n\\b'", "[exit code 0]\nred\n").await;
}

#[tokio::test]
async fn inv_8_growing_output_is_told_as_progress_twice_a_second_at_most() {
    let rig = Rig::new();
    let begun = Instant::now();
    rig.ok("terminal", json!({"command": "for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; done"})).await;
    let told = rig.line.0.load(Ordering::Relaxed) as u128;
    assert!(
        told >= 1 && told <= begun.elapsed().as_millis() / 500,
        "told {told} times in {:?}",
        begun.elapsed()
    );
}
