//! The named states of a store that cannot be used as usual: `doctor` shows each and says what to do, verbs that look go on
//! looking, and whoever follows the advice works again.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use legwork_testkit::server::{Script, ScriptedServer, Scripts, gate};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::{Ended, Home, Order, until};

/// A state folder with one delegation that has ended; its id.
fn with_one(home: &Home) -> String {
    let ended = home.legwork(&["delegate", "--goal", "any", "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    ended.json()["delegation_id"].as_str().expect("an id").to_owned()
}

fn doctor(home: &Home) -> Order<'_> {
    home.legwork(&["doctor", "--offline", "--json"])
}

/// What `doctor` says of the store, the only time it does.
#[track_caller]
fn store_check(ended: &Ended) -> Value {
    let checks = ended.json()["checks"].as_array().expect("checks").clone();
    let of_store: Vec<Value> = checks.into_iter().filter(|check| check["name"] == "store").collect();
    let [check] = of_store.as_slice() else { panic!("not one check of the store: {ended}") };
    check.clone()
}

/// The store is in the state of this name, `doctor` fails for it, and says what to do with these words.
#[track_caller]
fn assert_fault(ended: &Ended, fault: &str, fix: &[&str]) {
    let check = store_check(ended);
    assert_eq!((ended.code, &check["state"]), (1, &json!("wrong")), "{ended}");
    assert_eq!(check["fault"], json!(fault), "{ended}");
    let detail = check["detail"].as_str().expect("a detail");
    assert!(detail.starts_with(&format!("{fault}: ")), "{ended}");
    for word in fix {
        assert!(check["fix"].as_str().unwrap_or_default().contains(word), "{word:?}: {ended}");
    }
}

/// Moves everything that is in the log into the database, and takes the log away.
fn settle(home: &Home) {
    let connection = Connection::open(home.database()).expect("it opens");
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(())).expect("nobody else has it open");
}

/// Every file below a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("it can be read") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).expect("it can be read"))),
        }
    }
    found
}

/// What is said of a full disk, by every kind of limit that can be set, and that nothing of the trial is left.
#[test]
fn k35_doctor_tells_a_full_disk_and_leaves_nothing_behind() {
    let server = ScriptedServer::start(Scripts::default());
    let limits: [fn(Order<'_>) -> Order<'_>; 3] = [
        |order| order.after("ulimit -S -f 64"),
        |order| order.after("ulimit -S -f 0"),
        |order| order.env("LEGWORK_STATE_MAX_PAGES", "1"),
    ];
    for limit in limits {
        let home = Home::with(&server);
        with_one(&home);
        settle(&home);
        let before = files(&home.state());
        let full = limit(doctor(&home)).run();
        assert_fault(&full, "full", &["free some space", &home.state().display().to_string()]);
        let well = doctor(&home).run();
        assert_eq!((well.code, &store_check(&well)["fault"]), (0, &Value::Null), "{well}");
        settle(&home);
        assert_eq!(files(&home.state()), before, "nothing of the trials is left");
    }
}

#[test]
fn k35_doctor_tells_a_file_system_without_a_free_byte() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    // The log has room left from before, which says nothing of the disk.
    let filled =
        "\"$0\" delegate --goal any -q >/dev/null && cat /dev/zero >\"$XDG_STATE_HOME/filler\" 2>/dev/null";
    let Some(order) = doctor(&home).on_a_disk_of_its_own("8m", filled) else {
        eprintln!("NOTE: this system gives no file system to a test; limits of files stand for it elsewhere");
        return;
    };
    assert_fault(&order.run(), "full", &["free some space"]);
}

#[test]
fn k35_a_full_disk_can_be_looked_at() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    let id = with_one(&home);
    settle(&home);
    for verb in looks(&id) {
        let usual = home.legwork(&verb).run();
        settle(&home);
        let full = home.legwork(&verb).after("ulimit -S -f 0").run();
        assert_eq!((full.code, &full.stdout), (usual.code, &usual.stdout), "{verb:?}: {full}");
        assert!(full.stderr.contains("full") && full.stderr.contains("looked at"), "{verb:?}: {full}");
    }
}

