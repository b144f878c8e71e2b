//! Tests of background processes: `terminal` starts them, `process` looks after them, their agent's end ends them.

use super::ledger::Ledger;
use super::rig::Rig;
use crate::process::{End, is_group_gone, sweep_but};
use crate::tools::{BackgroundReport, BackgroundState, Known};
use legwork_core::ids::{ChildId, DelegationId, SessionId};
use legwork_core::record::ProcessGroup;
use legwork_core::step::Actor;
use serde_json::json;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// Starts a command in the background; gives the answer.
async fn start(rig: &Rig, command: &str) -> String {
    rig.ok("terminal", json!({"command": command, "background": true})).await
}

async fn process(rig: &Rig, action: &str, id: &str) -> String {
    rig.ok("process", json!({"action": action, "id": id})).await
}

fn actor(rig: &Rig) -> Actor {
    Actor::Child(rig.child.clone())
}

fn reports(rig: &Rig) -> Vec<BackgroundReport> {
    rig.commands.background.of(&actor(rig))
}

fn last_group(rig: &Rig) -> ProcessGroup {
    rig.ledger.noted().last().expect("it was noted").clone()
}

/// A command that has written `up` when this returns, and goes on for long.
async fn server(rig: &Rig) {
    let pipe = rig.path("up");
    if !pipe.exists() {
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    }
    start(rig, "echo up; echo up >up; exec sleep 981").await;
    let heard = tokio::task::spawn_blocking(move || std::fs::read_to_string(pipe)).await;
    assert_eq!(heard.expect("no panic").expect("the pipe"), "up\n");
}

#[tokio::test]
async fn a_background_command_answers_at_once_and_is_waited_for() {
    let rig = Rig::new();
    let begun = Instant::now();
    let answer = start(&rig, "until test -e go; do :; done; echo done; exit 3").await;
    rig.write("go", "");
    assert!(begun.elapsed() < PATIENCE / 4, "it took {:?}", begun.elapsed());
    assert!(answer.starts_with("[started in the background as proc_1]\n"), "{answer}");
    let waited = process(&rig, "wait", "proc_1").await;
    assert!(waited.starts_with("[proc_1 ended with exit code 3 after "), "{waited}");
    assert!(waited.contains("]\ndone\n[bytes 0 to 5 of 5; "), "{waited}");
    let file =
        std::fs::read_dir(rig.path("spill")).expect("the folder").next().expect("one").expect("entry").path();
    assert!(answer.contains(&file.display().to_string()) && waited.contains(&file.display().to_string()));
    assert_eq!(std::fs::read_to_string(file).expect("the file"), "done\n");
    assert_eq!(rig.left(), 0);
}

#[tokio::test]
async fn a_log_shows_the_last_lines_or_what_comes_after_an_offset() {
    let rig = Rig::new();
    assert!(rig.ok("process", json!({"action": "list"})).await.starts_with("[no background processes; "));
    start(&rig, "seq 1 500").await;
    process(&rig, "wait", "proc_1").await;
    let last = rig.ok("process", json!({"action": "log", "id": "proc_1", "lines": 2})).await;
    assert!(last.contains(" s]\n499\n500\n[bytes 1884 to 1892 of 1892; "), "{last}");
    let from = rig.ok("process", json!({"action": "log", "id": "proc_1", "offset": 1888})).await;
    assert!(from.contains(" s]\n500\n[bytes 1888 to 1892 of 1892; "), "{from}");
    let none = rig.ok("process", json!({"action": "log", "id": "proc_1", "offset": 1892})).await;
    assert!(none.contains("[no output after byte 1892]"), "{none}");
    start(&rig, "true").await;
    assert!(process(&rig, "wait", "proc_2").await.contains("[no output]"));
    let list = rig.ok("process", json!({"action": "list"})).await;
    assert!(
        list.contains("1892 bytes of output, 0 unread: seq 1 500\nproc_2 ended with exit code 0"),
        "{list}"
    );
}

