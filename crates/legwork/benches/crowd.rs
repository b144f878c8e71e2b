//! What a crowded state folder costs: looking, steering and stopping beside a thousand subagents, two processes that delegate
//! at the same time, and a start with ten thousand results that nobody has fetched. It prints figures and passes no
//! verdict; `docs/benchmarks.md` says on which machine they were taken.
//!
//! Run it with `cargo bench -p legwork --bench crowd`; `-- crowd`, `-- two` and `-- unfetched` run one of the three.

#[allow(dead_code, unused_imports, reason = "the tests use more of it")]
#[path = "../tests/program/harness/mod.rs"]
mod harness;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use harness::{Home, Running, until, within};
use legwork_testkit::server::{
    Call, Conversation, Ending, Script, ScriptedServer, Scripts, call, calls, gate, say,
};
use rusqlite::Connection;
use serde_json::{Value, json};

/// Subagents that wait while others look.
const CROWD: usize = 1000;
/// Looks of each kind.
const LOOKS: usize = 21;
/// Delegations of each of two processes.
const EACH: usize = 500;
/// Of those, in each reply.
const IN_A_REPLY: usize = 50;
/// Results that wait for somebody.
const UNFETCHED: usize = 10_000;
/// Tasks of one call whose results wait each by itself.
const IN_A_UNIT_CALL: usize = 100;
/// The window of the model to which they are brought.
const WINDOW: &str = "40000";
/// Longer than all of them take.
const FOR_EVER: Duration = Duration::from_secs(3600);
const TASK: &str = "work on piece ";

fn main() {
    // `cargo test --benches` only asks whether it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let wanted: Option<String> = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let parts: [(&str, fn()); 3] =
        [("crowd", beside_a_crowd), ("two", two_at_once), ("unfetched", unfetched)];
    let wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
    parts.iter().filter(|(name, _)| wanted(name)).for_each(|(_, measure)| measure());
}

/// Verbs of another process, while a thousand subagents wait for their model.
fn beside_a_crowd() {
    println!("beside {CROWD} subagents that wait for their model, ms");
    let script = Script::from_fn(|talk: &Conversation| match talk.first_user_text().contains("the walker") {
        true if talk.step() == 0 => gate("walk").call("terminal", json!({"command": "true"})),
        true => call("terminal", json!({"command": "sleep 0.05"})),
        false => gate("crowd").say("done"),
    });
    let server =
        ScriptedServer::start(Scripts::default().otherwise(script).patience(Duration::from_secs(300)));
    let home = Home::with(&server);
    let goals: Vec<String> = (1..CROWD).map(|number| format!("{TASK}{number}")).collect();
    let tasks = goals.iter().map(|goal| json!({ "goal": goal }));
    let tasks: Vec<Value> = std::iter::once(json!({"goal": "be the walker"})).chain(tasks).collect();
    home.write("tasks.json", json!({ "tasks": tasks }).to_string());
    let running = home.legwork(&["delegate", "tasks.json"]).set("max_concurrent_children", CROWD as u64);
    let running = running.set("max_iterations", 10_000).start();
    server.gate("crowd").wait_waiting(CROWD - 1);
    let id = running.delegation();
    let children = children(&home, &id);
    for arguments in [vec!["ps"], vec!["show", &id], vec!["show", &children[1]], vec!["results", &id]] {
        let took = (0..LOOKS).map(|_| millis(home.legwork(&arguments).run().lived)).collect();
        tell(&format!("legwork {}", arguments[0]), took);
    }
    tell(
        "legwork stop CHILD to the end of its request",
        (2..2 + LOOKS).map(|at| stop(&home, &server, &children[at])).collect(),
    );
    tell("legwork steer CHILD to the step that reads it", steers(&home, &server, &children[0]));
    running.kill();
}

/// Stops a child that waits for its model, and takes the time until the model's provider is rid of it.
fn stop(home: &Home, server: &ScriptedServer, child: &str) -> f64 {
    let gone = |log: &legwork_testkit::server::Log| {
        log.entries().iter().filter(|entry| entry.ending == Ending::ClientGone).count()
    };
    let before = gone(&server.log());
    let begun = Instant::now();
    let stopping = home.legwork(&["stop", child]).start();
    server.wait_for(|log| gone(log) > before, Duration::from_secs(30));
    let took = millis(begun.elapsed());
    stopping.wait();
    took
}

