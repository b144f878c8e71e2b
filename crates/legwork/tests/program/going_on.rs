//! What a child that goes on in another process still knows of its earlier attempts: what it has taken so far, and which
//! model it had got to (K32, CRED-14).

use legwork_testkit::server::{
    Conversation, Reply, Script, ScriptedServer, Scripts, call, gate, say, unauthorized,
};
use serde_json::{Value, json};

use nix::sys::signal::Signal;

use crate::harness::{Ended, Home, Order, until};

/// Tokens that every reply of the server says it took.
const INPUT: usize = 100;
/// A window that a few files fill.
const WINDOW: &str = "20000";

/// Reads file after file until earlier ones are summarised, and then waits at the gate before it answers.
fn reads_until_summarised(talk: &Conversation) -> Reply {
    if talk.system_text().contains("You write the summary") {
        return say("Files of words were read.");
    }
    if talk.messages.iter().any(|message| message.text.contains("this stands for")) {
        return gate("here").say("all is read");
    }
    call("read_file", json!({"path": format!("words-{}.txt", talk.step())}))
}

/// A machine with enough to read, and the child that reads it, killed after a summary.
fn killed_after_a_summary(server: &ScriptedServer) -> (Home, String) {
    let home = Home::with(server);
    for number in 0..20 {
        home.write(&format!("words-{number}.txt"), "words and more of them\n".repeat(900));
    }
    let order = home.legwork(&["delegate", "--goal", "read all of it"]);
    let running = order.env("LEGWORK_MODEL_WINDOW_TOKENS", WINDOW).start();
    let id = running.delegation();
    server.gate("here").wait_reached();
    running.kill();
    server.gate("here").open();
    (home, id)
}

/// The tokens of an entry, and of all replies that the server gave whole: all requests but the one that was cut off.
#[track_caller]
fn assert_counted_once(server: &ScriptedServer, ended: &Ended) {
    let log = server.log();
    let summaries =
        log.entries().iter().filter(|entry| entry.body.to_string().contains("You write the summary")).count();
    assert!(summaries > 0, "{}", log.summary());
    let handed_out = INPUT * (log.entries().len() - 1);
    assert_eq!(ended.results()[0]["tokens"]["input"], json!(handed_out), "{ended}\n{}", log.summary());
}

#[test]
fn k32_inv_28_what_a_summary_took_is_counted_once_by_a_child_that_goes_on() {
    let script = Script::from_fn(reads_until_summarised);
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let (home, id) = killed_after_a_summary(&server);
    let order = home.legwork(&["results", &id, "--wait", "--json"]);
    let ended = order.env("LEGWORK_MODEL_WINDOW_TOKENS", WINDOW).run();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    assert_counted_once(&server, &ended);
    let again = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!(again.results(), ended.results(), "the same after a restart");
}

#[test]
fn k32_inv_28_what_a_summary_took_is_counted_for_a_child_that_is_only_reported() {
    let script = Script::from_fn(reads_until_summarised);
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let (home, id) = killed_after_a_summary(&server);
    let stopped = home.legwork(&["stop", &id]).run();
    assert_eq!(stopped.code, 0, "{stopped}");
    let ended = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!(ended.statuses(), ["interrupted"], "{ended}");
    assert_counted_once(&server, &ended);
}

/// A second model that makes one call and then answers, and waits at the gate before one of its replies.
fn stand_in(waits_at: usize) -> ScriptedServer {
    let script = Script::from_fn(move |talk: &Conversation| {
        let reply = match talk.step() {
            0 => call("terminal", json!({"command": "echo once >> steps.txt"})),
            _ => say("from the second"),
        };
        if talk.step() == waits_at { gate("here").then(reply) } else { reply }
    });
    ScriptedServer::start(Scripts::default().otherwise(script))
}

fn with_chain<'a>(home: &'a Home, arguments: &[&str]) -> Order<'a> {
    home.legwork(&[&["--config", "config.toml"], arguments].concat())
}

/// Proves CRED-14.
#[test]
fn cred_14_k02_a_child_goes_on_with_the_model_that_it_had_got_to() {
    for waits_at in [0, 1] {
        let first = ScriptedServer::start(Scripts::default().otherwise(Script::always(unauthorized())));
        let second = stand_in(waits_at);
        let home = Home::with(&first);
        let address = second.base_url();
        home.write(
            "config.toml",
            format!("[[delegation.fallback_providers]]\nmodel = 'second-model'\nbase_url = '{address}'\napi_key = 'k'\n"),
        );
        let running = with_chain(&home, &["delegate", "--goal", "work"]).start();
        let id = running.delegation();
        second.gate("here").wait_reached();
        running.kill();
        second.gate("here").open();
        let ended = with_chain(&home, &["results", &id, "--wait", "--json"]).run();
        assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{waits_at}: {ended}");
        let entry: &Value = &ended.results()[0];
        assert_eq!(entry["summary"], "from the second", "{waits_at}: {ended}");
        assert_eq!(first.log().entries().len(), 1, "{waits_at}: the first is not asked again");
        assert_eq!(home.read("steps.txt"), "once\n");
    }
}

