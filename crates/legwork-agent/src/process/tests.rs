//! Real processes: the gate, both kinds of shell, recovery and sweeps.

use super::identity::{self, Look};
use super::*;
use crate::spill::SpillPlace;
use legwork_core::ids::ChildId;
use legwork_core::ports::{GroupEnd, Liveness, Processes};
use legwork_core::record::ProcessGroup;
use legwork_core::step::Actor;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::Duration;

const LIMITS: CaptureLimits = CaptureLimits { head_bytes: 1000, tail_bytes: 1000, file_bytes_max: 4000 };

fn child() -> ChildId {
    ChildId::from_bits(7, getrandom::u32().expect("there is randomness"))
}

fn shells() -> Shells {
    adopt_orphans().expect("this system has subreapers");
    Shells::new(std::env::vars_os()).expect("there is a shell")
}

/// Runs a script and gives how it ended and what it wrote.
async fn run(shells: &Shells, script: &str) -> (End, Captured) {
    let (finished, captured) = run_whole(shells, script).await;
    (finished.end, captured)
}

async fn run_whole(shells: &Shells, script: &str) -> (Finished, Captured) {
    let actor = Actor::Child(child());
    let folder = tempfile::tempdir().expect("a folder");
    let gated = shells.spawn(folder.path(), &actor).expect("a shell");
    let mut capture = Capture::new(LIMITS, SpillPlace::new(folder.path(), &actor, "test"));
    let order =
        Order { script, until: time_limit(Duration::from_secs(120)), capture: &mut capture, moved: &|| {} };
    let finished = gated.run(order).await;
    (finished, capture.finish().await)
}

/// A group with a living leader that nobody waits for but the test.
struct Stray {
    gated: Option<Gated>,
    group: ProcessGroup,
}

impl Stray {
    fn start(actor: &Actor) -> Self {
        let gated = shells().spawn(Path::new("/"), actor).expect("a shell");
        let group = gated.group().clone();
        Stray { gated: Some(gated), group }
    }

    fn is_alive(&self) -> bool {
        matches!(identity::look(self.group.pgid), Look::Found(stat) if !stat.zombie)
    }
}

#[tokio::test]
async fn inv_14_a_shell_that_gets_no_script_runs_nothing() {
    let mut stray = Stray::start(&Actor::Child(child()));
    assert!(stray.is_alive());
    drop(stray.gated.take());
    assert_eq!(identity::look(stray.group.pgid), Look::Gone, "it is reaped, too");
    assert!(is_group_gone(&stray.group));
}

#[tokio::test]
async fn inv_17_a_shell_has_its_session_and_is_a_shell_when_its_start_returns() {
    let stray = Stray::start(&Actor::Child(child()));
    let Look::Found(stat) = identity::look(stray.group.pgid) else { panic!("it waits for its script") };
    assert_eq!((stat.session, stat.group), (stray.group.pgid, stray.group.pgid));
    let line = std::fs::read(format!("/proc/{}/cmdline", stray.group.pgid)).expect("it waits");
    let program = line.split(|byte| *byte == 0).next().map(<[u8]>::to_vec).expect("a program");
    assert!(program.ends_with(b"/bash"), "no other program ran before it: {}", program.escape_ascii());
}

#[tokio::test]
async fn a_shell_gets_its_signals_as_programs_expect_them() {
    // Bit 12 is SIGPIPE, which this program ignores; nothing is ignored or blocked that was not for this program.
    let ours = std::fs::read_to_string("/proc/self/status").expect("it is ours");
    let (end, captured) = run(&shells(), "grep ^Sig /proc/self/status").await;
    assert_eq!(end, End::Exited(0));
    let mask = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a mask of signals");
        // The C library keeps two of the signals above these for itself.
        u64::from_str_radix(line.trim(), 16).expect("hex") & 0x7fff_ffff
    };
    assert_eq!(mask(&captured.head, "SigBlk:"), 0);
    assert_eq!(mask(&captured.head, "SigIgn:"), mask(&ours, "SigIgn:") & !(1 << 12));
    assert_ne!(mask(&ours, "SigIgn:") & (1 << 12), 0, "what this test is about");
}

