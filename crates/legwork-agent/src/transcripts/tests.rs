//! The port over real files: format, order, masking, many children, and disks that fail.

use super::{FileTranscripts, Follow, Source};
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::{FailureKind, Limit, Outcome};
use legwork_core::ports::{Heading, Transcripts};
use legwork_core::pulse::LineEvent;
use legwork_core::report::{Cost, FailureReason, Usage};
use legwork_core::time::Timestamp;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

pub(super) const AT: Timestamp = Timestamp(1_700_000_000_000);

pub(super) fn heading(task_index: usize) -> Heading {
    Heading {
        delegation: DelegationId::from_bits(0xabc),
        child: ChildId::from_bits(task_index, 7),
        task_index,
        goal: format!("read\nfile {task_index}"),
        context: None,
        model: "scripted/x".to_owned(),
        at: AT,
    }
}

fn started(count: usize) -> (TempDir, FileTranscripts, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let transcripts = FileTranscripts::new(folder.path().join("live")).expect("a thread");
    let headings: Vec<Heading> = (0..count).map(heading).collect();
    let paths = transcripts.create(&headings).expect("a folder for them");
    (folder, transcripts, paths)
}

/// The texts after the times, without the head.
fn told(path: &str) -> Vec<String> {
    let content = fs::read_to_string(path).expect("the transcript");
    assert!(content.ends_with('\n'), "the last line is whole");
    let lines = content.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.get(9..).expect("a time stands first").to_owned()).collect()
}

fn manifest(folder: &Path) -> Value {
    let path = folder.join("live").join("deleg_00000abc").join("manifest.json");
    serde_json::from_slice(&fs::read(path).expect("the manifest")).expect("JSON")
}

pub(super) fn tool(transcripts: &FileTranscripts, child: &ChildId, result: &str) {
    let (tool, arguments) = ("read_file".to_owned(), "{\"path\":\"x\"}".to_owned());
    let call = "c1".to_owned();
    transcripts.append(
        child,
        AT,
        &LineEvent::ToolStarted { call: call.clone(), tool: tool.clone(), arguments },
    );
    transcripts.append(child, AT, &LineEvent::ToolMoved);
    let result = result.to_owned();
    transcripts.append(child, AT, &LineEvent::ToolEnded { call, tool, result, is_error: false, took_ms: 40 });
}

/// Proves LIVE-4, LIVE-5, LIVE-9, LIVE-12.
#[test]
fn live_02_to_05_and_09_a_run_line_by_line() {
    let (folder, transcripts, paths) = started(1);
    let child = heading(0).child;
    transcripts.append(&child, AT, &LineEvent::ModelCalled);
    for piece in ["I will ", "read\n", "it."] {
        transcripts.append(&child, AT, &LineEvent::Text(piece.to_owned()));
    }
    tool(&transcripts, &child, "line\n  two\x1b[31m");
    transcripts.append(&child, AT, &LineEvent::ModelCalled);
    transcripts.append(
        &child,
        AT,
        &LineEvent::Retrying { reason: FailureReason::RateLimit, error: "429".to_owned(), pause_ms: 1500 },
    );
    transcripts.append(&child, AT, &LineEvent::Thinking("hm".to_owned()));
    transcripts.append(&child, AT, &LineEvent::Text("Done.".to_owned()));
    transcripts.append(&child, AT, &LineEvent::Replied { usage: Usage::default(), cost: Cost::Unknown });
    transcripts.finish(&child, AT, Outcome::Partial(Limit::Steps), None);
    drop(transcripts);
    let expected = [
        "user     | read file 0",
        "start    | the subagent began",
        "assistant| I will read it.",
        "tool     | read_file {\"path\":\"x\"}",
        "result   | read_file ok 0.0s line two [31m",
        "note     | trying again in 1.5s: 429",
        "think    | hm",
        "assistant| Done.",
        "final    | completed (max_iterations), cut short by the step limit",
    ];
    assert_eq!(told(&paths[0]), expected);
    assert_eq!(PathBuf::from(&paths[0]), folder.path().join("live/deleg_00000abc/task-0.log"));
    let head = fs::read_to_string(&paths[0]).expect("the transcript");
    assert!(
        head.starts_with(
            "# delegation deleg_00000abc, task 0, subagent sa-0-00000007\n# goal: read file 0\n"
        )
    );
    let mode = |path: &Path| path.metadata().expect("facts").permissions().mode() & 0o777;
    assert_eq!(mode(Path::new(&paths[0])), 0o600);
    assert_eq!(mode(&folder.path().join("live")), 0o700);
}

