//! `delegate --detach`: a handle at once, and work that goes on without a terminal until it is done.

use std::fs;

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::{Home, Seen, until};

/// Proves OUT-3, OUT-5, OUT-6.
#[test]
fn k33_detached_work_goes_on_after_its_program_has_ended() {
    let scripts =
        Scripts::default().otherwise(Script::from_fn(|_: &Conversation| gate("here").say("it is done")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let handle = home.legwork(&["delegate", "--goal", "one", "--goal", "two", "--detach", "--json"]).run();
    assert_eq!(handle.code, 0, "{handle}");
    let document = handle.json();
    assert_eq!(
        (&document["status"], &document["mode"], &document["count"]),
        (&json!("dispatched"), &json!("background"), &json!(2))
    );
    assert_eq!(document["goals"], json!(["one", "two"]));
    assert_eq!(document["live_transcripts"].as_array().map(Vec::len), Some(2), "{handle}");
    let id = document["delegation_id"].as_str().expect("an id").to_owned();
    server.gate("here").wait_waiting(2);
    let worker = until("the worker to be seen", || {
        home.processes().into_iter().find(|seen| seen.command.contains("worker"))
    });
    assert!(worker.command.contains(&id), "{worker:?}");
    let log = home.state().join(format!("log/worker-{id}.log"));
    let told = until("the worker to say what it has taken", || {
        fs::read_to_string(&log).ok().filter(|told| told.contains("delegation(s)"))
    });
    assert!(told.contains("1 delegation(s) left to this worker: "), "nobody died: {told}");
    assert!(!told.contains("died"), "{told}");
    server.gate("here").open();
    let ended = home.legwork(&["results", &id, "--wait", "--json"]).run();
    assert_eq!(ended.statuses(), ["completed", "completed"], "{ended}");
    home.wait_until_nothing_runs();
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    let ledger = shown["ledger"].as_array().expect("a ledger").clone();
    assert!(
        ledger.iter().any(|line| line["reason"] == "no conversation" || line["state"] == "delivered"),
        "{ledger:?}"
    );
    home.legwork(&["results", &id]).run();
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    assert_eq!(shown["units"][0]["delivery"], json!("delivered"), "{}", shown["ledger"]);
    assert_eq!(server.log().entries().len(), 2, "{}", server.log().summary());
}

/// Work that is left to a worker which reads its configuration and cannot go on, because nobody writes that; with its id.
fn left_to_a_worker(home: &Home) -> (String, Seen) {
    // The worker reads the configuration before anything else, and waits for somebody who writes it.
    let config = home.project().join("config.toml");
    nix::unistd::mkfifo(&config, nix::sys::stat::Mode::S_IRWXU).expect("it can be made");
    let path = config.display().to_string();
    let detaching =
        home.legwork(&["delegate", "--goal", "one", "--detach", "--json", "--config", &path]).start();
    fs::write(&config, "").expect("the program reads it");
    let handle = detaching.wait();
    assert_eq!(handle.code, 0, "{handle}");
    let id = handle.json()["delegation_id"].as_str().expect("an id").to_owned();
    let worker = until("the worker to be seen", || {
        home.processes().into_iter().find(|seen| seen.command.contains("worker"))
    });
    (id, worker)
}

/// Whoever takes that up says so: no process has died.
#[test]
fn k39_work_that_is_taken_from_a_worker_that_has_not_begun_is_not_called_that_of_a_dead_process() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(say("it is done"))));
    let home = Home::with(&server);
    let (id, _worker) = left_to_a_worker(&home);
    let ended = home.legwork(&["results", &id, "--wait"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    assert!(ended.stderr.contains("1 delegation(s) left to a worker that has not begun: "), "{ended}");
    assert!(!ended.stderr.contains("died"), "{ended}");
}

/// A worker that was started and has not begun is told from one that will never come.
#[test]
fn k39_work_is_left_to_a_worker_until_that_begins_and_orphaned_once_that_is_gone() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(say("it is done"))));
    let home = Home::with(&server);
    let (id, worker) = left_to_a_worker(&home);

    let told = home.legwork(&["ps", "--json"]).run();
    let delegation = &told.json()["delegations"][0];
    assert_eq!(delegation["state"], json!("handed_over"), "{told}");
    assert_eq!(delegation["units"][0]["children"][0]["state"], json!("handed_over"), "{told}");
    assert!(told.stderr.contains("left to a worker that has not begun yet"), "{told}");
    let shown = home.legwork(&["show", &id]).run();
    assert!(shown.stdout.contains("left to a worker, which has not begun yet"), "{shown}");
    for verb in [&["ps"][..], &["show", &id], &["results", &id], &["doctor", "--offline"]] {
        let told = home.legwork(verb).run();
        assert!(!format!("{told}").contains("has died"), "{verb:?}: {told}");
        assert!(!told.stdout.contains("orphaned"), "{verb:?}: {told}");
    }

    worker.kill();
    home.wait_until_nothing_runs();
    let told = home.legwork(&["ps", "--json"]).run();
    assert_eq!(told.json()["delegations"][0]["state"], json!("orphaned"), "{told}");
    assert!(told.stderr.contains("has died"), "{told}");
    let ended = home.legwork(&["results", &id, "--wait", "--json"]).run();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
}

