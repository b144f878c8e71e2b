//! A subagent whose process is killed at the same step each time is given up after so many deaths; one that gets a step
//! further each time is not, and neither is one whose process lets go of it.

use std::sync::Mutex;

use legwork_testkit::server::{Conversation, Reply, Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{Ended, Home, Order, Running};

/// Deaths in a row after which a subagent is given up.
const DEATHS_MAX: usize = 8;

/// Deaths in a row from which on it runs alone.
const ALONE_FROM: usize = DEATHS_MAX / 2;

/// Its first reply is stored; at the second one it waits at another gate each time that it asks.
fn deadly() -> Script {
    let asked = Mutex::new(0);
    Script::from_fn(move |talk: &Conversation| match talk.step() {
        0 => say("I begin").call("terminal", json!({"command": "echo once >> marks.txt"})),
        _ => {
            let mut asked = asked.lock().expect("nobody panicked");
            *asked += 1;
            gate(format!("ask {asked}")).then(say("it is done"))
        }
    })
}

/// At each of its steps it waits at a gate when it asks for the first time.
fn laborious(steps: usize) -> Script {
    let asked = Mutex::new(0);
    Script::from_fn(move |talk: &Conversation| {
        let step = talk.step();
        let reply: Reply = match step {
            step if step < steps => call("terminal", json!({"command": format!("echo {step} >> marks.txt")})),
            _ => say("it is done"),
        };
        let mut asked = asked.lock().expect("nobody panicked");
        if *asked > step {
            return reply;
        }
        *asked += 1;
        gate(format!("ask {asked}")).then(reply)
    })
}

/// Its first call of the model takes long: each time that it asks it waits at another gate.
fn patient() -> Script {
    let asked = Mutex::new(0);
    Script::from_fn(move |_: &Conversation| {
        let mut asked = asked.lock().expect("nobody panicked");
        *asked += 1;
        gate(format!("ask {asked}")).then(say("it is done"))
    })
}

/// Each of its first commands kills the program that runs it, and what it does is stored each time.
fn killer(commands: usize) -> Script {
    Script::from_fn(move |talk: &Conversation| match talk.step() {
        step if step < commands => {
            gate(format!("kill {step}")).then(call("terminal", json!({"command": "kill -9 $PPID"})))
        }
        _ => say("it is done"),
    })
}

fn begun(home: &Home) -> (Running, String) {
    let running = home.legwork(&["delegate", "--goal", "this is the piece of work"]).start();
    let id = running.delegation();
    (running, id)
}

fn going_on<'a>(home: &'a Home, id: &str) -> Order<'a> {
    home.legwork(&["results", id, "--wait", "--json"])
}

/// Proves RECOV-2.
#[test]
fn k08_a_subagent_that_its_process_dies_of_again_and_again_ends_with_a_reason_and_what_it_had() {
    let server = ScriptedServer::start(Scripts::default().agent("the piece", deadly()));
    let home = Home::with(&server);
    let (mut running, id) = begun(&home);
    for death in 1..=DEATHS_MAX {
        server.gate(&format!("ask {death}")).wait_reached();
        running.kill();
        running = going_on(&home, &id).start();
    }
    // The last one finds that it is enough, and asks for nothing.
    let ended = running.wait();
    assert_eq!((ended.code, ended.statuses()), (1, vec!["interrupted".to_owned()]), "{ended}");
    let entry = &ended.results()[0];
    let error = entry["error"].as_str().unwrap_or_default();
    for part in ["died 8 times in a row in a call of its model", "delegate the task again", "on_crash"] {
        assert!(error.contains(part), "{part:?}: {ended}");
    }
    assert_eq!(entry["summary"], json!("I begin"), "what it had said is kept: {ended}");
    assert_eq!(entry["tool_trace"][0]["tool"], json!("terminal"), "{ended}");
    assert!(ended.stderr.contains("1 subagent(s) given up"), "{ended}");
    assert_eq!(server.log().entries().len(), DEATHS_MAX + 1, "nobody asks any more");
    let again = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!(again.results(), ended.results(), "it arrived and can be read again");
    assert_eq!(again.json()["delivery"], json!("delivered"), "{again}");
    assert_eq!(home.read("marks.txt"), "once\n");
    home.assert_nothing_runs();
}

