//! A process that dies while it writes a transcript: what it left is shown as far as it goes, whoever goes on with the
//! subagent writes whole lines behind it, and the answer does not depend on any of it.

use std::fs;
use std::path::PathBuf;

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use serde_json::json;

use crate::harness::{Home, until};

/// How the last bytes of a transcript are after a death.
type Damage = fn(Vec<u8>) -> Vec<u8>;

const GOES_ON: &str = "from here on another process runs it";

fn script() -> Script {
    Script::from_fn(|talk: &Conversation| match talk.step() {
        0 => call("terminal", json!({"command": "echo größe >> done.txt; cat done.txt"})),
        _ => gate("here").then(say("the answer")),
    })
}

/// The transcript, when the command and its result are in it.
fn transcript(home: &Home, id: &str) -> PathBuf {
    let path = home.state().join("live").join(id).join("task-0.log");
    until("the result to be written", || {
        let text = fs::read_to_string(&path).ok()?;
        (text.contains("result   | ") && text.ends_with('\n')).then_some(path.clone())
    })
}

#[track_caller]
fn left_with(damage: Damage) {
    let server = ScriptedServer::start(Scripts::default().agent("work", script()));
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "work"]).start();
    let id = running.delegation();
    server.gate("here").wait_reached();
    let path = transcript(&home, &id);
    running.kill();
    let whole = fs::read(&path).expect("it is there");
    let left = damage(whole.clone());
    fs::write(&path, &left).expect("ours");
    let kept = whole.iter().zip(&left).take_while(|(a, b)| a == b).count();
    let kept = String::from_utf8_lossy(&whole[..kept]).into_owned();
    let kept: Vec<&str> = kept.split_inclusive('\n').filter(|line| line.ends_with('\n')).collect();
    let kept: Vec<&str> = kept.into_iter().map(str::trim_end).collect();

    let shown = home.legwork(&["tail", &id]).run();
    assert_eq!(shown.code, 0, "{shown}");
    assert_eq!(shown.stdout.lines().take(kept.len()).collect::<Vec<_>>(), kept, "{shown}");
    assert_eq!(
        shown.stdout.lines().last().is_some_and(|line| line.ends_with("[cut off here]")),
        left.last().is_some_and(|byte| *byte != b'\n'),
        "{shown}"
    );
    server.gate("here").open();
    let ended = home.legwork(&["results", &id, "--wait", "--json"]).run();
    assert_eq!(ended.statuses(), ["completed"], "{ended}");
    assert_eq!(home.read("done.txt"), "größe\n", "the journal, not the transcript, knows what was done");
    assert_eq!(server.log().entries().len(), 3, "{}", server.log().summary());
    let all = home.legwork(&["tail", &id, "--json"]).run();
    let lines = all.json()["lines"].as_array().expect("lines").clone();
    let lines: Vec<&str> = lines.iter().filter_map(|line| line.as_str()).collect();
    assert_eq!(lines[..kept.len()], kept, "{all}");
    let note = lines.iter().position(|line| line.contains(GOES_ON)).expect("it says who goes on");
    assert!(lines[note..].iter().all(|line| !line.contains("damaged")), "{all}");
    assert!(lines.last().is_some_and(|line| line.contains("final    | completed")), "{all}");
    assert!(!fs::read(&path).expect("it is there")[left.len()..].contains(&0), "nothing more is damaged");
    let shown = home.legwork(&["show", &id]).run();
    assert!(shown.code == 0 && shown.stdout.contains("completed"), "{shown}");
}

#[test]
fn k43_a_transcript_that_a_kill_left_cut_off_is_shown_and_gone_on_with() {
    left_with(|mut bytes| {
        bytes.truncate(bytes.len() - 1);
        bytes
    });
    left_with(|mut bytes| {
        // In the middle of a character.
        let place = bytes.windows(2).rposition(|pair| pair == "ö".as_bytes()).expect("it is in the result");
        bytes.truncate(place + 1);
        bytes
    });
    left_with(|mut bytes| {
        let start = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("more lines");
        bytes.truncate(start + 1);
        bytes
    });
}

#[test]
fn k43_a_transcript_without_its_head_and_an_empty_one_are_gone_on_with() {
    left_with(|mut bytes| {
        bytes.truncate(17);
        bytes
    });
    left_with(|_| Vec::new());
}

#[test]
fn k43_a_transcript_that_ends_in_zero_bytes_is_shown_and_gone_on_with() {
    left_with(|bytes| [bytes, vec![0; 500]].concat());
}