/// As docs/guide/delegate.md says it: the worker parks the results, and who asks for them first takes them.
#[test]
fn k33_what_a_worker_has_done_is_parked_until_somebody_asks_for_it() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(say("it is done"))));
    let home = Home::with(&server);
    let handle = home.legwork(&["delegate", "--goal", "one", "--detach", "--json"]).run();
    let id = handle.json()["delegation_id"].as_str().expect("an id").to_owned();
    home.wait_until_nothing_runs();
    let shown = || home.legwork(&["show", &id, "--json"]).run().json();
    let parked = shown();
    assert_eq!(parked["units"][0]["delivery"], json!("parked"), "{parked}");
    let last = parked["ledger"].as_array().and_then(|ledger| ledger.last()).expect("a ledger");
    assert_eq!(last["reason"], json!("no conversation"), "{parked}");
    let ended = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    assert_eq!(shown()["units"][0]["delivery"], json!("delivered"));
    assert_eq!(server.log().entries().len(), 1, "{}", server.log().summary());
}

/// However soon after the end it is asked for: what `results` has printed counts as delivered.
#[test]
fn k05_what_results_has_waited_for_and_printed_is_delivered() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::new().step(say("done"))));
    let home = Home::with(&server);
    for _ in 0..12 {
        let left = home.legwork(&["delegate", "--goal", "a task", "--detach", "--json"]).run();
        let id = left.json()["delegation_id"].as_str().expect("an id").to_owned();
        let ended = home.legwork(&["results", &id, "--wait", "--json"]).run();
        assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
        let shown = home.legwork(&["show", &id, "--json"]).run().json();
        assert_eq!(shown["units"][0]["delivery"], json!("delivered"), "{shown}");
    }
}

#[test]
fn k01_detached_work_of_a_conversation_comes_to_it_and_to_nobody_else() {
    let scripts = Scripts::default()
        .agent("the piece", Script::new().step(say("the piece is done")))
        .otherwise(Script::from_fn(|talk: &Conversation| {
            say(format!("{}", talk.last_text().contains("the piece is done")))
        }));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let (session, _) = home.left_piece("this is the piece");
    let ended = home.legwork(&["run", "and?", "--resume", &session]).run();
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(ended.stderr.matches("◂ ").count(), 1, "{ended}");
    let alone = home.legwork(&["delegate", "--goal", "x", "--session", &session, "--json"]).run();
    alone.assert_refused(2, "usage", &["--detach"]);
}

