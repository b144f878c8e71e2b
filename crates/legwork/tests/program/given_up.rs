//! `results --wait` whose own engine lets go of the work on the way, because the store would not take it: nobody else would go on
//! with it, so it does, or says why it cannot.

use legwork_testkit::server::{Script, ScriptedServer, Scripts, gate};
use rusqlite::Connection;
use serde_json::json;

use crate::harness::{Home, PATIENCE, Running, until};

/// Somebody waits for the results of a process that died, and works on them.
struct Waits {
    home: Home,
    server: ScriptedServer,
    id: String,
    running: Running,
}

impl Waits {
    fn new(form: &[&str]) -> Waits {
        let child = Script::from_fn(|_| gate("here").say("it is done"));
        let server = ScriptedServer::start(Scripts::default().otherwise(child));
        let home = Home::with(&server);
        let first = home.legwork(&["delegate", "--goal", "any"]).start();
        let id = first.delegation();
        server.gate("here").wait_waiting(1);
        first.kill();
        server.wait_for(|log| log.in_flight() == 0, PATIENCE);
        let running = home.legwork(&[&["results", &id, "--wait"], form].concat()).start();
        server.gate("here").wait_waiting(1);
        Waits { home, server, id, running }
    }

    /// From now on the store takes nothing more of the attempt that runs.
    fn fence(&self) {
        let sql = "UPDATE delegations SET epoch = epoch + 1";
        let changed = self.database().execute(sql, ()).expect("it is written");
        assert_eq!(changed, 1);
    }

    fn database(&self) -> Connection {
        let connection = Connection::open(self.home.database()).expect("it opens");
        connection.busy_timeout(PATIENCE).expect("a limit can be set");
        connection
    }
}

#[test]
fn k35_a_wait_goes_on_with_work_that_its_own_engine_gave_up() {
    let waits = Waits::new(&[]);
    waits.fence();
    waits.server.gate("here").open();
    let Waits { home, id, running, .. } = waits;
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{ended}");
    assert!(ended.stdout.contains("it is done"), "{ended}");
    assert!(ended.stderr.contains(&format!("{id} had been given up here")), "{ended}");
    home.assert_nothing_runs();
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    assert_eq!(shown["units"][0]["delivery"], json!("delivered"), "{shown}");
}

#[test]
fn k35_a_wait_for_work_that_its_own_engine_cannot_take_up_again_ends_with_the_reason() {
    let waits = Waits::new(&["--json"]);
    let no_taking = "CREATE TRIGGER kept BEFORE UPDATE OF owner ON delegations BEGIN SELECT RAISE(ABORT, 'the disk is on strike'); END";
    waits.database().execute_batch(no_taking).expect("it is made");
    waits.fence();
    waits.server.gate("here").open();
    let database = waits.database();
    let Waits { home, id, running, .. } = waits;
    let ended = running.wait();
    ended.assert_refused(3, "state", &["the disk is on strike"]);
    home.assert_nothing_runs();
    database.execute_batch("DROP TRIGGER kept").expect("it is dropped");
    let later = home.legwork(&["results", &id, "--wait"]).run();
    assert_eq!(later.code, 0, "nothing was lost: {later}");
    until("nobody to be at it", || home.ps().is_empty().then_some(()));
}

#[test]
fn k35_a_wait_whose_engine_gives_the_work_up_again_and_again_ends_and_says_how_often() {
    let waits = Waits::new(&["--json"]);
    let takes_one_fact =
        "CREATE TRIGGER fickle AFTER INSERT ON facts BEGIN UPDATE delegations SET epoch = epoch + 1; END";
    waits.database().execute_batch(takes_one_fact).expect("it is made");
    waits.fence();
    waits.server.gate("here").open();
    let database = waits.database();
    let Waits { home, id, running, .. } = waits;
    let ended = running.wait();
    ended.assert_refused(3, "state", &[&id, "given up here 4 times", "results"]);
    assert_eq!(ended.stderr.matches("had been given up here").count(), 3, "{ended}");
    home.assert_nothing_runs();
    database.execute_batch("DROP TRIGGER fickle").expect("it is dropped");
    let later = home.legwork(&["results", &id, "--wait"]).run();
    assert_eq!(later.code, 0, "nothing was lost: {later}");
}

/// Also where the steps of a subagent are what the store does not take any more, which is seen before the lease is.
#[test]
fn inv_30_delegate_waits_for_what_was_taken_from_its_attempt() {
    for form in [&[][..], &["--json"]] {
        let child = Script::from_fn(|_| gate("here").say("it is done"));
        let server = ScriptedServer::start(Scripts::default().otherwise(child));
        let home = Home::with(&server);
        let running = home.legwork(&[&["delegate", "--goal", "any"], form].concat()).start();
        running.delegation();
        server.gate("here").wait_waiting(1);
        let database = Connection::open(home.database()).expect("it opens");
        database.busy_timeout(PATIENCE).expect("a limit can be set");
        database.execute("UPDATE delegations SET epoch = epoch + 1", ()).expect("it is written");
        server.gate("here").open();
        let ended = running.wait();
        assert_eq!((ended.code, ended.stdout.contains("it is done")), (0, true), "{ended}");
    }
}

#[test]
fn tail_says_that_nobody_writes_what_it_follows() {
    let child = Script::from_fn(|_| gate("here").say("it is done"));
    let server = ScriptedServer::start(Scripts::default().otherwise(child));
    let home = Home::with(&server);
    let first = home.legwork(&["delegate", "--goal", "any"]).start();
    let id = first.delegation();
    server.gate("here").wait_waiting(1);
    first.kill();
    let tail = home.legwork(&["tail", &id, "-f"]).start();
    until("the note", || {
        tail.stderr().contains(&format!("`legwork results {id} --wait` goes on with it")).then_some(())
    });
    server.gate("here").open();
    assert_eq!(home.legwork(&["results", &id, "--wait"]).run().code, 0);
    let ended = tail.wait();
    assert_eq!((ended.code, ended.stderr.matches("note:").count()), (0, 1), "{ended}");
    assert!(ended.stdout.contains("it is done"), "{ended}");
}

#[test]
fn k35_lines_end_with_the_reason_where_nobody_can_tell_whether_results_wait() {
    let server =
        ScriptedServer::start(Scripts::default().otherwise(Script::always(gate("here").say("heard"))));
    let home = Home::with(&server);
    let running = home.legwork(&["chat"]).stdin("hello\n").start();
    server.gate("here").wait_waiting(1);
    let database = Connection::open(home.database()).expect("it opens");
    database.execute_batch("ALTER TABLE units RENAME TO hidden").expect("it is renamed");
    server.gate("here").open();
    let ended = running.wait();
    assert_eq!((ended.code, ended.stdout.as_str()), (1, "heard\n"), "{ended}");
    assert!(ended.stderr.contains("error: whether results wait cannot be read"), "{ended}");
    assert!(ended.stderr.contains("chat --resume"), "{ended}");
}
