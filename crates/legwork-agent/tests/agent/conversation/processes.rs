//! Ends of background processes that a conversation has to hear of (PROC-3).

use super::scene::{Machine, delegation, new_session, texts};
use crate::engine::no_commands;
use crate::fakes::{FakeModel, Say, rights};
use legwork_agent::session::{SessionLine, SessionSetup};
use legwork_agent::tools::{Commands, FetchAddresses, Invocation, Known, Site, Toolbox, built_in};
use legwork_core::batch::{Lineage, Reach, Setting};
use legwork_core::ids::SessionId;
use legwork_core::ports::{Facts, Store};
use legwork_core::step::{Actor, Fence};
use legwork_testkit::shaky::{Luck, ShakyStore};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longer than the pause before the second try on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// The only subagent has handed over a process, which ends when the file `go` is in `folder`.
async fn handed_over(
    machine: &Machine,
    commands: &Commands,
    (fence, setting): (Fence, Setting),
    folder: &Path,
) {
    let record = machine.delegations().await.remove(0);
    let (session, child) = (SessionId::from_bits(5), record.children[0].id.clone());
    let actor = Actor::Child(child.clone());
    let delegation = record.accepted.delegation;
    let parent = Actor::Session(session.clone());
    commands.background.introduce(actor.clone(), Known { parent, delegation, goal: "serve".to_owned() });
    let site = Arc::new(Site {
        actor,
        lineage: Lineage { parent: Some(child), depth: 1, ..Lineage::of_session(session) },
        fence,
        setting: Setting {
            folder: folder.to_str().expect("it is text").to_owned(),
            rights: rights(&["terminal", "process"]),
            ..setting
        },
        reach: Reach::Joined,
        spill: folder.to_owned(),
        line: Arc::new(SessionLine::new(Box::new(|_| ())).0),
    });
    let toolbox = Toolbox::new(built_in(commands, FetchAddresses::Public));
    let call = async |tool: &str, arguments: Value| {
        let invocation = Invocation { call_id: "c".to_owned(), arguments, site: Arc::clone(&site) };
        let output = toolbox.call(tool, invocation).await;
        assert!(!output.is_error, "{}", output.content);
    };
    let command = "until test -e go; do sleep 0.02; done; echo served; exit 5";
    call("terminal", json!({"command": command, "background": true})).await;
    call("process", json!({"action": "hand_off", "id": "proc_1", "purpose": "It serves."})).await;
}

/// What is stored of a conversation that hears of an end while the write of that goes wrong.
async fn told_while_a_write_fails(luck: Luck) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::new();
    let running = machine.start(1).await;
    let shaky = Arc::new(ShakyStore::new(Arc::clone(&machine.store) as Arc<dyn Store>));
    let armed = Arc::new(AtomicBool::new(false));
    let trap = Arc::clone(&armed);
    shaky.let_decide(move |name| {
        let is_hit = name == "append_turn" && trap.swap(false, Ordering::SeqCst);
        if is_hit { luck } else { Luck::Good }
    });
    let commands = no_commands(Arc::clone(&machine.store) as Arc<dyn Facts>);
    let model = FakeModel::new([
        Say::Calls("", vec![delegation("c", &["one"])]),
        Say::Text("Waiting."),
        Say::Text("I know."),
    ]);
    let setup =
        SessionSetup { store: shaky as Arc<dyn Store>, commands: commands.clone(), ..running.setup(model) };
    let site = (setup.fence.clone(), setup.setting.clone());
    let open = running.open_with(setup, new_session(5)).await.expect("it opens");
    open.ask("a").await;
    machine.children.begun("one").await;
    handed_over(&machine, &commands, site, folder.path()).await;
    armed.store(true, Ordering::SeqCst);
    std::fs::write(folder.path().join("go"), "").expect("it is written");
    open.told("I know.").await;
    open.handle.wait_idle().await;
    assert!(open.handle.is_idle(), "nothing is left to be told");
    assert!(!armed.load(Ordering::SeqCst), "the write was hit");
    texts(&machine.history(open.handle.session()).await)
}

#[tokio::test]
async fn inv_02_an_end_whose_telling_could_not_be_stored_is_told_once() {
    let both = async {
        tokio::join!(told_while_a_write_fails(Luck::Fails), told_while_a_write_fails(Luck::FailsLate))
    };
    // Deadline: a conversation that says something twice has no answer left and never rests.
    let (fails, fails_late) = tokio::time::timeout(PATIENCE, both).await.expect("it rests");
    for told in [fails, fails_late] {
        assert_eq!(told, ["a", "[calls]", "[results]", "Waiting.", "<>", "I know."]);
    }
}