/// Proves EVT-5: when it was delegated, in the zone of whoever reads it.
#[test]
fn evt_05_a_completion_says_when_it_was_delegated_in_the_zone_of_its_process() {
    let scripts = Scripts::default()
        .agent("the piece", Script::new().step(say("the piece is done")))
        .otherwise(Script::always(say("heard")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let (session, _) = home.left_piece("this is the piece");
    // Five and a half hours ahead of UTC, whatever the machine has.
    let ended = home.legwork(&["run", "and?", "--resume", &session]).env("TZ", "<+0530>-5:30").run();
    assert_eq!(ended.code, 0, "{ended}");
    let database = rusqlite::Connection::open(home.database()).expect("it opens");
    let accepted: i64 = database
        .query_row("SELECT accepted_at FROM delegations", (), |row| row.get(0))
        .expect("there is one");
    let zone = jiff::tz::TimeZone::fixed(jiff::tz::Offset::from_seconds(19_800).expect("it is small"));
    let at = jiff::Timestamp::from_millisecond(accepted).expect("it is a time").to_zoned(zone);
    let words = at.strftime("Delegated %Y-%m-%d %H:%M:%S (").to_string();
    let log = server.log();
    let last = log.entries().last().expect("requests").body["messages"].to_string();
    assert!(last.contains(&words), "{words:?}: {last}");
}

/// The conversation lists what works for it, says something to it and ends it, by the id of the subagent or of the
/// delegation that its person names; then it says what it was answered.
fn looks_after(names_delegation: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Script {
    Script::from_fn(move |talk: &Conversation| {
        let seen = |place: usize| -> Value {
            serde_json::from_str(talk.tool_results()[place]).expect("the tool answers in JSON")
        };
        let control = |arguments: Value| call("delegate_task", arguments);
        match talk.step() {
            0 => say("hello"),
            1 => control(json!({"action": "list"})),
            2 => {
                let id = &seen(0)["subagents"][0]["subagent_id"];
                control(json!({"action": "steer", "subagent_id": id, "message": "hurry up"}))
            }
            3 => {
                let asked =
                    talk.messages.iter().find_map(|message| message.text.strip_prefix("look now at "));
                let id = asked.and_then(&names_delegation);
                let id = id.map_or_else(|| seen(1)["subagent_id"].clone(), Value::from);
                control(json!({"action": "stop", "subagent_id": id}))
            }
            _ => say(talk.tool_results().join("\n")),
        }
    })
}

/// Proves CTRL-2, TOOL-16 for work that another process runs.
#[test]
fn ctrl_02_tool_16_a_conversation_looks_after_what_a_worker_runs_for_it() {
    for by_delegation in [false, true] {
        let held = Script::from_fn(|_: &Conversation| gate("here").say("never said"));
        let script = looks_after(move |named| by_delegation.then(|| named.to_owned()));
        let server =
            ScriptedServer::start(Scripts::default().agent("the piece", held).agent("look after it", script));
        let home = Home::with(&server);
        let first = home.legwork(&["run", "look after it", "--json"]).run();
        let session = first.json()["session_id"].as_str().expect("an id").to_owned();
        let goal = ["delegate", "--goal", "this is the piece", "--detach", "--session", &session, "--json"];
        let handle = home.legwork(&goal).run().json();
        let (id, child) = (handle["delegation_id"].as_str().expect("an id"), &handle["subagent_ids"][0]);
        server.gate("here").wait_reached();
        let ended = home.legwork(&["run", &format!("look now at {id}"), "--resume", &session]).run();
        let answers: Vec<Value> =
            ended.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(answers.len(), 3, "{ended}");
        assert_eq!((&answers[0]["count"], &answers[0]["subagents"][0]["subagent_id"]), (&json!(1), child));
        assert_eq!(answers[0]["subagents"][0]["status"], json!("running"), "{ended}");
        assert_eq!((&answers[1]["action"], &answers[1]["status"]), (&json!("steer"), &json!("queued")));
        assert_eq!(
            (&answers[2]["action"], &answers[2]["status"]),
            (&json!("stop"), &json!("interrupt_requested"))
        );
        home.wait_until_nothing_runs();
        let shown = home.legwork(&["show", id, "--json"]).run();
        assert!(shown.stdout.contains("interrupted") && shown.stdout.contains("hurry up"), "{shown}");
    }
}

/// Proves K20's rule for handles: whoever is told of a failure learns what goes on all the same.
#[test]
fn k20_a_handle_that_could_not_be_written_is_named_beside_the_error() {
    for json in [&["--json"][..], &[]] {
        let server = ScriptedServer::start(Scripts::default().otherwise(Script::new().step(say("done"))));
        let home = Home::with(&server);
        let arguments = [&["delegate", "--goal", "this is the piece of work", "--detach"][..], json].concat();
        let (running, reader) = home.legwork(&arguments).start_with_stdout();
        drop(reader);
        let ended = running.wait();
        assert_eq!(ended.code, 1, "{ended}");
        let known = home.list()[0]["delegation_id"].as_str().expect("an id").to_owned();
        assert!(ended.stderr.contains(&known), "{ended}");
        let results = home.legwork(&["results", &known, "--wait"]).run();
        assert_eq!(results.code, 0, "{results}");
    }
}

/// What a process that has died stands in the way of `results` with: it takes units just before `results` does.
fn taken_first(home: &Home, place: usize) {
    let database = Connection::open(home.database()).expect("it opens");
    let ledger: String =
        database.query_row("SELECT ledger FROM units", (), |row| row.get(0)).expect("there is a ledger");
    let line = ledger.lines().find(|line| line.contains("claimed")).expect("the worker had taken it");
    let sql = format!(
        "CREATE TRIGGER first AFTER UPDATE OF state ON units
           WHEN OLD.state = 'parked' AND NEW.state = 'ready' AND NEW.place = {place} BEGIN
             UPDATE units SET state = 'claimed', claim = 'clm_0000000000000001',
               ledger = NEW.ledger || '{}' || char(10) WHERE no = NEW.no;
         END",
        line.replace('\'', "''")
    );
    database.execute_batch(&sql).expect("it is made");
}

fn deliveries(home: &Home) -> Vec<String> {
    let database = Connection::open(home.database()).expect("it opens");
    let mut units = database.prepare("SELECT state FROM units ORDER BY place").expect("there are units");
    let rows = units.query_map((), |row| row.get(0)).expect("they are read");
    rows.collect::<Result<_, _>>().expect("they are read")
}

/// Two units that a worker has done and put aside; their id.
fn put_aside(home: &Home) -> String {
    home.write("tasks.json", r#"{"tasks": [{"goal": "a", "group": "a"}, {"goal": "b", "group": "b"}]}"#);
    let order = home.legwork(&["delegate", "tasks.json", "--detach", "--json"]);
    let left = order.env("LEGWORK_DELEGATION_INDEPENDENT_COMPLETIONS", "true").run();
    let id = left.json()["delegation_id"].as_str().expect("an id").to_owned();
    home.wait_until_nothing_runs();
    assert_eq!(deliveries(home), ["parked", "parked"]);
    id
}

/// What was free when it was read, and is taken by another process before `results` takes it: that is waited for like what was
/// taken before.
#[test]
fn k05_what_somebody_else_takes_at_that_moment_is_delivered_once_it_is_free() {
    for place in [0, 1] {
        let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(say("it is done"))));
        let home = Home::with(&server);
        let id = put_aside(&home);
        taken_first(&home, place);
        let ended = home.legwork(&["results", &id, "--json"]).run();
        assert_eq!((ended.code, ended.statuses().len()), (0, 2), "{ended}");
        assert_eq!(deliveries(&home), ["delivered", "delivered"], "{ended}");
    }
}

/// Once all of it is taken here there is nothing to look for any more: what cannot be read by then keeps nobody waiting.
#[test]
fn k05_results_does_not_look_again_for_what_it_has_taken_itself() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(say("it is done"))));
    let home = Home::with(&server);
    let id = put_aside(&home);
    taken_first(&home, 1);
    let unreadable = "CREATE TRIGGER unreadable AFTER UPDATE OF state ON units
        WHEN OLD.state = 'ready' AND NEW.state = 'claimed' AND NEW.place = 1
          AND NEW.claim <> 'clm_0000000000000001' BEGIN
            DELETE FROM children;
        END";
    let database = Connection::open(home.database()).expect("it opens");
    database.execute_batch(unreadable).expect("it is made");
    let ended = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!((ended.code, ended.statuses().len()), (0, 2), "{ended}");
    assert_eq!(deliveries(&home), ["delivered", "delivered"], "{ended}");
}