/// A configuration with a route of its own key, and two tasks, of which the second goes there.
fn near_and_far(home: &Home, far: &ScriptedServer) {
    let address = far.base_url();
    home.write(
        "config.toml",
        format!("[delegation.routes.far]\nmodel = 'far-model'\nbase_url = '{address}'\napi_key_env = 'FAR_KEY_2'\n"),
    );
    home.write("tasks.toml", "[[tasks]]\ngoal = 'near'\n[[tasks]]\ngoal = 'far'\nroute = 'far'\n");
}

/// A child that leaves a line of its own, and waits at the gate before its answer.
fn one_line(name: &'static str) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(move |talk: &Conversation| {
        match talk.step() {
            0 => call("terminal", json!({"command": format!("echo {name} >> {name}.txt")})),
            _ => gate("here").say(format!("from {name}")),
        }
    })))
}

/// Proves RECOV-2.
#[test]
fn k29_work_without_its_key_stays_queued_says_what_it_needs_and_holds_up_nothing_else() {
    for way in ["results", "worker"] {
        let (near, far) = (one_line("near"), one_line("far"));
        let home = Home::with(&near);
        near_and_far(&home, &far);
        let running = with_chain(&home, &["delegate", "tasks.toml"]).env("FAR_KEY_2", "k").start();
        let id = running.delegation();
        near.gate("here").wait_reached();
        far.gate("here").wait_reached();
        running.kill();
        near.gate("here").open();
        far.gate("here").open();
        let verb: &[&str] =
            if way == "results" { &["results", &id, "--wait"] } else { &["worker", "--only", &id] };
        let without = with_chain(&home, &[verb, &["--json"]].concat()).run();
        without.assert_refused(3, "no_model", &[&id, "FAR_KEY_2"]);
        let ps = home.ps();
        let children = &ps[0]["units"][0]["children"];
        let states = [&children[0]["state"], &children[1]["state"]];
        assert_eq!(states, ["completed", "queued"], "{way}: {children}");
        assert_eq!(children[1]["waits_for"], "the key in FAR_KEY_2", "{way}: {children}");
        let text = home.legwork(&["ps"]).run();
        assert!(text.stdout.contains("queued (needs FAR_KEY_2)"), "{way}: {text}");
        let shown = home.legwork(&["show", &id, "--json"]).run().json();
        let place = shown["units"][0]["where"].as_str().expect("a sentence").to_owned();
        assert!(place.contains("needs the key in FAR_KEY_2"), "{way}: {place}");
        let asked = far.log().entries().len();
        let with = with_chain(&home, &["results", &id, "--wait", "--json"]).env("FAR_KEY_2", "k").run();
        assert_eq!((with.code, with.statuses()), (0, vec!["completed".to_owned(); 2]), "{way}: {with}");
        assert_eq!(far.log().entries().len(), asked + 1, "{way}: nothing was asked without the key");
        assert_eq!((home.read("near.txt"), home.read("far.txt")), ("near\n".to_owned(), "far\n".to_owned()));
        home.assert_nothing_runs();
    }
}

/// A conversation goes on, and another process that has the key takes what this one cannot go on with.
#[test]
fn k29_a_worker_with_the_key_takes_what_a_living_process_let_go_of() {
    let (near, far) = (one_line("near"), one_line("far"));
    let home = Home::with(&near);
    near_and_far(&home, &far);
    let running = with_chain(&home, &["delegate", "tasks.toml"]).env("FAR_KEY_2", "k").start();
    let id = running.delegation();
    near.gate("here").wait_reached();
    far.gate("here").wait_reached();
    running.kill();
    near.gate("here").open();
    far.gate("here").open();
    let keyless = with_chain(&home, &["worker"]).start();
    until("the sibling to be done, and the rest to be nobody's", || {
        let shown = home.legwork(&["show", &id, "--json"]).run().json();
        (shown["children"][1]["waits_for"] == "the key in FAR_KEY_2"
            && shown["children"][0]["state"] == "settled")
            .then_some(())
    });
    let with = with_chain(&home, &["worker", "--only", &id]).env("FAR_KEY_2", "k").run();
    assert_eq!(with.code, 0, "{with}");
    keyless.signal(Signal::SIGTERM);
    assert_eq!(keyless.wait().code, 143);
    let ended = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned(); 2]), "{ended}");
}