#[test]
fn live_08_the_manifest_tells_how_each_task_ended() {
    let (folder, transcripts, _) = started(2);
    transcripts.finish(&heading(1).child, AT, Outcome::Failed(FailureKind::Model), Some("401"));
    transcripts.finish(&heading(0).child, Timestamp(AT.0 + 5), Outcome::Succeeded, None);
    drop(transcripts);
    let manifest = manifest(folder.path());
    assert_eq!(manifest["delegation_id"], "deleg_00000abc");
    assert_eq!((&manifest["task_count"], &manifest["provider"]), (&2.into(), &"scripted".into()));
    assert_eq!(manifest["tasks"][0]["status"], "completed");
    assert_eq!(manifest["tasks"][1]["status"], "failed");
    assert_eq!(manifest["tasks"][1]["exit_reason"], "error");
    assert_eq!(manifest["completed"], AT.0 + 5);
}

#[test]
fn live_08_a_task_that_runs_is_called_running() {
    let folder = tempfile::tempdir().expect("a folder");
    let transcripts = FileTranscripts::new(folder.path().join("live")).expect("a thread");
    let long = Heading { goal: "g".repeat(600), ..heading(1) };
    transcripts.create(&[heading(0), long]).expect("a folder for them");
    drop(transcripts);
    let manifest = manifest(folder.path());
    assert_eq!((&manifest["model"], &manifest["started"]), (&"scripted/x".into(), &AT.0.into()));
    for (index, goal) in [(0, "read file 0".to_owned()), (1, "g".repeat(500))] {
        let task = &manifest["tasks"][index];
        assert_eq!((&task["index"], &task["log"]), (&index.into(), &format!("task-{index}.log").into()));
        let told = task["goal"].as_str().expect("a goal");
        assert!(told.starts_with(&goal) && !told.starts_with(&"g".repeat(501)), "{told}");
    }
    assert_eq!(manifest["tasks"][0]["status"], "running");
    assert!(manifest.get("completed").is_none());
}

