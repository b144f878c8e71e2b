//! Tests: one task that comes back alone, and one whose end is not known.

use super::tests::{answered, arrival, written};
use super::{Arrival, gather, title_of_completion, unit_of_completion, write};
use legwork_core::aftermath::{ChildProcesses, HandedOff, Orphaned, UnreadCompletion};
use legwork_core::batch::Unit;
use legwork_core::ids::UnitId;
use legwork_core::outcome::{Ending, FailureKind, Outcome, StopReason};
use legwork_core::pulse::{Phase, Pulse};
use legwork_core::report::Report;
use legwork_core::time::Timestamp;
use std::fs;
use std::path::Path;

/// Proves EVT-3, EVT-14.
#[test]
fn one_task_alone_has_the_form_of_a_batch_of_one_with_its_reason_and_what_it_had_said() {
    let half = |error: &str, ending| Report {
        error: Some(error.to_owned()),
        ..Report { ending, ..answered("half") }
    };
    let stopped = half("stopped on request", Ending::Interrupted);
    let failed = half("it broke", Ending::Failed(FailureKind::Tool));
    for (outcome, report, status, said) in [
        (Outcome::Succeeded, answered("whole"), "✓ TASK 1/1: completed, ", "Answer:\n| whole\n"),
        (
            Outcome::Stopped(StopReason::Cancelled),
            stopped,
            "✗ TASK 1/1: interrupted, ",
            "Error:\n| stopped on request\nPartial output; it did not complete:\n| half\n",
        ),
        (
            Outcome::Failed(FailureKind::Tool),
            failed,
            "✗ TASK 1/1: failed, ",
            "Error:\n| it broke\nPartial output; it did not complete:\n| half\n",
        ),
    ] {
        let text = written(&[("go", outcome, report)]).text;
        for part in ["[The result of a subagent: ", status, "model calls: 4, tool calls: 0, took 1m3s", said]
        {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
    }
}

#[test]
fn evt_07_of_a_lost_child_its_last_known_place_and_the_end_of_its_transcript_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("task-0.log");
    fs::write(&log, "# head\n12:00:00 tool     | terminal make\n[TASK 1/1: completed]\n")
        .expect("it is written");
    let lost = ("go", Outcome::Lost, Report::bare(Ending::Interrupted));
    let mut arrival = arrival(&[lost, ("look", Outcome::Succeeded, answered("seen"))]);
    arrival.record.accepted.transcripts[0] = log.display().to_string();
    let phase = Phase::Tool("terminal".to_owned());
    arrival.record.children[0].pulse =
        Some((Pulse { phase, model_calls: 2, tool_calls: 1, ..Pulse::default() }, Timestamp(65_000)));
    arrival.remains = gather(&arrival.record, 0, arrival.now);
    arrival.remains[0].git = Some("branch: main\n M file".to_owned());
    let text = write(&arrival, 64 * 1024, Path::new("/nowhere")).text;
    let (lost, whole) = text.split_once("✓ TASK 2/2").expect("both are told");
    for part in [
        "✗ TASK 1/2: unknown, ",
        "\nLast known, and no longer so: running the tool terminal, model calls: 2, tool calls: 1, 2m before this message\n",
        "The end of its transcript:\n| 12:00:00 tool     | terminal make\n| [TASK 1/1: completed]\n",
        "Git in its folder, as it is now:\n| branch: main\n|  M file\n",
        &format!("Live transcript: {}", log.display()),
    ] {
        assert!(lost.contains(part), "{part:?} is missing in:\n{text}");
    }
    assert!(!whole.contains("Last known") && !whole.contains("end of its transcript"), "{text}");
}

/// Proves EVT-13, PROC-8: what became of each, in words of ours and quoted commands.
#[test]
fn evt_13_what_became_of_a_childs_processes_is_told_with_its_answer() {
    let handed_off = HandedOff {
        session_id: "proc_1-of-sa-0-00000007".to_owned(),
        command: "serve".to_owned(),
        purpose: "It serves the pages.".to_owned(),
        ended: false,
        left: false,
    };
    let orphaned =
        Orphaned { session_id: "proc_2".to_owned(), command: "make all".to_owned(), runtime_seconds: 3.0 };
    let unread = UnreadCompletion {
        session_id: "proc_3".to_owned(),
        command: "test it".to_owned(),
        exit_code: Some(4),
        output_tail: "two failed".to_owned(),
    };
    let processes = ChildProcesses {
        handed_off: vec![handed_off],
        handed_groups: Vec::new(),
        orphaned: vec![orphaned],
        unread: vec![unread],
    };
    let report = Report { processes, ..answered("done") };
    let text = written(&[("go", Outcome::Succeeded, report)]).text;
    let (_, told) = text.split_once("Its background processes:\n").expect("they are told");
    for part in [
        "proc_1-of-sa-0-00000007",
        "serve",
        "It serves the pages.",
        "proc_2",
        "make all",
        "proc_3",
        "test it",
        "exit code 4",
        "two failed",
    ] {
        let line = told.lines().find(|line| line.contains(part));
        assert!(line.is_some_and(|line| line.starts_with("| ")), "{part:?} is not quoted in:\n{told}");
    }
    let place = |part: &str| told.find(part).unwrap_or_else(|| panic!("{part} is missing in {told}"));
    assert!(place("proc_1-of") < place("proc_2") && place("proc_2") < place("proc_3"), "{told}");
}

#[test]
fn a_stored_completion_tells_its_unit_and_its_title() {
    let mut arrival =
        arrival(&[("a", Outcome::Succeeded, answered("x")), ("b", Outcome::Lost, answered("y"))]);
    let said = |arrival: &Arrival| write(arrival, 64 * 1024, Path::new("/nowhere"));
    let whole = said(&arrival);
    assert_eq!(unit_of_completion(&whole.text), Some(arrival.record.accepted.units[0].id.clone()));
    assert_eq!(title_of_completion(&arrival.record, 0), whole.title);
    let delegation = arrival.record.accepted.delegation.clone();
    let unit = |k: usize| Unit {
        id: UnitId::part(&delegation, k),
        task_indexes: vec![k - 1],
        group: None,
        inline: false,
    };
    arrival.record.accepted.units = vec![unit(1), unit(2)];
    arrival.unit = 1;
    let part = said(&arrival);
    assert_eq!(unit_of_completion(&part.text), Some(UnitId::part(&delegation, 2)));
    assert_eq!(title_of_completion(&arrival.record, 1), part.title);
    for other in ["", "[x]", "hello", "[The result of a subagent: nothing deleg_1]"] {
        assert_eq!(unit_of_completion(other), None, "{other}");
    }
}