/// The files right in the state folder, as a process left them that was killed, without the index that every start makes anew.
fn files_left(home: &Home) -> Vec<(PathBuf, Vec<u8>)> {
    let entries =
        fs::read_dir(home.state()).expect("it is there").map(|entry| entry.expect("an entry").path());
    let files = entries
        .filter(|path| path.is_file() && path.file_name().is_some_and(|name| name != "legwork.db-shm"));
    files.map(|path| (path.clone(), fs::read(&path).expect("it can be read"))).collect()
}

/// The lengths of a log after each commit: the second word of the head of a frame says so.
fn commits(log: &[u8]) -> Vec<usize> {
    const FRAME: usize = 24 + 4096;
    let frames = log[32..].chunks_exact(FRAME).enumerate();
    let ends = frames.filter(|(_, frame)| frame[4..8] != [0; 4]).map(|(place, _)| 32 + (place + 1) * FRAME);
    ends.collect()
}

/// A prompt that delegates to a child of some steps, and asks again when it hears of nothing.
fn conversation() -> Scripts {
    let child = Script::from_fn(|talk: &Conversation| match talk.step() {
        step @ 0..=5 => call("terminal", json!({"command": format!("echo {step} >> steps.txt")})),
        6 => gate("here").then(say("the whole answer")),
        _ => say("the whole answer"),
    });
    let prompt = Script::from_fn(|talk: &Conversation| {
        let has_come = |text: &str| text.contains("the whole answer");
        if has_come(talk.last_text()) || talk.tool_results().into_iter().any(has_come) {
            return say("it came");
        }
        call("delegate_task", json!({"goal": "this takes some steps"}))
    });
    Scripts::default().agent("some steps", child).agent("the prompt", prompt)
}

/// The machine stopped, and the log of the database ends anywhere: whatever the conversation then knows, it goes on, is legal
/// for a strict provider, and hears of each result once.
#[test]
fn k43_k02_a_conversation_goes_on_from_a_log_that_ends_at_any_byte() {
    let server = ScriptedServer::start(conversation());
    let home = Home::with(&server);
    let running = home.legwork(&["run", "this is the prompt"]).start();
    server.gate("here").wait_reached();
    running.kill();
    server.gate("here").open();
    let left = files_left(&home);
    let log = &left.iter().find(|(path, _)| path.ends_with("legwork.db-wal")).expect("a log").1;
    let ends = commits(log);
    assert!(ends.len() > 20, "{ends:?}");
    // In the last commit at many places, and each second one before it whole, cut short and with a beginning of the next.
    let last = ends[ends.len() - 1];
    let mut cuts = vec![last, last - 1, last - 3000, ends[ends.len() - 2] + 1];
    cuts.extend(ends.iter().rev().skip(1).step_by(2).enumerate().map(|(n, end)| end + [0, 1500][n % 2]));
    let mut without = 0;
    for cut in cuts {
        fs::remove_dir_all(home.state()).expect("ours");
        fs::create_dir(home.state()).expect("ours");
        for (path, bytes) in &left {
            let is_log = path.ends_with("legwork.db-wal");
            fs::write(path, if is_log { &bytes[..cut.min(bytes.len())] } else { bytes }).expect("ours");
        }
        let known = home.legwork(&["sessions", "list", "--all", "--json"]).run();
        assert_eq!(known.code, 0, "{cut}: {known}");
        if known.json()["sessions"].as_array().is_none_or(Vec::is_empty) {
            without += 1;
            continue;
        }
        for question in ["and now, the prompt?", "and again, the prompt?"] {
            let ended = home.legwork(&["run", question, "--last"]).run();
            assert_eq!((ended.code, ended.stdout.as_str()), (0, "it came\n"), "{cut}: {ended}");
            let log = server.log();
            let asked = log.entries().last().expect("a request").body["messages"].to_string();
            assert_eq!(asked.matches("the whole answer").count(), 1, "{cut}: {asked}");
        }
        assert!(home.ps().is_empty(), "{cut}: everything has ended");
        for delegation in home.list() {
            let units = delegation["units"].as_array().expect("units").clone();
            assert!(units.iter().all(|unit| unit["delivery"] == json!("delivered")), "{cut}: {delegation}");
        }
        let doctor = home.legwork(&["doctor", "--offline"]).run();
        assert_eq!(doctor.code, 0, "{cut}: {doctor}");
    }
    assert!(without < ends.len() / 4, "{without} of them knew nothing of the conversation");
    home.assert_nothing_runs();
}
