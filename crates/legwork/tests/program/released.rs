//! SIGTERM in the middle of a batch, and the three ways to finish it: a worker, whoever waits for its results, and
//! whoever opens its session. Every child goes on from where it was (K33).

use legwork_testkit::server::{Conversation, Reply, Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{Ended, Home};

/// Calls that each child makes, one a reply, and the one before which it is told to end.
const STEPS: usize = 5;
const TOLD_IN: usize = 3;
const CHILDREN: [&str; 3] = ["first", "second", "third"];

fn child(name: &'static str) -> Script {
    Script::from_fn(move |talk: &Conversation| {
        let reply = match talk.step() {
            STEPS.. => say(format!("the {name} answer")),
            step => call("terminal", json!({"command": format!("echo {step} >> {name}.txt")})),
        };
        if talk.step() == TOLD_IN { gate("here").then(reply) } else { reply }
    })
}

fn parent(talk: &Conversation) -> Reply {
    match talk.step() {
        0 => {
            let tasks: Vec<_> = CHILDREN
                .iter()
                .map(|name| json!({"goal": format!("this is the {name} piece of the work")}))
                .collect();
            call("delegate_task", json!({"tasks": tasks}))
        }
        _ => say("all of it is there"),
    }
}

/// How a batch is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Worker,
    Results,
    Session,
}

fn finish(home: &Home, id: &str, way: Way) -> Ended {
    match way {
        Way::Worker => home.legwork(&["worker", "--only", id]).run(),
        Way::Results => home.legwork(&["results", id, "--wait"]).run(),
        Way::Session => home.legwork(&["run", "and now?", "--last"]).run(),
    }
}

/// Proves RECOV-5.
#[test]
fn k33_inv_29_a_batch_that_was_told_to_end_is_finished_in_any_of_three_ways_and_no_step_is_made_twice() {
    for way in [Way::Worker, Way::Results, Way::Session] {
        let mut scripts = Scripts::default().agent("the prompt", Script::from_fn(parent));
        for name in CHILDREN {
            scripts = scripts.agent(format!("the {name} piece"), child(name));
        }
        let server = ScriptedServer::start(scripts);
        let home = Home::with(&server);
        let order = home.legwork(&["run", "this is the prompt"]);
        let running = order.set("oneshot_max_children", CHILDREN.len() as u64).start();
        server.gate("here").wait_waiting(CHILDREN.len());
        running.signal(Signal::SIGTERM);
        let left = running.wait();
        assert_eq!(left.code, 143, "{way:?}: {left}");
        home.assert_nothing_runs();
        let id = home.only_delegation();
        server.gate("here").open();
        let ended = finish(&home, &id, way);
        assert_eq!(ended.code, 0, "{way:?}: {ended}");
        let results = home.legwork(&["results", &id, "--json"]).run();
        assert_eq!(results.statuses(), vec!["completed"; CHILDREN.len()], "{way:?}: {results}");
        let expected: Vec<String> = (0..STEPS).map(|step| step.to_string()).collect();
        for (index, name) in CHILDREN.iter().enumerate() {
            assert_eq!(home.read(&format!("{name}.txt")).lines().collect::<Vec<_>>(), expected, "{way:?}");
            let asked = server.log().of(&format!("the {name} piece")).len();
            assert_eq!(asked, STEPS + 2, "{way:?}: the call that was cut off is made again, and no other");
            assert_eq!(
                results.results()[index]["tool_trace"].as_array().map(Vec::len),
                Some(STEPS),
                "{way:?}"
            );
        }
        if way != Way::Session {
            let opened = home.legwork(&["run", "and now?", "--last"]).run();
            assert_eq!(opened.code, 0, "{way:?}: {opened}");
        }
        let last = server.log().entries().last().expect("a request").body["messages"].to_string();
        for name in CHILDREN {
            let answer = format!("the {name} answer");
            assert_eq!(last.matches(&answer).count(), 1, "{way:?}: it came to the conversation once");
        }
        assert_eq!(home.list()[0]["units"][0]["delivery"], json!("delivered"), "{way:?}");
        home.assert_nothing_runs();
    }
}
