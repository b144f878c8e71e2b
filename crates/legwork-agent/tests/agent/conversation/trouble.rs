//! The store fails under a conversation, at every write in turn, before or after the write was carried out: whatever was
//! said is answered once all the same.

use super::scene::{Machine, assert_legal, new_session, texts};
use super::seeded::Echo;
use legwork_agent::session::SessionSetup;
use legwork_core::message::Message;
use legwork_core::ports::Store;
use legwork_testkit::shaky::{Luck, ShakyStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The writes that a conversation makes.
const WRITES: [&str; 2] = ["append_turn", "write_steps"];

/// A conversation in which something is said, delegated and answered, while write number `failing` fails. Answers with
/// what is stored then, and how many writes there were.
async fn played(failing: usize, luck: Luck) -> (Vec<Message>, usize) {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let shaky = Arc::new(ShakyStore::new(Arc::clone(&machine.store) as Arc<dyn Store>));
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&writes);
    shaky.let_decide(move |name| {
        let is_hit = WRITES.contains(&name) && counted.fetch_add(1, Ordering::SeqCst) == failing;
        if is_hit { luck } else { Luck::Good }
    });
    let setup = SessionSetup { store: shaky as Arc<dyn Store>, ..running.setup(Echo::new(7)) };
    let open = running.open_with(setup, new_session(5)).await.expect("it opens");
    open.ask("u1").await;
    open.ask("u2 delegate g2a").await;
    machine.children.free("g2a");
    open.told("answered g2a").await;
    open.ask("u3").await;
    assert_eq!(machine.deliveries().await, ["delivered"]);
    (machine.history(open.handle.session()).await, writes.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn inv_02_whichever_write_fails_everything_is_said_and_answered_once() {
    let (undisturbed, writes) = played(usize::MAX, Luck::Good).await;
    let expected = texts(&undisturbed);
    assert_eq!(
        expected,
        [
            "u1",
            "answered u1",
            "u2 delegate g2a",
            "[calls]",
            "[results]",
            "answered u2",
            "<g2a>",
            "answered g2a",
            "u3",
            "answered u3"
        ]
    );
    assert!(writes > 10, "{writes}");
    for failing in 0..writes {
        for luck in [Luck::Fails, Luck::FailsLate] {
            let (history, _) = played(failing, luck).await;
            assert_eq!(texts(&history), expected, "write {failing} {luck:?}");
            assert_legal(&history.into_iter().map(Arc::new).collect::<Vec<_>>());
        }
    }
}