#[tokio::test]
async fn k27_the_file_of_an_output_is_bounded_too() {
    let (end, captured) = run(&shells(), "seq -w 1 9999").await;
    assert_eq!(end, End::Exited(0));
    assert!(matches!(captured.whole, Whole::Cut { bytes: 4000, .. }), "{:?}", captured.whole);
    assert_eq!((captured.total_bytes, captured.left_out_bytes), (49_995, 47_995));
    assert!(captured.head.starts_with("0001\n") && captured.tail.ends_with("9999\n"));
}

#[tokio::test]
async fn k27_an_output_that_cannot_be_filed_is_told_and_kept_in_part() {
    let actor = Actor::Child(child());
    let gated = shells().spawn(Path::new("/"), &actor).expect("a shell");
    let place = SpillPlace::new(Path::new("/proc/no-folder"), &actor, "test");
    let mut capture = Capture::new(LIMITS, place);
    let order = Order {
        script: "seq 1 9999",
        until: time_limit(Duration::from_secs(120)),
        capture: &mut capture,
        moved: &|| {},
    };
    assert_eq!(gated.run(order).await.end, End::Exited(0));
    let captured = capture.finish().await;
    assert!(matches!(captured.whole, Whole::Lost(_)) && captured.tail.ends_with("9999\n"));
}

#[test]
fn k34_a_process_lives_until_it_is_proved_dead() {
    let processes = SystemProcesses;
    let myself = processes.myself();
    assert_eq!(processes.liveness(&myself), Liveness::Alive);
    let another = legwork_core::record::Process { start_ticks: myself.start_ticks + 1, ..myself.clone() };
    assert_eq!(processes.liveness(&another), Liveness::Dead, "its id is used again");
    let earlier = legwork_core::record::Process { boot_id: "another/1".to_owned(), ..myself.clone() };
    assert_eq!(processes.liveness(&earlier), Liveness::Dead, "the machine was started anew");
    let untold = legwork_core::record::Process { boot_id: String::new(), ..myself };
    assert_eq!(processes.liveness(&untold), Liveness::Unclear);
}

#[test]
fn h55533_a_zombie_counts_as_dead() {
    let mut zombie = std::process::Command::new("true").spawn().expect("a process");
    let pid = zombie.id();
    let seen = || match identity::look(pid) {
        Look::Found(stat) => Some((stat.zombie, stat.start_ticks)),
        Look::Gone | Look::Unreadable => None,
    };
    assert!(orphans::until(Duration::from_secs(60), || seen().is_some_and(|(zombie, _)| zombie)));
    let (_, start_ticks) = seen().expect("nobody has reaped it");
    let process =
        legwork_core::record::Process { boot_id: SystemProcesses.myself().boot_id, pid, start_ticks };
    assert_eq!(SystemProcesses.liveness(&process), Liveness::Dead);
    zombie.wait().expect("it has ended");
}

#[tokio::test]
async fn k15_recovery_kills_the_group_that_was_stored_and_no_other() {
    let stray = Stray::start(&Actor::Child(child()));
    let group = stray.group.clone();
    let reused = ProcessGroup { start_ticks: group.start_ticks + 1, ..group.clone() };
    let of_another_boot = ProcessGroup { boot_id: "another/1".to_owned(), ..group.clone() };
    let of_who_knows_where = ProcessGroup { boot_id: String::new(), ..group.clone() };
    // No process has such a number, and whether one has cannot be asked.
    let unreadable = ProcessGroup { pgid: u32::MAX, ..group.clone() };
    let ends = kill_groups(&[reused, of_another_boot, of_who_knows_where, unreadable]);
    assert_eq!(ends, [GroupEnd::Gone, GroupEnd::Gone, GroupEnd::OutOfSight, GroupEnd::Doubtful]);
    assert!(stray.is_alive(), "a group that is not proved to be the stored one is left alone");
    let of_another_database = ProcessGroup { boot_id: format!("{}/st-1-1", group.boot_id), ..group.clone() };
    assert!(is_group_living(&of_another_database));
    assert_eq!(kill_groups(&[of_another_database]), [GroupEnd::Elsewhere]);
    assert!(stray.is_alive(), "a group of another database is left alone");
    assert_eq!(kill_groups(std::slice::from_ref(&group)), [GroupEnd::Gone]);
    assert!(!stray.is_alive());
}