#[tokio::test]
async fn k27_what_is_at_hand_of_an_output_is_bounded_and_the_rest_is_in_its_file() {
    let rig = Rig::new();
    start(&rig, "seq 1 100000").await;
    let waited = rig.ok("process", json!({"action": "wait", "id": "proc_1", "lines": 2000})).await;
    assert!(waited.len() < 26 * 1024 && waited.contains("\n100000\n[bytes "), "{}", waited.len());
    let log = rig.ok("process", json!({"action": "log", "id": "proc_1", "offset": 0})).await;
    assert!(
        log.contains("[bytes 0 to 523359 are no longer at hand; use read_file or search_files on "),
        "{log:.200}"
    );
    assert!(log.contains(" of 588895; offset "), "{log:.200}");
}

#[tokio::test]
async fn k15_a_killed_process_is_gone_with_all_that_it_started() {
    let rig = Rig::new();
    server(&rig).await;
    let killed = process(&rig, "kill", "proc_1").await;
    assert!(killed.starts_with("[proc_1 was ended because you asked for it after "), "{killed}");
    assert!(killed.contains("\nup\n"), "{killed}");
    assert!(is_group_gone(&last_group(&rig)));
    assert_eq!(process(&rig, "kill", "proc_1").await, killed, "killing it again tells the same");
    let stubborn =
        "trap '' TERM; (trap '' TERM; sleep 982) & mkfifo set; echo >set; while :; do sleep 1; done";
    start(&rig, stubborn).await;
    rig.ok("terminal", json!({"command": "until test -p set; do :; done; read line <set"})).await;
    let killed = process(&rig, "kill", "proc_2").await;
    assert!(killed.contains("sleep 982"), "{killed}");
    assert_eq!(rig.left(), 0);
    let noted = rig.ledger.noted();
    rig.commands.close().await;
    assert_eq!(rig.ledger.dropped().len(), noted.len(), "every group is forgotten");
}

#[tokio::test]
async fn a_wait_ends_at_its_time_or_is_dropped_and_the_process_goes_on() {
    let rig = Rig::new();
    server(&rig).await;
    let waited = rig.ok("process", json!({"action": "wait", "id": "proc_1", "seconds": 1})).await;
    assert!(waited.starts_with("[proc_1 has been running for "), "{waited}");
    let mut waiting = Box::pin(process(&rig, "wait", "proc_1"));
    assert!(futures::poll!(&mut waiting).is_pending());
    drop(waiting);
    assert_eq!(reports(&rig)[0].state, BackgroundState::Running);
    assert!(!is_group_gone(&last_group(&rig)));
    process(&rig, "kill", "proc_1").await;
    assert_eq!(rig.left(), 0);
}

#[tokio::test]
async fn k15_a_start_that_is_dropped_leaves_nothing_behind() {
    let rig = Rig::with(Ledger::slow());
    let call = json!({"command": "touch ran; sleep 983", "background": true});
    let mut starting = Box::pin(rig.call("terminal", call));
    assert!(futures::poll!(&mut starting).is_pending(), "it waits for the store");
    assert_eq!(rig.ledger.noted().len(), 1);
    drop(starting);
    assert!(is_group_gone(&last_group(&rig)) && reports(&rig).is_empty() && !rig.path("ran").exists());
    assert_eq!(rig.left(), 0);
}

#[tokio::test]
async fn inv_14_a_background_process_that_cannot_be_stored_is_not_run() {
    let rig = Rig::with(Ledger::refusing());
    let message = rig.err("terminal", json!({"command": "touch ran", "background": true})).await;
    assert!(message.starts_with("nothing was run, because its process could not be stored"), "{message}");
    assert!(reports(&rig).is_empty() && !rig.path("ran").exists());
    assert_eq!(rig.left(), 0);
}

