//! How many step writes the store commits in a second, and what one costs in processor time.
//!
//! `cargo run --release -p legwork-sqlite --example throughput -- [producers] [children] [writes] [folder]`: each producer
//! writes the journals of some of the children, one after the other, as an agent does: one write at a time, each
//! waiting until it is durable.

use legwork_core::ids::ChildId;
use legwork_core::message::{Author, Message, Part, ToolCall};
use legwork_core::ports::{Facts, Steps, Store, WriteSteps};
use legwork_core::report::{Cost, Usage};
use legwork_core::step::{Action, Actor, Fence, Finish, Product, Reply, StepChange};
use legwork_core::time::Timestamp;
use legwork_sqlite::{SqliteStore, StoreOptions};
use legwork_testkit::store_suite::Owned;
use serde_json::json;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

fn main() {
    let mut arguments = env::args().skip(1);
    let mut number =
        |default: usize| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (producers, children, writes) = (number(256), number(8192), number(8));
    let folder = arguments.next().map_or_else(env::temp_dir, PathBuf::from);
    let path = folder.join(format!("legwork-throughput-{}", std::process::id())).join("legwork.db");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(measure(&path, producers, children, writes));
    fs::remove_dir_all(path.parent().expect("it lies in a folder")).expect("the folder is ours");
}

async fn measure(path: &Path, producers: usize, children: usize, writes: usize) {
    let store = Arc::new(SqliteStore::open(path, StoreOptions::default()).expect("the store opens"));
    let tasks: Vec<usize> = (0..children).collect();
    let owned = Owned::accept(&(Arc::clone(&store) as Arc<dyn Store>), 1, &[&tasks]).await;
    let (wall, cpu) = (Instant::now(), processor_time());
    let mut work = JoinSet::new();
    for first in 0..producers {
        let mine = owned.accepted.children.iter().skip(first).step_by(producers).cloned().collect();
        work.spawn(produce(Arc::clone(&store), mine, owned.fence(), writes));
    }
    work.join_all().await;
    let (wall, cpu) = (wall.elapsed(), processor_time().saturating_sub(cpu));
    let total = (children * writes) as f64;
    println!(
        "{producers} producers, {total} writes: {:.0} writes/s, {:.1} us of processor time a write, {:.2} ms a write waits",
        total / wall.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / total,
        wall.as_secs_f64() * 1e3 / total * producers as f64,
    );
    assert!(store.health().await.expect("the store is readable").problems.is_empty());
}

/// Each write ends the step before and begins the next one, as the agent's journal does.
async fn produce(store: Arc<SqliteStore>, children: Vec<ChildId>, fence: Fence, writes: usize) {
    for child in children {
        write_journal(&store, Actor::Child(child), &fence, writes).await;
    }
}

async fn write_journal(store: &SqliteStore, actor: Actor, fence: &Fence, writes: usize) {
    for seq in 0..writes as u32 {
        let mut changes = vec![StepChange::Intend { seq, action: Action::Model }];
        if let Some(before) = seq.checked_sub(1) {
            changes.insert(0, StepChange::Finish { seq: before, product: Product::Reply(reply()) });
        }
        let at = Timestamp(i64::from(seq));
        let write = WriteSteps {
            actor: actor.clone(),
            fence: fence.clone(),
            at,
            changes,
            acknowledge: vec![],
            turn: None,
            seen: vec![],
        };
        store.write_steps(write).await.expect("the write is stored");
    }
}

fn reply() -> Reply {
    let call = ToolCall {
        id: "call_0123456789".to_owned(),
        name: "terminal".to_owned(),
        arguments: json!({ "command": "echo hi" }),
        malformed: None,
    };
    Reply {
        message: Message { author: Author::Assistant, parts: vec![Part::Call(call)] },
        usage: Usage { input: 1000, output: 50, cached: 0, reasoning: 0 },
        cost: Cost::Unknown,
        model: Some("scripted".to_owned()),
        finish: Finish::ToolUse,
    }
}

/// What this process has used on all its threads, from `/proc/self/stat`; zero where there is none.
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}