/// Proves SEC-6.
#[test]
fn live_07_a_credential_is_masked_also_when_it_comes_in_pieces() {
    let (folder, transcripts, paths) = started(1);
    let child = heading(0).child;
    for piece in ["the key is sk-abcdef", "ghijklmnop", "qrstuv and "] {
        transcripts.append(&child, AT, &LineEvent::Text(piece.to_owned()));
    }
    transcripts.append(&child, AT, &LineEvent::Text(format!("{} sk-abcdef", "x ".repeat(2000))));
    transcripts.append(&child, AT, &LineEvent::Text("ghijklmnopqrstuv".to_owned()));
    tool(&transcripts, &child, "GITHUB_TOKEN=ghp_abcdefghijklmnopqrst");
    transcripts.finish(&child, AT, Outcome::Succeeded, Some("password=hunter2"));
    drop(transcripts);
    let all = fs::read_to_string(&paths[0]).expect("the transcript");
    for secret in ["abcdef", "ghijkl", "hunter2", "ghp_"] {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
    assert_eq!(all.matches("[masked]").count(), 4, "{all}");
    drop(folder);
}

#[test]
fn live_04_streamed_text_makes_a_line_whenever_so_much_of_it_has_come() {
    let (folder, transcripts, paths) = started(1);
    let child = heading(0).child;
    for _ in 0..1000 {
        transcripts.append(&child, AT, &LineEvent::Text("nine letters ".to_owned()));
    }
    transcripts.finish(&child, AT, Outcome::Succeeded, None);
    drop(transcripts);
    let lines = told(&paths[0]);
    let said = lines.iter().filter(|line| line.starts_with("assistant| ")).count();
    assert_eq!(said, 4, "13000 characters, a line for each 4000 and one for the rest: {lines:?}");
    drop(folder);
}

#[test]
fn sec_06_no_credential_of_a_goal_is_in_a_head_or_in_the_manifest() {
    let folder = tempfile::tempdir().expect("a folder");
    let transcripts = FileTranscripts::new(folder.path().join("live")).expect("a thread");
    let (key, context) = ("sk-abcdefghijklmnopqrstuv", Some("password=hunter2 and more".to_owned()));
    let heading = Heading { goal: format!("ask with {key}"), context, ..heading(0) };
    let paths = transcripts.create(&[heading]).expect("a folder for them");
    drop(transcripts);
    let all = fs::read_to_string(&paths[0]).expect("the transcript") + &manifest(folder.path()).to_string();
    assert!(!all.contains("abcdefgh") && !all.contains("hunter2"), "{all}");
    assert_eq!(all.matches("ask with [masked]").count(), 3, "head, first line and manifest: {all}");
}

#[test]
fn k27_a_long_text_takes_a_bounded_line() {
    let (folder, transcripts, paths) = started(1);
    let child = heading(0).child;
    tool(&transcripts, &child, &"é".repeat(5_000_000));
    transcripts.append(&child, AT, &LineEvent::Text("y".repeat(1_000_000)));
    drop(transcripts);
    let lines = told(&paths[0]);
    assert!(lines[2].ends_with("more characters)") && lines[2].len() < 1000, "{}", lines[2]);
    assert!(lines[2].contains("(4999618 more"), "{}", lines[2]);
    assert!(lines[3].starts_with("assistant| yyy") && lines[3].len() < 1000);
    drop(folder);
}

#[test]
fn k43_many_children_at_once_keep_whole_lines_in_order() {
    let (folder, transcripts, paths) = started(512);
    let transcripts = Arc::new(transcripts);
    std::thread::scope(|scope| {
        for part in 0..8 {
            let transcripts = Arc::clone(&transcripts);
            scope.spawn(move || {
                for step in 0..10 {
                    for index in (part..512).step_by(8) {
                        let note = LineEvent::Note(format!("child {index} step {step}\nend"));
                        transcripts.append(&heading(index).child, AT, &note);
                    }
                }
                for index in (part..512).step_by(8) {
                    transcripts.finish(&heading(index).child, AT, Outcome::Succeeded, None);
                }
            });
        }
    });
    let label = |index: usize| format!("[{index}] ");
    let source = |(index, path): (usize, &String)| Source { label: label(index), path: path.into() };
    let mut follow = Follow::new(paths.iter().enumerate().map(source).collect());
    let mut followed = 0;
    while !follow.has_ended() {
        followed += follow.look().expect("files").len();
        std::thread::yield_now();
    }
    assert_eq!(followed, 512 * (4 + 12));
    assert!(transcripts.close());
    for (index, path) in paths.iter().enumerate() {
        let mut expected = vec![format!("user     | read file {index}")];
        expected.extend((0..10).map(|step| format!("note     | child {index} step {step} end")));
        expected.push("final    | completed (completed)".to_owned());
        assert_eq!(told(path), expected);
    }
    assert!(
        manifest(folder.path())["tasks"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|task| task["status"] == "completed")
    );
}

#[test]
fn inv_29_closing_writes_everything_also_while_somebody_holds_the_port() {
    let (folder, transcripts, paths) = started(1);
    let transcripts = Arc::new(transcripts);
    let holder = Arc::clone(&transcripts);
    transcripts.finish(&heading(0).child, AT, Outcome::Succeeded, None);
    assert!(transcripts.close());
    assert_eq!(told(&paths[0]).last().map(String::as_str), Some("final    | completed (completed)"));
    assert_eq!(manifest(folder.path())["tasks"][0]["status"], "completed");
    tool(&holder, &heading(0).child, "too late");
    assert!(holder.close(), "closing twice is no harm");
    assert_eq!(told(&paths[0]).len(), 2);
}

/// Proves SEC-11, DUR-19.
#[test]
fn live_06_a_disk_that_fails_costs_lines_and_nothing_else() {
    let (folder, transcripts, paths) = started(2);
    while fs::remove_dir_all(folder.path().join("live/deleg_00000abc")).is_err() {
        // The thread that writes makes it.
        std::thread::yield_now();
    }
    tool(&transcripts, &heading(0).child, "nobody reads this");
    transcripts.finish(&heading(0).child, AT, Outcome::Succeeded, None);
    drop(transcripts);
    assert!(!Path::new(&paths[0]).exists());
}

/// Proves SEC-7.
#[test]
fn a_link_that_was_put_in_the_way_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (own, other) = (folder.path().join("live/deleg_00000abc"), folder.path().join("other"));
    fs::create_dir_all(&own).expect("folders");
    std::os::unix::fs::symlink(&other, own.join("task-0.log")).expect("a link");
    let transcripts = FileTranscripts::new(folder.path().join("live")).expect("a thread");
    transcripts.reopen(&[heading(0)], &[], AT).expect("the folder is there");
    tool(&transcripts, &heading(0).child, "not there");
    drop(transcripts);
    assert!(!other.exists());
}

