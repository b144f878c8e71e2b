//! The store fails under a conversation, at every write in turn, before or after the write was carried out: whatever was
//! said is answered once all the same.

use super::scene::{Machine, Open, Running, assert_legal, new_session, texts};
use super::seeded::Echo;
use crate::fakes::{FakeModel, Say};
use legwork_agent::models::Model;
use legwork_agent::session::{SessionEvent, SessionSetup};
use legwork_core::message::Message;
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{StopNotice, Store, TROUBLE_MAX};
use legwork_testkit::shaky::{Luck, ShakyStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The writes that a conversation makes.
const WRITES: [&str; 2] = ["append_turn", "write_steps"];

/// A conversation in which something is said, delegated and answered, while write number `failing` fails. Answers with
/// what is stored then, and how many writes there were.
async fn played(failing: usize, luck: Luck) -> (Vec<Message>, usize) {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let shaky = Arc::new(ShakyStore::new(Arc::clone(&machine.store)));
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

/// The same while append number `failing` of the engine fails after it was carried out.
async fn played_over_late_appends(failing: usize) -> (Vec<Message>, usize) {
    let machine = Machine::new();
    let shaky = Arc::new(ShakyStore::new(Arc::clone(&machine.store)));
    let running = machine.start_over(1, Arc::clone(&shaky) as Arc<dyn Store>).await;
    let appends = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&appends);
    shaky.let_decide(move |name| {
        let is_hit = name == "append" && counted.fetch_add(1, Ordering::SeqCst) == failing;
        if is_hit { Luck::FailsLate } else { Luck::Good }
    });
    let open = running.open(Echo::new(7), new_session(5)).await;
    open.ask("u1 delegate g1a").await;
    machine.children.free("g1a");
    open.told("answered g1a").await;
    open.ask("u2").await;
    assert_eq!(machine.deliveries().await, ["delivered"], "append {failing}");
    (machine.history(open.handle.session()).await, appends.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn inv_02_whichever_append_is_made_although_it_fails_its_call_is_answered_once() {
    let (undisturbed, appends) = played_over_late_appends(usize::MAX).await;
    assert!(appends >= 2, "{appends}");
    for failing in 0..appends {
        // Deadline: in paused time what has not come after a day never comes.
        let played = timeout(Duration::from_secs(86_400), played_over_late_appends(failing)).await;
        let (history, _) = played.unwrap_or_else(|_| panic!("append {failing}: it never comes"));
        assert_eq!(texts(&history), texts(&undisturbed), "append {failing}");
    }
}

/// Numbers of sessions that are not taken.
static SESSIONS: AtomicU64 = AtomicU64::new(5);

/// A conversation whose disk is full from write number `full_from` on, until it is freed.
struct Disk {
    open: Open,
    is_full: Arc<AtomicBool>,
    writes: Arc<AtomicUsize>,
}

impl Disk {
    async fn of(machine: &Machine, running: &Running, full_from: usize) -> Disk {
        Disk::under(machine, running, (full_from, Echo::new(7))).await
    }

    /// The same under a model that says this and nothing more.
    async fn answering(
        machine: &Machine,
        running: &Running,
        (full_from, says): (usize, &[&'static str]),
    ) -> Disk {
        let model = FakeModel::new(says.iter().map(|text| Say::Text(text)));
        Disk::under(machine, running, (full_from, model)).await
    }

    async fn under(
        machine: &Machine,
        running: &Running,
        (full_from, model): (usize, Arc<dyn Model>),
    ) -> Disk {
        let shaky = Arc::new(ShakyStore::new(Arc::clone(&machine.store)));
        let (is_full, writes) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        let (full, counted) = (Arc::clone(&is_full), Arc::clone(&writes));
        shaky.let_decide(move |name| {
            let fails = WRITES.contains(&name)
                && counted.fetch_add(1, Ordering::SeqCst) >= full_from
                && full.load(Ordering::SeqCst);
            if fails { Luck::Fails } else { Luck::Good }
        });
        let setup = SessionSetup { store: shaky as Arc<dyn Store>, ..running.setup(model) };
        let session = SESSIONS.fetch_add(1, Ordering::SeqCst);
        let open = running.open_with(setup, new_session(session)).await.expect("it opens");
        Disk { open, is_full, writes }
    }

    /// Waits until so many tries have been put off.
    async fn put_off(&self, tries: usize) {
        self.open.until(|events| put_off(events) >= tries).await;
    }

    fn free(&self) {
        self.is_full.store(false, Ordering::SeqCst);
    }
}

fn put_off(events: &[SessionEvent]) -> usize {
    events.iter().filter(|event| matches!(event, SessionEvent::TryingAgain { .. })).count()
}

/// How many writes a turn makes that delegates, the message included.
async fn writes_of_a_turn() -> usize {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let disk = Disk::of(&machine, &running, usize::MAX).await;
    disk.open.ask("u1 delegate g2a").await;
    disk.writes.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn inv_02_what_is_said_while_the_disk_is_full_waits_for_the_turn_that_was_cut_off() {
    let writes = writes_of_a_turn().await;
    let mut behind = 0;
    for full_from in 0..writes {
        let machine = Machine::new();
        let running = machine.start(1).await;
        let disk = Disk::of(&machine, &running, full_from).await;
        disk.open.handle.say("u1 delegate g2a").expect("there is room");
        disk.put_off(1).await;
        let tries = put_off(&disk.open.events());
        disk.open.handle.say("u2").expect("there is room");
        disk.put_off(tries + 2).await;
        disk.free();
        disk.open.handle.wait_idle().await;
        let history = machine.history(disk.open.handle.session()).await;
        assert_legal(&history.iter().cloned().map(Arc::new).collect::<Vec<_>>());
        let told = texts(&history);
        let apart = ["u1 delegate g2a", "[calls]", "[results]", "answered u1", "u2", "answered u2"];
        let together = ["u1 delegate g2a", "u2", "[calls]", "[results]", "answered u1 u2"];
        assert!(told == apart || told == together, "write {full_from}: {told:?}");
        behind += usize::from(told == apart);
        assert_eq!(machine.delegations().await.len(), 1, "write {full_from}");
    }
    assert!(behind >= 3, "{behind} of {writes}");
}

#[tokio::test(start_paused = true)]
async fn inv_02_a_turn_that_is_given_up_keeps_the_calls_that_it_made() {
    let writes = writes_of_a_turn().await;
    let mut kept = 0;
    for full_from in 1..writes {
        let machine = Machine::new();
        let running = machine.start(1).await;
        let disk = Disk::of(&machine, &running, full_from).await;
        disk.open.handle.say("u1 delegate g2a").expect("there is room");
        disk.put_off(1).await;
        let delegated = machine.delegations().await.len();
        disk.free();
        disk.open.handle.stop_turn(StopNotice { reason: StopReason::Cancelled, force: Force::Ask });
        disk.open.handle.wait_idle().await;
        let history = machine.history(disk.open.handle.session()).await;
        assert_legal(&history.iter().cloned().map(Arc::new).collect::<Vec<_>>());
        let told = texts(&history);
        assert_eq!(told.iter().filter(|text| *text == "[calls]").count(), delegated, "{full_from}: {told:?}");
        kept += delegated;
    }
    assert!(kept >= 1, "{kept} of {writes}");
}

/// Proves K35.
#[tokio::test(start_paused = true)]
async fn inv_13_a_turn_that_is_interrupted_while_the_store_takes_nothing_is_over_and_asks_nothing_more() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let disk = Disk::answering(&machine, &running, (2, &["A.", "B."])).await;
    disk.open.handle.say("u1").expect("there is room");
    disk.open.told("kept and offered again").await;
    let begun = Instant::now();
    disk.open.handle.stop_turn(StopNotice { reason: StopReason::Cancelled, force: Force::Ask });
    disk.open.handle.wait_idle().await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(disk.open.words(), ["user u1", "ended Interrupted", "idle"]);
    disk.free();
    disk.open.ask("u2").await;
    let history = machine.history(disk.open.handle.session()).await;
    assert_legal(&history.iter().cloned().map(Arc::new).collect::<Vec<_>>());
    let [u1, remark, u2, answer] = &texts(&history)[..] else { panic!("{history:?}") };
    assert_eq!([u1.as_str(), u2, answer], ["u1", "u2", "B."]);
    assert!(remark.contains("stopped on request"), "{remark}");
}

/// Proves K35.
#[tokio::test(start_paused = true)]
async fn inv_28_a_store_in_trouble_for_a_while_does_not_end_a_turn() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    for full_from in [1, 2] {
        let disk = Disk::answering(&machine, &running, (full_from, &["A."])).await;
        disk.open.handle.say("u1").expect("there is room");
        disk.open.told("kept and offered again").await;
        disk.free();
        disk.open.handle.wait_idle().await;
        assert_eq!(disk.open.words(), ["user u1", "ended Answered", "idle"], "write {full_from}");
        assert_eq!(texts(&machine.history(disk.open.handle.session()).await), ["u1", "A."]);
        disk.open.close(StopReason::SessionEnded).await;
    }
}

/// Proves K35.
#[tokio::test(start_paused = true)]
async fn inv_03_a_turn_ends_with_the_reason_when_the_store_is_in_trouble_for_too_long_and_goes_on_later() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let disk = Disk::answering(&machine, &running, (2, &["A.", "A again."])).await;
    let begun = Instant::now();
    disk.open.handle.say("u1").expect("there is room");
    disk.put_off(1).await;
    assert!(begun.elapsed() >= TROUBLE_MAX, "{:?}", begun.elapsed());
    assert!(format!("{:?}", disk.open.events()).contains("the disk has a bad day"));
    assert_eq!(texts(&machine.history(disk.open.handle.session()).await), ["u1"]);
    disk.free();
    disk.open.handle.wait_idle().await;
    assert_eq!(texts(&machine.history(disk.open.handle.session()).await), ["u1", "A again."]);
}

/// Proves K35.
#[tokio::test(start_paused = true)]
async fn inv_03_a_turn_is_tried_again_until_its_session_can_be_read() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let shaky = Arc::new(ShakyStore::new(Arc::clone(&machine.store)));
    let (is_full, unread) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (full, left) = (Arc::clone(&is_full), Arc::clone(&unread));
    shaky.let_decide(move |name| match name {
        "write_steps" if full.load(Ordering::SeqCst) => Luck::Fails,
        "history" if left.load(Ordering::SeqCst) > 0 => {
            left.fetch_sub(1, Ordering::SeqCst);
            Luck::Fails
        }
        _other => Luck::Good,
    });
    let model = FakeModel::new([Say::Text("A.")]);
    let setup = SessionSetup { store: shaky as Arc<dyn Store>, ..running.setup(model) };
    let open = running.open_with(setup, new_session(5)).await.expect("it opens");
    open.handle.say("u1").expect("there is room");
    open.until(|events| put_off(events) == 1).await;
    unread.store(2, Ordering::SeqCst);
    is_full.store(false, Ordering::SeqCst);
    open.handle.wait_idle().await;
    assert_eq!(put_off(&open.events()), 3, "a read that fails is made again");
    assert_eq!(texts(&machine.history(open.handle.session()).await), ["u1", "A."]);
}