#[test]
fn k35_a_locked_database_is_told_and_can_be_looked_at() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    let id = with_one(&home);
    let lock = home.lock_database();
    assert_fault(&doctor(&home).run(), "locked", &["fuser"]);
    let shown = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!((shown.code, shown.statuses()), (0, vec!["completed".to_owned()]), "{shown}");
    assert!(shown.stderr.contains("locked by another process"), "{shown}");
    let holder = format!("process {} has it", std::process::id());
    home.legwork(&["pause", "on", "--json"]).run().assert_refused(
        3,
        "state",
        &["locked", "try again", &holder],
    );
    drop(lock);
    assert_eq!(doctor(&home).run().code, 0);
}

/// The verbs that look, at a delegation that has ended.
fn looks(id: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["ps", "--all", "--json"],
        vec!["show", id, "--json"],
        vec!["results", id, "--json"],
        vec!["results", id, "--wait", "--json"],
        vec!["tail", id, "--json"],
        vec!["sessions", "list", "--all", "--shell", "--json"],
        vec!["pause"],
    ]
}

/// How a state folder may have been left before it could not be written any more.
#[derive(Debug, Clone, Copy)]
enum Leftover {
    /// With everything in the database.
    Settled,
    /// With a log and its index, as a process leaves them that was killed.
    LogAndIndex,
    /// With a log alone, as a copy may have it.
    Log,
}

#[test]
fn k35_a_read_only_state_folder_can_be_looked_at_and_takes_nothing() {
    for leftover in [Leftover::Settled, Leftover::LogAndIndex, Leftover::Log] {
        for (folders, database) in [(0o500, 0o400), (0o500, 0o600), (0o700, 0o400)] {
            // Beside a log and its index nothing has to be made: such a database can be written.
            if !matches!((leftover, database), (Leftover::LogAndIndex, 0o600)) {
                read_only(leftover, (folders, database));
            }
        }
    }
}

#[track_caller]
fn read_only(leftover: Leftover, (folders, database): (u32, u32)) {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    let id = with_one(&home);
    let expected: Vec<String> = looks(&id).into_iter().map(|verb| home.legwork(&verb).run().stdout).collect();
    match leftover {
        Leftover::Settled => settle(&home),
        Leftover::LogAndIndex | Leftover::Log => leave_log(&home),
    }
    if matches!(leftover, Leftover::Log) {
        fs::remove_file(home.state().join("legwork.db-shm")).expect("it is there");
    }
    let rights = Rights::take(&home, folders, database);
    let before = files(&home.state());
    for (verb, expected) in looks(&id).into_iter().zip(expected) {
        let looked = home.legwork(&verb).bound_by_rights().run();
        let place = format!("{verb:?} {leftover:?} {folders:o} {database:o}: {looked}");
        assert_eq!((looked.code, looked.stdout.as_str()), (0, expected.as_str()), "{place}");
        assert!(looked.stderr.contains("cannot be written"), "{place}");
    }
    for verb in [&["delegate", "--goal", "any"][..], &["run", "any"], &["dismiss", &id], &["pause", "on"]] {
        let refused = home.legwork(&[verb, &["--json"]].concat()).bound_by_rights().run();
        assert_eq!((refused.code, &refused.json()["error"]["kind"]), (3, &json!("state")), "{refused}");
        assert!(refused.stdout.contains("cannot be"), "{refused}");
    }
    let told = doctor(&home).bound_by_rights().run();
    assert_fault(&told, "read_only", &["--state-dir", &home.state().display().to_string()]);
    let after = files(&home.state());
    let changed =
        after.iter().filter(|(path, bytes)| before.get(*path) != Some(*bytes)).map(|(path, _)| path);
    // What all processes share about a log holds no results; in a folder that can be written it is made anew.
    let changed: Vec<_> = changed.filter(|path| !path.ends_with("legwork.db-shm")).collect();
    assert!(changed.is_empty(), "{changed:?}");
    drop(rights);
    assert_eq!(doctor(&home).run().code, 0);
    assert_eq!(server.log().entries().len(), 1, "nothing was asked while it could not be written");
}