/// What is printed is printed. That it was can be stored later: whoever asks again gets it again.
#[test]
fn k35_results_are_printed_although_it_cannot_be_stored_that_they_were() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(say("it is done"))));
    let home = Home::with(&server);
    let id = put_aside(&home);
    let strike = "CREATE TRIGGER strike BEFORE UPDATE OF state ON units WHEN NEW.state = 'delivered' BEGIN
        SELECT RAISE(ABORT, 'the disk is on strike'); END";
    let database = Connection::open(home.database()).expect("it opens");
    database.execute_batch(strike).expect("it is made");
    let ended = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned(); 2]), "{ended}");
    assert!(ended.stderr.contains("the disk is on strike"), "{ended}");
    database.execute_batch("DROP TRIGGER strike").expect("it is dropped");
    let again = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!((again.code, again.results()), (0, ended.results()), "{again}");
    assert_eq!(deliveries(&home), ["delivered", "delivered"], "{again}");
}

/// Whichever begins first.
#[test]
fn k07_tasks_for_a_conversation_and_its_deletion_are_never_both_carried_out() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(say("it is done"))));
    let home = Home::with(&server);
    for round in 0..12 {
        let session = home.conversation();
        let delegating = || {
            home.legwork(&["delegate", "--goal", "one", "--detach", "--session", &session, "--json"]).start()
        };
        let deleting = || home.legwork(&["sessions", "delete", &session, "--yes", "--json"]).start();
        let (delegated, deleted) = if round % 2 == 0 {
            (delegating(), deleting())
        } else {
            let deleted = deleting();
            (delegating(), deleted)
        };
        let (delegated, deleted) = (delegated.wait(), deleted.wait());
        let shown = home.legwork(&["sessions", "show", &session, "--json"]).run();
        match (delegated.code, deleted.code) {
            (0, 1) => {
                assert_eq!(shown.code, 0, "{shown}");
                let id = delegated.json()["delegation_id"].as_str().expect("an id").to_owned();
                let ended = home.legwork(&["results", &id, "--wait", "--json"]).run();
                assert_eq!(ended.statuses(), ["completed"], "{ended}");
                deleted.assert_refused(1, "refused", &["nothing was deleted"]);
            }
            (4, 0) => {
                delegated.assert_refused(4, "not_found", &[&session]);
                assert_eq!(shown.code, 4, "{shown}");
                let all = home.list();
                assert!(all.iter().all(|one| one["session_id"] != json!(session)), "round {round}: {all:?}");
            }
            _ => panic!("round {round}: {delegated}\n{deleted}"),
        }
    }
}