/// Steers a child that takes a step every 50 ms and more, and asks its receipts how long each text was on its way.
fn steers(home: &Home, server: &ScriptedServer, child: &str) -> Vec<f64> {
    server.gate("walk").open();
    let receipts = || {
        let shown = home.legwork(&["show", child, "--json"]).run().json();
        shown["steers"].as_array().expect("receipts").clone()
    };
    for text in 1..=LOOKS {
        home.legwork(&["steer", child, "a little to the left"]).run();
        until("the text to be read", || {
            let seen = receipts().iter().filter(|steer| steer["fate"] == "seen").count();
            (seen == text).then_some(())
        });
    }
    let on_its_way = |steer: &Value| Some((steer["decided_at"].as_i64()? - steer["at"].as_i64()?) as f64);
    receipts().iter().filter_map(on_its_way).collect()
}

/// Two processes on one state folder, each with replies that make five hundred delegations.
fn two_at_once() {
    println!("two processes, {EACH} delegations each, one state folder");
    let script = Script::from_fn(|talk: &Conversation| {
        let first = talk.first_user_text();
        if first.starts_with(TASK) {
            return say("done");
        }
        // As many calls in a reply as are carried out of one.
        let replies = EACH / IN_A_REPLY;
        match talk.step() {
            step if step < replies => calls((0..IN_A_REPLY).map(|number| {
                let goal = format!("{TASK}{number} in reply {step} of {first}");
                Call::new("delegate_task", json!({"tasks": [{ "goal": goal }]}))
            })),
            _ => say("all of them are back"),
        }
    });
    let server =
        ScriptedServer::start(Scripts::default().otherwise(script).patience(Duration::from_secs(600)));
    let home = Home::with(&server);
    // The database is made before the two start. This prompt delegates nothing.
    home.legwork(&["run", &format!("{TASK}to begin with")]).run();
    let start = |name: &str| -> Running {
        let order = home.legwork(&["run", name]).set("max_concurrent_children", EACH as u64);
        order.set("oneshot_max_children", 0).start()
    };
    let begun = Instant::now();
    let (mut one, mut other) = (start("the first process"), start("the second process"));
    let mut ends = Vec::new();
    until("both to end", || {
        let ended = usize::from(one.has_ended()) + usize::from(other.has_ended());
        while ends.len() < ended {
            ends.push(begun.elapsed().as_secs_f64());
        }
        (ended == 2).then_some(())
    });
    let (one, other) = (one.wait(), other.wait());
    let locked = [&one, &other].iter().filter(|ended| ended.stderr.contains("locked")).count();
    println!("exit codes {} and {}, {locked} of them heard of a lock", one.code, other.code);
    println!(
        "the faster ended after {:.2} s, the slower after {:.2} s: {:.2}",
        ends[0],
        ends[1],
        ends[1] / ends[0]
    );
    println!("{} delegations are recorded", recorded(&home));
    println!("longest rest between two commits of one process: {:.0} ms", longest_rest(&home));
}

/// The delegations of the two.
fn recorded(home: &Home) -> i64 {
    let database = Connection::open(home.database()).expect("the database opens");
    database.query_row("SELECT count(*) FROM delegations", [], |row| row.get(0)).expect("a number")
}

/// The longest time in which one of the processes recorded nothing, while it had something to record.
fn longest_rest(home: &Home) -> f64 {
    let database = Connection::open(home.database()).expect("the database opens");
    let mut query = database
        .prepare("SELECT session, accepted_at FROM delegations ORDER BY accepted_at")
        .expect("a query");
    let rows = query.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)));
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    let mut longest = 0;
    for row in rows.expect("rows") {
        let (session, at) = row.expect("a row");
        if let Some(before) = last.insert(session, at) {
            longest = longest.max(at - before);
        }
    }
    longest as f64
}

/// How long a look and a start take in a state folder that holds ten thousand results for a conversation, and how long
/// it takes until all of them are listed, and until all have arrived.
fn unfetched() {
    println!("{UNFETCHED} results that wait for a conversation");
    let server = ScriptedServer::start(
        Scripts::default().otherwise(Script::from_fn(sender)).patience(Duration::from_secs(600)),
    );
    let (home, session) = plenty(&server);
    let starts = (0..5).map(|_| {
        let begun = Instant::now();
        let mut screen = chat(&home, &["chat", "--resume", &session], WINDOW);
        screen.wait_for("›");
        let took = millis(begun.elapsed());
        screen.kill();
        took
    });
    tell("legwork chat --resume to its prompt", starts.collect());
    tell("legwork ps", (0..5).map(|_| millis(home.legwork(&["ps"]).run().lived)).collect());
    list_all(&home, &session);

    let (waiting, begun) = (due(&home), Instant::now());
    let mut running =
        home.legwork(&["run", "and now?", "--last"]).env("LEGWORK_MODEL_WINDOW_TOKENS", WINDOW).start();
    within(FOR_EVER, || running.has_ended().then_some(())).expect("it comes to its end");
    arrived("legwork run --last", (waiting, begun), &home);

    let (home, session) = plenty(&server);
    let (waiting, begun) = (due(&home), Instant::now());
    let mut screen = chat(&home, &["chat", "--resume", &session], WINDOW);
    within(FOR_EVER, || (due(&home) == 0).then_some(())).expect("all of them arrive");
    arrived("legwork chat --resume", (waiting, begun), &home);
    screen.kill();
}