#[tokio::test]
async fn an_agent_may_have_eight_of_them_and_the_error_says_so() {
    let rig = Rig::new();
    for _ in 0..8 {
        start(&rig, "sleep 984").await;
    }
    let message = rig.err("terminal", json!({"command": "touch ran", "background": true})).await;
    assert!(message.contains("8 background processes") && message.contains("proc_1, proc_2"), "{message}");
    process(&rig, "kill", "proc_3").await;
    assert!(start(&rig, "sleep 984").await.contains("proc_9"));
    rig.commands.background.cut_off(&actor(&rig));
    assert_eq!(rig.left(), 0);
}

/// Proves RUN-25.
#[tokio::test]
async fn an_agent_sees_and_ends_its_own_processes_only() {
    let mut rig = Rig::new();
    server(&rig).await;
    let owner = std::mem::replace(&mut rig.child, ChildId::from_bits(1, 1));
    assert!(rig.ok("process", json!({"action": "list"})).await.starts_with("[no background processes; "));
    for action in ["log", "wait", "kill"] {
        let message = rig.err("process", json!({"action": action, "id": "proc_1"})).await;
        assert!(message.starts_with("process: there is no process `proc_1`; you have no"), "{message}");
    }
    rig.child = owner;
    assert_eq!(reports(&rig)[0].state, BackgroundState::Running);
    let ended = rig.commands.background.end(&actor(&rig)).await;
    assert_eq!(ended.reports.len(), 1);
    assert_eq!(rig.left(), 0);
}

#[tokio::test]
async fn k15_the_end_of_a_foreground_command_leaves_the_background_alone() {
    let rig = Rig::new();
    // The sleeper has lost its parent and left the group, so it is known by its mark alone.
    start(&rig, "(setsid sh -c 'echo $$ >pid; exec sleep 985' &); exec sleep 986").await;
    let looks = "until test -s pid && grep -qsx sleep /proc/$(cat pid)/comm; do :; done";
    for command in [looks, "grep -x sleep /proc/$(cat pid)/comm"] {
        let output = rig.ok("terminal", json!({"command": command})).await;
        assert!(!output.contains("ended"), "{output}");
    }
    let killed = process(&rig, "kill", "proc_1").await;
    assert!(killed.contains("sleep 985"), "it is named with its own command: {killed}");
    assert_eq!(rig.left(), 0);
}

