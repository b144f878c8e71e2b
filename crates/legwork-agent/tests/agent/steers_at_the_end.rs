//! Many moments around the end of an agent under the real engine: what was said to it and taken in is read by it, once,
//! or comes back as missed; it is never both and never neither.

use crate::engine::{engine_over, setting};
use crate::fakes::{allowance, call};
use futures::StreamExt;
use futures::future::join_all;
use legwork_agent::models::{Model, ModelFacts, ModelRequest, ReplyPart, ReplyStream};
use legwork_core::batch::{Lineage, NewBatch, Reach, Setting, Task};
use legwork_core::ids::{ChildId, SessionId};
use legwork_core::message::{Author, Message, Part};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Delegator, Facts, Joined};
use legwork_core::report::{Cost, Usage};
use legwork_core::steering::{Fate, Scope};
use legwork_core::step::{Finish, Reply};
use legwork_testkit::memory::MemoryStore;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SEEDS: u64 = 300;
/// How long a reply of the model takes at most, and how much later than the last one somebody still speaks.
const REPLY_MS: u64 = 12;

/// Numbers that a seed decides.
#[derive(Clone)]
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % limit
    }
}

/// A model that looks a few times, each time after a while, and then answers. It keeps what it was sent.
struct Unhurried {
    /// How long each reply takes, in milliseconds; the last one is the answer.
    replies: Vec<u64>,
    sent: Mutex<Vec<Vec<String>>>,
}

impl Model for Unhurried {
    fn facts(&self) -> ModelFacts {
        ModelFacts { name: "fake/model".to_owned(), window: None }
    }

    fn respond(&self, request: ModelRequest) -> ReplyStream {
        let texts = request.messages.iter().filter(|message| message.author == Author::User);
        let texts = texts.map(|message| message.plain_text()).collect();
        let mut sent = self.sent.lock().expect("no holder panics");
        sent.push(texts);
        let took = self.replies.get(sent.len() - 1).copied().unwrap_or(REPLY_MS);
        let part = match sent.len() < self.replies.len() {
            true => Part::Call(call(&format!("look-{}", sent.len()), "look", json!({}))),
            false => Part::Text { text: "seen".to_owned() },
        };
        let reply = Reply {
            message: Message { author: Author::Assistant, parts: vec![part] },
            usage: Usage::default(),
            cost: Cost::Unknown,
            model: None,
            finish: Finish::Stop,
        };
        let after = async move {
            // Deadline: the time is paused, and a moment of it is what the seed varies.
            tokio::time::sleep(Duration::from_millis(took)).await;
            Ok(ReplyPart::Done(Box::new(reply)))
        };
        futures::stream::once(after).boxed()
    }
}

/// How often each thing happened.
#[derive(Debug, Default)]
struct Figures {
    read: usize,
    missed: usize,
    refused: usize,
}

/// What one seed decides.
struct Plan {
    replies: Vec<u64>,
    steps_max: u32,
    /// When the texts are said, in milliseconds.
    moments: Vec<u64>,
    /// When the child is stopped, if it is.
    stop: Option<u64>,
}

impl Plan {
    fn of(seed: u64) -> Plan {
        let mut chance = Chance(seed * 7919 + 13);
        let replies: Vec<u64> = (0..=chance.below(3)).map(|_| 1 + chance.below(REPLY_MS)).collect();
        let whole: u64 = replies.iter().sum();
        // One in three has no step left after its answer.
        let steps_max = if chance.below(3) == 0 { replies.len() } else { replies.len() + 3 };
        let moments = (0..=chance.below(2)).map(|_| chance.below(whole + 3)).collect();
        let stop = (chance.below(4) == 0).then(|| chance.below(whole + 3));
        Plan { replies, steps_max: u32::try_from(steps_max).expect("a few"), moments, stop }
    }
}

