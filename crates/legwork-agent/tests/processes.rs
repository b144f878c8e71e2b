//! What acts on all commands of a program, so it has a program of its own: one test after the other.

use legwork_agent::process::{
    Capture, CaptureLimits, End, Order, Shells, adopt_orphans, is_group_gone, kill_all, sweep, sweep_all,
    time_limit,
};
use legwork_agent::spill::SpillPlace;
use legwork_core::ids::ChildId;
use legwork_core::step::Actor;
use std::path::Path;
use std::time::Duration;
use tokio::sync::Mutex;

/// The tests of this program act on all of it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

async fn run(shells: &Shells, actor: &Actor, script: &str, at_start: impl FnOnce()) -> (End, String) {
    let limits = CaptureLimits { head_bytes: 1000, tail_bytes: 1000, file_bytes_max: 1000 };
    let mut capture = Capture::new(limits, SpillPlace::new(Path::new("/nowhere"), actor, "test"));
    let gated = shells.spawn(Path::new("/"), actor).expect("a shell");
    let group = gated.group().clone();
    at_start();
    let order =
        Order { script, until: time_limit(Duration::from_secs(120)), capture: &mut capture, moved: &|| {} };
    let finished = gated.run(order).await;
    assert!(is_group_gone(&group));
    (finished.end, capture.finish().await.head)
}

#[tokio::test]
async fn k15_the_end_of_a_program_leaves_nothing() {
    let _alone = ONE_AT_A_TIME.lock().await;
    adopt_orphans().expect("this system has subreapers");
    let shells = Shells::new(std::env::vars_os()).expect("there is a shell");
    let actor = Actor::Child(ChildId::from_bits(1, getrandom::u32().expect("there is randomness")));

    // Without its mark and outside its group a process is nobody's until the program ends.
    let strays =
        "env -i setsid sleep 971 >/dev/null 2>&1 & until grep -qsx sleep /proc/$!/comm; do :; done; echo $!";
    let (end, pid) = run(&shells, &actor, strays, || {}).await;
    assert_eq!(end, End::Exited(0));
    assert!(sweep(&actor).is_empty(), "it carries no mark");
    let leftovers = sweep_all();
    let found: Vec<(String, &str)> =
        leftovers.iter().map(|one| (format!("{}\n", one.pid), one.command.as_str())).collect();
    assert_eq!(found, [(pid, "sleep 971")]);
    assert!(sweep_all().is_empty(), "it is gone");

    let (end, _) = run(&shells, &actor, "sleep 972", kill_all).await;
    assert_eq!(end, End::Signalled(9), "a program that must end at once kills what runs");
}

#[tokio::test]
async fn a_command_runs_in_its_folder_also_when_that_of_the_program_is_gone() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let gone = tempfile::tempdir().expect("a folder");
    let before = std::env::current_dir().expect("it is there");
    std::env::set_current_dir(gone.path()).expect("it can be gone to");
    gone.close().expect("it can be removed");
    let shells = Shells::new(std::env::vars_os()).expect("there is a shell");
    let actor = Actor::Child(ChildId::from_bits(2, getrandom::u32().expect("there is randomness")));
    let ran = run(&shells, &actor, "pwd", || {}).await;
    assert_eq!(ran, (End::Exited(0), "/\n".to_owned()), "and nothing complains");
    std::env::set_current_dir(before).expect("it is there");
}