/// A log beside a database that nobody has open.
fn leave_log(home: &Home) {
    let kept = home.project().join("kept");
    fs::create_dir(&kept).expect("the folder is made");
    let names = ["legwork.db", "legwork.db-wal", "legwork.db-shm"];
    let connection = Connection::open(home.database()).expect("it opens");
    connection.pragma_update(None, "user_version", version(&connection)).expect("a write, for the log");
    for name in names {
        fs::copy(home.state().join(name), kept.join(name)).expect("it can be copied");
    }
    drop(connection);
    for name in names {
        fs::copy(kept.join(name), home.state().join(name)).expect("it can be put back");
    }
    fs::remove_dir_all(kept).expect("ours");
}

fn version(connection: &Connection) -> u32 {
    connection.query_row("PRAGMA user_version", (), |row| row.get(0)).expect("it has one")
}

/// The rights of everything in a state folder, while they are other ones.
struct Rights(Vec<(PathBuf, u32)>);

impl Rights {
    fn take(home: &Home, of_folders: u32, of_files: u32) -> Rights {
        let mut paths = vec![home.state()];
        let mut next = 0;
        while let Some(path) = paths.get(next).cloned() {
            next += 1;
            if path.is_dir() {
                paths.extend(fs::read_dir(path).expect("ours").map(|entry| entry.expect("an entry").path()));
            }
        }
        let mode = |path: &PathBuf| fs::metadata(path).expect("ours").permissions().mode() & 0o777;
        let rights = Rights(paths.iter().map(|path| (path.clone(), mode(path))).collect());
        for path in paths.iter().rev() {
            let mode = if path.is_dir() { of_folders } else { of_files };
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
        }
        rights
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        for (path, mode) in &self.0 {
            // A file that is gone meanwhile needs none.
            fs::set_permissions(path, Permissions::from_mode(*mode)).ok();
        }
    }
}

#[test]
fn k35_work_that_runs_can_be_looked_at_by_who_may_not_write() {
    let server = ScriptedServer::start(
        Scripts::default().otherwise(Script::new().step(gate("here").say("the answer"))),
    );
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "work", "--json"]).start();
    server.gate("here").wait_reached();
    let id = home.wait_for_states(&["running"]);
    let rights = Rights::take(&home, 0o500, 0o400);
    let looked = home.legwork(&["ps", "--json"]).bound_by_rights().run();
    assert_eq!(looked.json()["delegations"][0]["delegation_id"], json!(id), "{looked}");
    assert_eq!(looked.json()["delegations"][0]["state"], json!("running"), "{looked}");
    let waiting = home.legwork(&["results", &id, "--wait", "--json"]).bound_by_rights().start();
    until("it to wait", || waiting.stderr().contains("waits for process").then_some(()));
    server.gate("here").open();
    assert_eq!(running.wait().code, 0);
    let waited = waiting.wait();
    assert_eq!((waited.code, waited.statuses()), (0, vec!["completed".to_owned()]), "{waited}");
    assert!(waited.stderr.contains("cannot be written"), "{waited}");
    drop(rights);
}

#[test]
fn k35_an_older_file_that_cannot_be_brought_up_says_so() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/state-v3.sqlite");
    fs::create_dir_all(home.state()).expect("the folder is made");
    fs::copy(fixture, home.database()).expect("the fixture is part of the repository");
    let rights = Rights::take(&home, 0o500, 0o400);
    let looked = home.legwork(&["ps", "--json"]).bound_by_rights().run();
    looked.assert_refused(3, "state", &["has version 3", "must be brought to version", "cannot be written"]);
    assert_fault(&doctor(&home).bound_by_rights().run(), "read_only", &["--state-dir"]);
    drop(rights);
    assert_eq!(home.legwork(&["ps"]).run().code, 0);
    assert!(home.state().join("legwork.db.v3.bak").is_file());
}