async fn after(ms: u64) {
    // Deadline: the time is paused, and a moment of it is what the seed varies.
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

fn one_task(steps_max: u32) -> NewBatch {
    let lineage = Lineage::of_session(SessionId::from_bits(7));
    let setting = Setting { allowance: allowance(steps_max), ..setting() };
    let tasks = vec![Task::of("look around for a while")];
    NewBatch { lineage, call_key: None, context: None, reach: Reach::Joined, tasks, setting }
}

async fn live(seed: u64, figures: &mut Figures) {
    let plan = Plan::of(seed);
    let store = Arc::new(MemoryStore::new());
    let model = Arc::new(Unhurried { replies: plan.replies.clone(), sent: Mutex::default() });
    let engine = engine_over(&store, &(Arc::clone(&model) as Arc<dyn Model>)).await;
    let handle = engine.handle();
    let ticket = handle.dispatch(one_task(plan.steps_max)).await.expect("it is accepted");
    let child = &ticket.children[0];
    let texts = join_all(plan.moments.iter().enumerate().map(|(number, moment)| {
        let text = format!("text {number} of seed {seed}");
        let handle = &handle;
        async move {
            after(*moment).await;
            let said = handle.steer(child, text.clone(), None).await;
            (text, said.is_ok())
        }
    }));
    let stop = async {
        let Some(moment) = plan.stop else { return };
        after(moment).await;
        handle.stop(Scope::Child(child.clone()), StopReason::Cancelled, Force::Ask).await;
    };
    let (texts, (), joined) = tokio::join!(texts, stop, handle.join(&ticket.delegation));
    let joined = joined.expect("it has settled");
    let sent = model.sent.lock().expect("no holder panics").clone();
    for (text, taken_in) in texts {
        let fate =
            Checked { seed, store: &store, child, joined: &joined, sent: &sent }.fate(&text, taken_in).await;
        match fate {
            Some(Fate::Missed) => figures.missed += 1,
            Some(Fate::Seen { .. }) => figures.read += 1,
            None => figures.refused += 1,
            Some(Fate::Open | Fate::CarriedOut) => panic!("seed {seed}: {text:?} is {fate:?}"),
        }
    }
    engine.close().await;
}

/// What there is to compare after one seed.
struct Checked<'a> {
    seed: u64,
    store: &'a MemoryStore,
    child: &'a ChildId,
    joined: &'a Joined,
    sent: &'a [Vec<String>],
}

impl Checked<'_> {
    /// What became of a text; `None` for one that was refused. Receipt, requests of the model and result must agree.
    async fn fate(&self, text: &str, taken_in: bool) -> Option<Fate> {
        let seed = self.seed;
        let is_in = |texts: &Vec<String>| texts.iter().map(|told| told.matches(text).count()).sum::<usize>();
        let told: BTreeSet<usize> = self.sent.iter().map(is_in).collect();
        assert!(told.iter().all(|count| *count <= 1), "seed {seed}: {text:?} was read twice");
        let came_back = self.joined.missed_by(self.child).iter().filter(|missed| **missed == text).count();
        let rows = self.store.steers(self.child).await.expect("readable").rows;
        let rows: Vec<Fate> = rows
            .into_iter()
            .filter(|row| format!("{:?}", row.request.wish).contains(text))
            .map(|row| row.fate)
            .collect();
        let (read, back) = match rows.as_slice() {
            [] => (false, 0),
            [Fate::Seen { .. }] => (true, 0),
            [Fate::Missed] => (false, 1),
            other => panic!("seed {seed}: {text:?} is {other:?}"),
        };
        assert_eq!(
            rows.len(),
            usize::from(taken_in),
            "seed {seed}: {text:?} has a receipt if it was taken in"
        );
        assert_eq!(came_back, back, "seed {seed}: {text:?} came back with the result");
        // One that is called read is in the journal; a stop may come before the request that would carry it.
        assert!(read || !told.contains(&1), "seed {seed}: {text:?} reached the model and is {rows:?}");
        rows.first().cloned()
    }
}

#[tokio::test(start_paused = true)]
async fn ctrl_10_what_is_taken_in_at_any_moment_around_the_end_is_read_or_comes_back_never_both() {
    let mut figures = Figures::default();
    for seed in 1..=SEEDS {
        live(seed, &mut figures).await;
    }
    let Figures { read, missed, refused } = figures;
    assert!(
        read > 100 && missed > 20 && refused > 20,
        "moments that are all alike prove little: {figures:?}"
    );
}