#[test]
fn live_01_nothing_is_left_of_a_call_that_came_to_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let transcripts = FileTranscripts::new(folder.path().join("live")).expect("a thread");
    let other = DelegationId::from_bits(0xdef);
    for delegation in [heading(0).delegation, other.clone()] {
        transcripts.create(&[Heading { delegation, ..heading(0) }]).expect("it is made");
    }
    transcripts.discard(&heading(0).delegation);
    transcripts.discard(&heading(0).delegation);
    assert!(transcripts.close());
    let left = fs::read_dir(folder.path().join("live")).expect("it is there");
    let left: Vec<_> = left.map(|entry| entry.expect("it reads").file_name()).collect();
    assert_eq!(left, [other.as_str()]);
}

/// Proves INV-36 for transcripts: where ids were drawn twice, nothing is written over the older ones.
#[test]
fn inv_36_the_transcripts_of_older_work_are_not_created_anew() {
    let (folder, transcripts, paths) = started(1);
    assert!(transcripts.close());
    let before = (told(&paths[0]), manifest(folder.path()));
    let later = FileTranscripts::new(folder.path().join("live")).expect("a thread");
    let other = Heading { goal: "something else".to_owned(), ..heading(0) };
    later.create(&[other]).expect("nobody asks the disk for it");
    tool(&later, &heading(0).child, "not there");
    later.discard(&heading(0).delegation);
    assert!(later.close());
    assert_eq!((told(&paths[0]), manifest(folder.path())), before);
}

/// Proves INV-7 for the one loop of the engine: a disk that hangs is waited for by the thread that writes alone. What that one has
/// found out is told to whoever comes next.
#[test]
fn live_11_a_folder_that_cannot_be_made_is_an_error_with_its_path_once_the_disk_has_said_so() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("live"), "a file").expect("a file");
    let transcripts = FileTranscripts::new(folder.path().join("live")).expect("a thread");
    let paths = transcripts.create(&[heading(0)]).expect("nobody asks the disk for it");
    assert!(paths[0].ends_with("live/deleg_00000abc/task-0.log"), "{paths:?}");
    tool(&transcripts, &heading(0).child, "nobody reads this");
    assert!(transcripts.close());
    let error = transcripts.create(&[heading(0)]).expect_err("there is a file in the way");
    assert!(error.path.ends_with("live/deleg_00000abc"), "{error}");
    assert!(transcripts.create(&[]).expect("nothing to make").is_empty());
}