#[tokio::test]
async fn proc_08_the_end_of_an_agent_tells_what_ran_and_what_was_not_looked_at() {
    let rig = Rig::new();
    start(&rig, "echo seen").await;
    process(&rig, "wait", "proc_1").await;
    start(&rig, "echo unseen; exit 4").await;
    let ends = async {
        while reports(&rig)[1].state == BackgroundState::Running {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, ends).await.expect("it ends by itself");
    server(&rig).await;
    let reports = rig.commands.background.end(&actor(&rig)).await.reports;
    let states: Vec<BackgroundState> = reports.iter().map(|report| report.state).collect();
    let ended = |code, shown| BackgroundState::Ended { end: End::Exited(code), shown };
    assert_eq!(states, [ended(0, true), ended(4, false), BackgroundState::Running]);
    assert_eq!((reports[0].unread_bytes, reports[1].unread_bytes), (0, 7));
    assert_eq!(
        (reports[1].output_tail.as_str(), reports[1].command.as_str()),
        ("unseen\n", "echo unseen; exit 4")
    );
    assert!(rig.commands.background.of(&actor(&rig)).is_empty());
    assert!(is_group_gone(&last_group(&rig)));
    assert_eq!(rig.left(), 0);
}

/// Proves PROC-4, PROC-5, PROC-7: lengths are counted in characters, whatever bytes they take.
#[tokio::test]
async fn proc_05_a_long_command_and_a_long_output_are_cut_by_characters() {
    let mut rig = Rig::new();
    rig.commands.background.introduce(actor(&rig), known());
    rig.commands.background.surface();
    let command = format!("i=0; while [ $i -lt 2000 ]; do printf é; i=$((i+1)); done; : {}", "ü".repeat(300));
    start(&rig, &command).await;
    let notices = until_notices(&mut rig).await;
    let tail = "é".repeat(600);
    assert!(notices[0].ends_with(&format!("| {tail}")), "{notices:?}");
    let report = reports(&rig).remove(0);
    assert_eq!(report.output_tail, tail);
    assert_eq!((report.command.chars().count(), report.command.ends_with("ü…")), (200, true));
    rig.commands.close().await;
}

/// Proves RUN-2.
#[tokio::test(flavor = "multi_thread")]
async fn k15_an_agent_that_is_cut_off_leaves_nothing_and_its_groups_are_forgotten() {
    let rig = Rig::new();
    server(&rig).await;
    start(&rig, "trap '' TERM; sleep 987").await;
    rig.commands.background.cut_off(&actor(&rig));
    let noted = rig.ledger.noted();
    assert!(noted.iter().all(|group| rig.is_dead(group.pgid)), "they are dead when it returns");
    assert_eq!(rig.left(), 0);
    // The tasks are dropped by the runtime, some time later.
    let dropped = async {
        while rig.ledger.dropped().len() < noted.len() {
            rig.commands.close().await;
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, dropped).await.expect("they are dropped");
}

#[tokio::test]
async fn after_the_end_of_the_program_nothing_starts() {
    let rig = Rig::new();
    rig.commands.close().await;
    let message = rig.err("terminal", json!({"command": "touch ran", "background": true})).await;
    assert_eq!(message, "the program is ending; nothing was run");
}

#[tokio::test]
async fn inv_21_every_wrong_call_is_answered_with_what_to_send() {
    let rig = Rig::new();
    let cases = [
        (json!({}), "`action` is missing"),
        (
            json!({"action": "poll"}),
            "`action` must be one of \"list\", \"log\", \"wait\", \"kill\", \"hand_off\"",
        ),
        (json!({"action": "log"}), "`id` is missing: say which process; you have no background processes"),
        (json!({"action": "list", "id": "proc_1"}), "`id` belongs to log, wait, kill and hand_off"),
        (json!({"action": "wait", "id": "proc_1", "offset": 3}), "`offset` belongs to log"),
        (json!({"action": "kill", "id": "proc_1", "seconds": 3}), "`seconds` belongs to wait"),
        (json!({"action": "wait", "id": "proc_1", "seconds": 601}), "must be at most 600"),
        (json!({"action": "log", "id": "proc_1", "lines": 1, "offset": 0}), "`lines` or `offset`, not both"),
    ];
    for (arguments, words) in cases {
        let message = rig.err("process", arguments).await;
        assert!(message.contains(words), "{message}");
    }
    start(&rig, "sleep 988").await;
    let message = rig.err("process", json!({"action": "kill", "id": "proc_2"})).await;
    assert!(message.contains("there is no process `proc_2`; yours are proc_1"), "{message}");
    rig.commands.close().await;
    assert_eq!(rig.left(), 0);
}

fn known() -> Known {
    let delegation = DelegationId::from_bits(1);
    Known { parent: heir(), delegation, goal: format!("serve {}", "x".repeat(200)) }
}

fn heir() -> Actor {
    Actor::Session(SessionId::from_bits(1))
}

/// Proves PROC-2, PROC-3: what is handed over is another's, goes on, and its end is told once.
#[tokio::test]
async fn proc_02_a_running_process_is_handed_over_with_its_purpose_and_its_end_is_told() {
    let mut rig = Rig::new();
    rig.commands.background.introduce(actor(&rig), known());
    rig.commands.background.arrive(heir());
    start(&rig, "until test -e go; do :; done; echo served; exit 5").await;
    let purpose = json!({"action": "hand_off", "id": "proc_1", "purpose": "It serves\nthe pages."});
    let answer = rig.ok("process", purpose.clone()).await;
    assert!(answer.contains("proc_1-of-sa-"), "{answer}");
    assert!(rig.err("process", purpose).await.contains("there is no process `proc_1`"));
    let leaving = rig.commands.background.end(&actor(&rig)).await;
    assert_eq!((leaving.reports.len(), leaving.handed_off.len(), leaving.spared.len()), (0, 1, 1));
    let handed = &leaving.handed_off[0];
    assert_eq!(
        (handed.purpose.as_str(), handed.command.starts_with("until test")),
        ("It serves the pages.", true)
    );
    assert_eq!(sweep_but(&actor(&rig), &leaving.spared), []);
    let heirs = rig.commands.background.of(&heir());
    assert_eq!((heirs.len(), heirs[0].state), (1, BackgroundState::Running));
    rig.write("go", "");
    let notices = until_notices(&mut rig).await;
    assert_eq!(notices.len(), 1);
    assert!(notices[0].contains("ended with exit code 5") && notices[0].contains("| served"), "{notices:?}");
    assert!(notices[0].contains("had handed it over to you"), "{notices:?}");
    assert_eq!(rig.toolbox.notices(&heir()), Vec::<String>::new(), "once");
    rig.commands.close().await;
    assert_eq!(rig.left(), 0);
}

async fn until_notices(rig: &mut Rig) -> Vec<String> {
    let told = async {
        loop {
            let notices = rig.toolbox.notices(&heir());
            if !notices.is_empty() {
                return notices;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.expect("it is told")
}

#[tokio::test]
async fn proc_02_what_cannot_be_handed_over_is_refused_with_the_reason() {
    let rig = Rig::new();
    let hand_off = |id: &str| json!({"action": "hand_off", "id": id, "purpose": "It serves."});
    start(&rig, "sleep 971").await;
    let message = rig.err("process", hand_off("proc_1")).await;
    assert!(message.contains("you work for nobody"), "{message}");
    rig.commands.background.introduce(actor(&rig), known());
    let message = rig.err("process", hand_off("proc_1")).await;
    assert!(message.contains("is not at work in this process of legwork"), "{message}");
    rig.commands.background.arrive(heir());
    let message = rig.err("process", json!({"action": "hand_off", "id": "proc_1"})).await;
    assert!(message.contains("`purpose` must say in one sentence"), "{message}");
    start(&rig, "true").await;
    process(&rig, "wait", "proc_2").await;
    let message = rig.err("process", hand_off("proc_2")).await;
    assert!(message.contains("only a running process"), "{message}");
    for id in ["proc_3", "proc_4", "proc_5"] {
        start(&rig, "sleep 971").await;
        rig.ok("process", hand_off(id)).await;
    }
    let message = rig.err("process", hand_off("proc_1")).await;
    assert!(message.contains("may hand over 3 processes"), "{message}");
    rig.commands.close().await;
    assert_eq!(rig.left(), 0);
}

/// Proves PROC-6, PROC-7.
#[tokio::test]
async fn proc_06_the_ends_of_a_subagents_own_processes_are_told_above_only_when_that_is_wanted() {
    let mut rig = Rig::new();
    rig.commands.background.introduce(actor(&rig), known());
    start(&rig, "true").await;
    process(&rig, "wait", "proc_1").await;
    rig.commands.background.surface();
    start(&rig, "echo hello; exit 7").await;
    let notices = until_notices(&mut rig).await;
    assert_eq!(notices.len(), 1, "the end before it was wanted is not told: {notices:?}");
    for words in
        ["of your subagent sa-", "delegation deleg_00000001", "proc_2 ended with exit code 7", "| hello"]
    {
        assert!(notices[0].contains(words), "{words}: {notices:?}");
    }
    let goal = format!("| serve {}\n", "x".repeat(114));
    assert!(notices[0].contains(&goal), "PROC-7: {notices:?}");
    rig.commands.close().await;
}