/// A marked process whose group has lost its leader: what is left of a command after its owner was killed.
fn leaderless() -> (ChildId, ProcessGroup) {
    adopt_orphans().expect("this system has subreapers");
    let child = child();
    let mut command = std::process::Command::new("bash");
    command.arg("-c").arg("sleep 981 & until grep -qsx sleep /proc/$!/comm; do :; done; read line");
    command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut leader = command.env(mark::VARIABLE, child.as_str()).process_group(0).spawn().expect("a shell");
    let Look::Found(stat) = identity::look(leader.id()) else { panic!("the leader waits for a line") };
    let boot_id = SystemProcesses.myself().boot_id;
    let group = ProcessGroup { pgid: leader.id(), start_ticks: stat.start_ticks, boot_id };
    leader.wait().expect("its stdin is closed by this");
    assert!(matches!(identity::look(group.pgid), Look::Gone) && !is_group_gone(&group));
    (child, group)
}

#[test]
fn k15_recovery_kills_what_has_outlived_its_leader() {
    let (child, group) = leaderless();
    let younger = ProcessGroup { start_ticks: u64::MAX, ..group.clone() };
    kill_groups(std::slice::from_ref(&younger));
    assert!(!is_group_gone(&group), "a process that is older than the leader is not of its group");
    kill_groups(std::slice::from_ref(&group));
    assert!(orphans::until(Duration::from_secs(60), || sweep(&Actor::Child(child.clone())).is_empty()));
    assert!(is_group_gone(&group));
}

#[test]
fn k15_what_carries_a_mark_is_found_wherever_it_went() {
    let (child, group) = leaderless();
    assert_eq!(kill_marked(&[], u64::MAX), 0);
    assert_eq!(kill_marked(std::slice::from_ref(&child), u64::MAX), 1);
    assert!(sweep(&Actor::Child(child)).is_empty());
    assert!(is_group_gone(&group));
}

#[test]
fn k34_what_began_after_the_look_at_its_owner_is_of_another_attempt_and_lives() {
    let before = SystemProcesses.ticks();
    let myself = SystemProcesses.myself().start_ticks;
    assert!(myself > 0 && myself <= before, "both are counted alike: {myself} {before}");
    assert!(
        orphans::until(Duration::from_secs(60), || SystemProcesses.ticks() > before),
        "the clock goes on"
    );
    let now = SystemProcesses.ticks();
    let (child, group) = leaderless();
    assert_eq!(kill_marked(std::slice::from_ref(&child), now), 0);
    assert!(!is_group_gone(&group));
    assert!(
        orphans::until(Duration::from_secs(60), || SystemProcesses.ticks() > now + 1),
        "the clock goes on"
    );
    let later = SystemProcesses.ticks();
    assert_eq!(kill_marked(std::slice::from_ref(&child), later), 1);
    assert!(sweep(&Actor::Child(child)).is_empty());
}

#[test]
fn k15_a_sweep_ends_reaps_and_names_the_orphans_of_one_child() {
    let (child, group) = leaderless();
    let (other, other_group) = leaderless();
    let leftovers = sweep(&Actor::Child(child));
    let names: Vec<&str> = leftovers.iter().map(|leftover| leftover.command.as_str()).collect();
    assert_eq!(names, ["sleep 981"]);
    assert!(is_group_gone(&group));
    assert!(!is_group_gone(&other_group), "another child's are left alone");
    assert_eq!(sweep(&Actor::Child(other)).len(), 1);
}

#[tokio::test]
async fn k15_who_left_the_group_and_cleared_the_environment_is_known_by_the_session() {
    let script = "env -i bash -c 'set -m; sleep 974 >/dev/null 2>&1 & \
                  until grep -qsx sleep /proc/$!/comm; do :; done; echo $!'";
    let (finished, captured) = run_whole(&shells(), script).await;
    let names: Vec<&str> = finished.leftovers.iter().map(|leftover| leftover.command.as_str()).collect();
    assert_eq!(names, ["sleep 974"]);
    let pid = captured.head.trim().parse().expect("a process id");
    assert_eq!(identity::look(pid), Look::Gone);
}