/// Runs the commands of an advice, in its order. One that fails ends nothing: the advice says what to do then.
fn follow(home: &Home, ended: &Ended) {
    let check = store_check(ended);
    let fix = check["fix"].as_str().unwrap_or_else(|| panic!("no advice: {ended}"));
    let commands: Vec<&str> = fix.lines().filter_map(|line| line.trim_start().strip_prefix("$ ")).collect();
    assert!(!commands.is_empty(), "{ended}");
    for command in commands {
        let shell = Command::new("bash").args(["-c", command]).current_dir(home.project()).output();
        shell.expect("bash is there");
    }
}

fn has_sqlite_shell() -> bool {
    let there = Command::new("sqlite3").arg("--version").output();
    there.is_ok_and(|said| said.status.success())
}

/// After the advice was followed, to its last line if need be, the folder works.
#[track_caller]
fn assert_works_again(home: &Home, told: &Ended) {
    follow(home, told);
    let mut again = doctor(home).run();
    if again.code != 0 && store_check(&again)["fix"].as_str().is_some_and(|fix| fix.contains("DELETE")) {
        follow(home, &again);
        again = doctor(home).run();
    }
    if again.code != 0 {
        let fix = store_check(&again)["fix"].as_str().expect("an advice").to_owned();
        let afresh = fix.lines().find(|line| line.trim_start().starts_with("rm ")).expect("a last resort");
        assert!(Command::new("bash").args(["-c", afresh]).status().expect("bash is there").success());
        again = doctor(home).run();
    }
    assert_eq!(again.code, 0, "{again}");
    let later = home.legwork(&["delegate", "--goal", "any", "--json"]).run();
    assert_eq!(later.code, 0, "{later}");
    assert_eq!(doctor(home).run().code, 0);
}

/// Every error of damage leads to `doctor`, and what that says leads out of it.
#[test]
fn k35_who_follows_the_advice_about_a_damaged_database_works_again() {
    type Damage = (&'static str, fn(&Home));
    let damages: [Damage; 7] = [
        ("an index", |home| overwrite(home, root_page(home, "units_of")..=root_page(home, "units_of"))),
        ("children", |home| overwrite(home, root_page(home, "children")..=root_page(home, "children"))),
        ("delegations", |home| {
            overwrite(home, root_page(home, "delegations")..=root_page(home, "delegations"))
        }),
        ("steps", |home| overwrite(home, root_page(home, "steps")..=root_page(home, "steps"))),
        ("all but the head", |home| overwrite(home, 2..=u32::MAX)),
        ("the head", |home| overwrite(home, 1..=1)),
        ("no database", |home| fs::write(home.database(), "a shopping list\n".repeat(999)).expect("ours")),
    ];
    for (what, damage) in damages {
        let server = ScriptedServer::start(Scripts::default());
        let home = Home::with(&server);
        let id = with_one(&home);
        settle(&home);
        damage(&home);
        let met = home.legwork(&["delegate", "--goal", "any", "--json"]).run();
        // Who does not come by the damaged page does not see it.
        if met.code != 0 {
            assert!(met.stdout.contains("is damaged") && met.stdout.contains("`legwork doctor`"), "{met}");
        }
        let told = doctor(&home).run();
        let old = format!("{}.damaged", home.state().display());
        assert_fault(&told, "damaged", &[&old, ".dump", "live", "lost"]);
        assert!(!told.stdout.contains("run `legwork doctor`"), "it does not send anyone back: {told}");
        let damaged = fs::read(home.database()).expect("it is there");
        assert_works_again(&home, &told);
        assert!(Path::new(&old).join("live").join(&id).is_dir(), "{what}: the transcripts are kept");
        let kept = fs::read(Path::new(&old).join("legwork.db")).expect("it was moved aside");
        assert!(kept == damaged, "{what}: it is kept as it was");
        if what == "an index" && has_sqlite_shell() {
            let results = home.legwork(&["results", &id, "--json"]).run();
            assert_eq!((results.code, results.statuses()), (0, vec!["completed".to_owned()]), "{results}");
        }
    }
}

fn root_page(home: &Home, name: &str) -> u32 {
    let connection = Connection::open(home.database()).expect("it opens");
    connection
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [name], |row| row.get(0))
        .expect("it is there")
}