/// Neither a transcript nor a session, in the foreground and in the background.
#[test]
fn inv_21_a_call_that_the_store_refuses_leaves_nothing_behind() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    assert_eq!(home.legwork(&["delegate", "--goal", "any"]).run().code, 0);
    let listed =
        || home.legwork(&["sessions", "--all", "--shell", "--json"]).run().json()["sessions"].clone();
    let transcripts = || {
        let folders = fs::read_dir(home.state().join("live")).expect("it is there");
        folders.map(|folder| folder.expect("it reads").file_name()).collect::<Vec<_>>()
    };
    let (sessions, before) = (listed(), transcripts());
    let database = Connection::open(home.database()).expect("it opens");
    let strike =
        "CREATE TRIGGER strike BEFORE INSERT ON delegations BEGIN SELECT RAISE(ABORT, 'no more'); END";
    database.execute_batch(strike).expect("it is made");
    for form in [&[][..], &["--detach"]] {
        let ended = home.legwork(&[&["delegate", "--goal", "any", "--json"], form].concat()).run();
        ended.assert_refused(3, "state", &["no more"]);
        assert_eq!((listed(), transcripts()), (sessions.clone(), before.clone()), "{form:?}");
    }
    database.execute_batch("DROP TRIGGER strike").expect("it is dropped");
    assert_eq!(home.legwork(&["delegate", "--goal", "any"]).run().code, 0);
}