/// Sends out ten thousand tasks in replies of many calls, each task a unit of its own.
fn sender(talk: &Conversation) -> legwork_testkit::server::Reply {
    let has = |name: &str| talk.tools.iter().any(|tool| tool == name);
    match (has("delegate_task"), has("terminal")) {
        (true, _) => {}
        (false, true) => return gate("held").say("done"),
        // Whoever summarises.
        (false, false) => return say("so far so good"),
    }
    let is_asked = talk.last_text().ends_with("send them out");
    let replies = UNFETCHED / IN_A_UNIT_CALL / IN_A_REPLY;
    if is_asked || talk.messages.last().is_some_and(|last| last.answers.is_some()) && talk.step() < replies {
        return calls((0..IN_A_REPLY).map(|_| {
            let tasks: Vec<Value> =
                (0..IN_A_UNIT_CALL).map(|number| json!({"goal": format!("{TASK}{number}")})).collect();
            Call::new("delegate_task", json!({ "tasks": tasks }))
        }));
    }
    say("they are on their way")
}

/// A state folder with ten thousand results that wait for a conversation.
fn plenty(server: &ScriptedServer) -> (Home, String) {
    let home = Home::with(server);
    let mut screen = chat(&home, &["chat"], "0");
    screen.wait_for("›");
    screen.press("send them out\r");
    screen.wait_for("they are on their way");
    // A stopped subagent has a result as well, and ten thousand of them are had soonest that way.
    let session = home.legwork(&["sessions", "--json"]).run().json()["sessions"][0]["session_id"].clone();
    let session = session.as_str().expect("an id").to_owned();
    screen.kill();
    let begun = Instant::now();
    home.legwork(&["stop", "--session", &session]).run();
    println!("  {} wait, settled within {:.1} s", due(&home), begun.elapsed().as_secs_f64());
    (home, session)
}

fn chat(home: &Home, arguments: &[&str], window: &str) -> harness::Screen {
    let order = home.legwork(arguments).set("max_concurrent_children", 1000).set("queue_max", 20_000);
    let order = order.env("LEGWORK_DELEGATION_INDEPENDENT_COMPLETIONS", "true");
    order.env("LEGWORK_MODEL_WINDOW_TOKENS", window).env("TERM", "xterm-256color").at_terminal(100, 30)
}

/// Lists every result there is, delegation by delegation.
fn list_all(home: &Home, session: &str) {
    let shown = home.legwork(&["sessions", "show", session, "--json"]).run().json();
    let delegations = shown["delegations"].as_array().expect("delegations").clone();
    let begun = Instant::now();
    let listed = delegations.iter().map(|delegation| {
        let id = delegation["delegation_id"].as_str().expect("an id");
        home.legwork(&["results", id, "--json"]).run().results().len()
    });
    let listed: usize = listed.sum();
    println!(
        "legwork results of all {} delegations: {listed} results after {:.2} s",
        delegations.len(),
        begun.elapsed().as_secs_f64()
    );
}

/// How many results have not arrived.
fn due(home: &Home) -> i64 {
    let database = Connection::open(home.database()).expect("the database opens");
    let count = "SELECT count(*) FROM units WHERE due_to IS NOT NULL";
    database.query_row(count, [], |row| row.get(0)).expect("a number")
}

fn arrived(verb: &str, (waiting, begun): (i64, Instant), home: &Home) {
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{verb}: {} of {waiting} arrived, a turn each, after {took:.1} s: {:.1} ms each",
        waiting - due(home),
        took * 1000.0 / waiting as f64
    );
}

fn children(home: &Home, delegation: &str) -> Vec<String> {
    let shown = home.legwork(&["show", delegation, "--json"]).run().json();
    let children = shown["children"].as_array().expect("children").clone();
    children.iter().map(|child| child["subagent_id"].as_str().expect("an id").to_owned()).collect()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn tell(what: &str, mut figures: Vec<f64>) {
    figures.sort_by(f64::total_cmp);
    match figures.as_slice() {
        [] => println!("{what}: nothing to measure"),
        [first, .., last] => println!("{what}: {:.1} [{first:.1} … {last:.1}]", figures[figures.len() / 2]),
        [only] => println!("{what}: {only:.1}"),
    }
}