fn assert_done(ended: &Ended) {
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    assert_eq!(ended.results()[0]["summary"], json!("it is done"), "{ended}");
}

/// Proves RECOV-2.
#[test]
fn k08_a_subagent_that_is_killed_once_in_each_of_its_steps_still_finishes() {
    let steps = DEATHS_MAX + 2;
    let server = ScriptedServer::start(Scripts::default().agent("the piece", laborious(steps)));
    let home = Home::with(&server);
    let (mut running, id) = begun(&home);
    for step in 0..=steps {
        server.gate(&format!("ask {}", step + 1)).wait_reached();
        running.kill();
        running = going_on(&home, &id).start();
    }
    assert_done(&running.wait());
    let lines: Vec<String> = (0..steps).map(|step| step.to_string()).collect();
    assert_eq!(home.read("marks.txt").lines().collect::<Vec<_>>(), lines, "each step was done once");
    assert_eq!(server.log().entries().len(), 2 * (steps + 1), "one call more for each death");
    home.assert_nothing_runs();
}

#[test]
fn k33_a_subagent_whose_process_is_told_to_end_again_and_again_is_not_given_up() {
    let server = ScriptedServer::start(Scripts::default().agent("the piece", deadly()));
    let home = Home::with(&server);
    let (mut running, id) = begun(&home);
    for ask in 1..=DEATHS_MAX + 2 {
        server.gate(&format!("ask {ask}")).wait_reached();
        if ask == 1 {
            running.kill();
        } else {
            running.signal(Signal::SIGTERM);
            assert_eq!(running.wait().code, 143);
        }
        running = going_on(&home, &id).set("stop_grace_ms", 50).start();
    }
    server.gate(&format!("ask {}", DEATHS_MAX + 3)).open();
    assert_done(&running.wait());
    home.assert_nothing_runs();
}

/// Proves RECOV-2, K10: the one whose commands kill the program gets further each time, and is not suspected for it.
#[test]
fn k08_inv_10_a_subagent_that_waits_beside_one_whose_commands_kill_the_program_runs_alone_and_finishes() {
    let scripts =
        Scripts::default().agent("the patient", patient()).agent("the deadly", killer(ALONE_FROM + 1));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let goals = ["this is the patient piece", "this is the deadly piece"];
    let mut running = home.legwork(&["delegate", "--goal", goals[0], "--goal", goals[1]]).start();
    let id = running.delegation();
    let killed = |running: Running, death: usize| {
        server.gate(&format!("kill {death}")).wait_reached();
        server.gate(&format!("kill {death}")).open();
        let ended = running.wait();
        assert_eq!(ended.code, -1, "the command kills the program: {ended}");
        going_on(&home, &id).start()
    };
    for death in 0..ALONE_FROM {
        server.gate(&format!("ask {}", death + 1)).wait_reached();
        running = killed(running, death);
    }
    server.gate(&format!("ask {}", ALONE_FROM + 1)).wait_reached();
    // Who begins beside it is recorded before any of them asks.
    assert_eq!(home.state_of(goals[1]).as_deref(), Some("queued"), "it runs alone");
    assert_eq!(server.log().of("the deadly").len(), ALONE_FROM, "it has not asked");
    server.gate(&format!("ask {}", ALONE_FROM + 1)).open();
    let ended = killed(running, ALONE_FROM).wait();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned(); 2]), "{ended}");
    assert_eq!(ended.results()[0]["summary"], json!("it is done"), "{ended}");
    assert_eq!(server.log().of("the patient").len(), ALONE_FROM + 1, "it asked once for each attempt");
    home.assert_nothing_runs();
}
