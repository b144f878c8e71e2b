//! What a conversation costs: how soon a result that is ready reaches the model, and what `legwork chat` uses while it only
//! waits. It prints figures and passes no verdict; `docs/benchmarks.md` says on which machine they were taken.
//!
//! Run it with `cargo bench -p legwork --bench conversation`.

#[allow(dead_code, unused_imports, reason = "the tests use more of it")]
#[path = "../tests/program/harness/mod.rs"]
mod harness;

use std::fs;
use std::time::{Duration, Instant};

use harness::{Home, Screen, until};
use legwork_testkit::server::{
    Call, Conversation, Entry, Log, Script, ScriptedServer, Scripts, calls, gate, say,
};
use serde_json::json;

const RUNS: usize = 15;
const TASK: &str = "work on piece ";
const COMPLETION: &str = "[The result of a subagent";
/// How long a waiting chat is watched.
const WATCHED: Duration = Duration::from_secs(20);
/// Clock ticks a second in `/proc/PID/stat`, as on every Linux of today.
const TICKS: f64 = 100.0;

fn main() {
    // `cargo test --benches` only asks whether it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("last answer of a subagent to the next request of the conversation, ms");
    let single: Vec<Vec<f64>> = (0..RUNS).map(|_| delays(1)).collect();
    tell("one subagent", single.iter().map(|run| run[0]).collect());
    let tens: Vec<Vec<f64>> = (0..RUNS).map(|_| delays(10)).collect();
    for number in 0..10 {
        tell(&format!("ten in a row, no. {}", number + 1), tens.iter().map(|run| run[number]).collect());
    }
    println!("waiting, over {} s", WATCHED.as_secs());
    for children in [0, 100] {
        let (mebibytes, percent) = waiting(children);
        println!("{children} subagents: {mebibytes:.1} MiB, {percent:.2} % of a core");
    }
}

/// Sends out `count` subagents in calls of their own, lets them end one after another, and takes the time of each.
fn delays(count: usize) -> Vec<f64> {
    let server = server(count, 1);
    let home = Home::with(&server);
    let mut screen = sent_out(&home, &server, count);
    for number in 0..count {
        server.gate(&number.to_string()).open();
        screen.wait_for(&format!("Noted {number}."));
    }
    screen.kill();
    let log = server.log();
    (0..count).map(|number| delay(&log, number)).collect()
}

fn delay(log: &Log, number: usize) -> f64 {
    let said = format!("{number} is done");
    let child = log.entries().iter().find(|entry| first_text(entry) == format!("{TASK}{number}"));
    let ended = child.and_then(|entry| entry.ended).expect("it has answered");
    let next = log.entries().iter().find(|entry| {
        let messages = entry.body["messages"].as_array().expect("messages");
        let last = messages.last().map(ToString::to_string).unwrap_or_default();
        last.contains(COMPLETION) && last.contains(&said)
    });
    let arrived = next.expect("its result has come back").arrived;
    (arrived.as_secs_f64() - ended.as_secs_f64()) * 1000.0
}

fn first_text(entry: &Entry) -> String {
    let messages = entry.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let first = messages.iter().find(|message| message["role"] == "user").map(|message| &message["content"]);
    first.and_then(|text| text.as_str().or_else(|| text[0]["text"].as_str())).unwrap_or_default().to_owned()
}

/// Memory and processor time of a chat that has `count` subagents, all of which wait for their model.
#[expect(clippy::disallowed_methods, reason = "what is measured is that nothing happens")]
fn waiting(count: usize) -> (f64, f64) {
    let server = server(count, count.max(1));
    let home = Home::with(&server);
    let mut screen = sent_out(&home, &server, count);
    let pid = screen.pid();
    let before = ticks(pid);
    let begun = Instant::now();
    // Deadline: the time for which it is watched.
    std::thread::sleep(WATCHED);
    let used = (ticks(pid) - before) / TICKS / begun.elapsed().as_secs_f64() * 100.0;
    let memory = mebibytes(pid);
    screen.kill();
    (memory, used)
}

fn server(count: usize, tasks_a_call: usize) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(move |talk: &Conversation| {
        if let Some(name) = talk.first_user_text().strip_prefix(TASK) {
            return gate(name).say(format!("{name} is done"));
        }
        let last = talk.last_text();
        if last == "send them out" && count > 0 {
            let numbers: Vec<usize> = (0..count).collect();
            return calls(numbers.chunks(tasks_a_call).map(|chunk| {
                let tasks: Vec<_> =
                    chunk.iter().map(|number| json!({"goal": format!("{TASK}{number}")})).collect();
                Call::new("delegate_task", json!({"tasks": tasks}))
            }));
        }
        let done = (0..count).find(|number| last.contains(&format!("{number} is done")));
        done.map_or_else(|| say("They are on their way."), |number| say(format!("Noted {number}.")))
    })))
}

fn sent_out(home: &Home, server: &ScriptedServer, count: usize) -> Screen {
    let order = home.legwork(&["chat"]).set("max_concurrent_children", 100).env("TERM", "xterm-256color");
    let mut screen = order.at_terminal(100, 30);
    screen.wait_for("›");
    screen.press("send them out\r");
    screen.wait_for("They are on their way.");
    for number in 0..count {
        server.gate(&number.to_string()).wait_reached();
    }
    screen
}

/// Processor time so far, in clock ticks.
fn ticks(pid: i32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    let numbers: Vec<f64> = fields.split(' ').map(|field| field.parse().unwrap_or_default()).collect();
    numbers[11] + numbers[12]
}

fn mebibytes(pid: i32) -> f64 {
    until("the memory to be told", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().split(' ').next()?.parse::<f64>().ok().map(|kibibytes| kibibytes / 1024.0)
    })
}

fn tell(what: &str, mut figures: Vec<f64>) {
    figures.sort_by(f64::total_cmp);
    let median = figures[figures.len() / 2];
    println!("{what}: {median:.1} [{:.1} … {:.1}]", figures[0], figures[figures.len() - 1]);
}