/// Overwrites pages of the database; the first is 1.
fn overwrite(home: &Home, pages: std::ops::RangeInclusive<u32>) {
    let mut bytes = fs::read(home.database()).expect("it is there");
    let count = u32::try_from(bytes.len() / 4096).expect("a small file");
    for page in *pages.start()..=count.min(*pages.end()) {
        let begin = (page as usize - 1) * 4096;
        bytes[begin..begin + 4096].fill(0x5a);
    }
    fs::write(home.database(), bytes).expect("ours");
}

/// One delegation whose rows do not belong together keeps nobody from the others once it was taken out.
#[test]
fn k35_a_broken_delegation_is_named_and_can_be_taken_out() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    let (whole, broken) = (with_one(&home), with_one(&home));
    let connection = Connection::open(home.database()).expect("it opens");
    let of_broken = "delegation = (SELECT no FROM delegations WHERE id = ?1)";
    connection
        .execute(&format!("DELETE FROM children WHERE {of_broken}"), [&broken])
        .expect("it can be broken");
    drop(connection);
    let met = home.legwork(&["results", &broken, "--json"]).run();
    met.assert_refused(3, "state", &["damaged", &broken, "legwork doctor"]);
    let told = doctor(&home).run();
    assert_fault(&told, "damaged", &[&broken, "DELETE FROM", "lost"]);
    if !has_sqlite_shell() {
        eprintln!("NOTE: there is no SQLite shell here, so that this advice was not followed");
        return;
    }
    follow(&home, &told);
    let again = doctor(&home).run();
    assert_eq!(again.code, 0, "{again}");
    let left: Vec<Value> = home.list().iter().map(|delegation| delegation["delegation_id"].clone()).collect();
    assert_eq!(left, [json!(whole)]);
    assert_eq!(home.legwork(&["delegate", "--goal", "any"]).run().code, 0);
}

/// A log that lacks what was committed to it is told by every verb, kept as it is, and the advice leads out of it.
#[test]
fn k35_a_damaged_log_is_told_and_who_follows_the_advice_works_again() {
    // In its head, in its first page, and at its end.
    let damages: [fn(&mut Vec<u8>); 3] =
        [|log| log[20] ^= 1, |log| log[32 + 24 + 100] ^= 1, |log| log.truncate(log.len() - 5000)];
    for damage in damages {
        let server = ScriptedServer::start(
            Scripts::default().agent("to the end", Script::new().step(gate("here").say("the answer"))),
        );
        let home = Home::with(&server);
        let id = with_one(&home);
        settle(&home);
        let running = home.legwork(&["delegate", "--goal", "to the end"]).start();
        running.delegation();
        server.gate("here").wait_reached();
        running.kill();
        let mut log = fs::read(home.state().join("legwork.db-wal")).expect("a killed process leaves it");
        damage(&mut log);
        fs::write(home.state().join("legwork.db-wal"), log).expect("ours");
        let before = files(&home.state());
        for verb in
            [&["ps"][..], &["show", &id], &["results", &id], &["delegate", "--goal", "any"], &["run", "any"]]
        {
            let met = home.legwork(&[verb, &["--json"]].concat()).run();
            met.assert_refused(3, "state", &["damaged", "legwork.db-wal", "legwork doctor"]);
        }
        let told = doctor(&home).run();
        assert_fault(&told, "damaged", &["mv ", "sqlite3"]);
        assert_eq!(files(&home.state()), before, "it was left alone");
        assert_works_again(&home, &told);
        if has_sqlite_shell() {
            let results = home.legwork(&["results", &id, "--json"]).run();
            assert_eq!((results.code, results.statuses()), (0, vec!["completed".to_owned()]), "{results}");
        }
    }
}
