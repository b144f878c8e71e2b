//! A state folder that cannot be used: in the way, unwritable, damaged, or of a newer version. The message
//! says what, where and what to do; nothing is half done; a later run on a good folder works.

use std::fs;
use std::path::Path;

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, say};
use rusqlite::Connection;
use serde_json::json;

use crate::harness::{Home, Order};

pub fn delegate<'a>(home: &'a Home) -> Order<'a> {
    home.legwork(&["delegate", "--goal", "any", "--json"])
}

/// Every working verb is refused before the model is asked; both forms say the place.
#[track_caller]
fn refused(home: &Home, server: &ScriptedServer, words: &[&str]) {
    let asked = server.log().entries().len();
    let verbs: [&[&str]; 2] = [&["delegate", "--goal", "any"], &["run", "any"]];
    for verb in verbs {
        let ended = home.legwork(&[verb, &["--json"]].concat()).run();
        ended.assert_refused(3, "state", words);
        let told = home.legwork(verb).run();
        assert_eq!((told.code, told.stdout.as_str()), (3, ""), "{told}");
        assert!(told.stderr.starts_with("error: "), "{told}");
    }
    assert_eq!(server.log().entries().len(), asked, "nothing was asked");
}

#[test]
fn a_file_in_the_place_of_the_state_folder_is_told() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    fs::write(home.state(), "in the way").expect("the file is written");
    let path = home.state().display().to_string();
    refused(&home, &server, &[&path, "--state-dir"]);
    assert_eq!(fs::read_to_string(home.state()).expect("untouched"), "in the way");
    fs::remove_file(home.state()).expect("it can be moved away");
    assert_eq!(delegate(&home).run().code, 0);
}

/// Every verb that works says what is there, those that look go on, and `doctor` shows it.
#[test]
fn k35_a_file_in_the_place_of_a_folder_within_the_state_folder_is_named() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    let id = delegate(&home).run().json()["delegation_id"].as_str().expect("an id").to_owned();
    for name in ["live", "spill", "log"] {
        let place = home.state().join(name);
        let aside = home.state().join("aside");
        fs::rename(&place, &aside).expect("it can be moved away");
        fs::write(&place, "in the way").expect("the file is written");
        let told = format!("{} is a file", place.display());
        refused(&home, &server, &[&told, "move it away", "--state-dir"]);
        let results = home.legwork(&["results", &id, "--json"]).run();
        results.assert_refused(3, "state", &[&told, "move it away"]);
        let doctor = home.legwork(&["doctor", "--json", "--offline"]).run();
        assert_eq!(doctor.code, 1, "{doctor}");
        let checks = doctor.json()["checks"].as_array().expect("a list").clone();
        let check = checks.iter().find(|check| check["name"] == json!("folder")).expect("it is shown");
        assert!(check["detail"].as_str().is_some_and(|detail| detail.contains(&told)), "{doctor}");
        assert!(check["fix"].as_str().is_some_and(|fix| fix.contains("$ mv ")), "{doctor}");
        assert!(
            checks.iter().any(|check| check["name"] == json!("store")),
            "the rest is looked at: {doctor}"
        );
        assert_eq!(home.legwork(&["ps", "--all"]).run().code, 0);
        fs::remove_file(&place).expect("it can be moved away");
        fs::rename(&aside, &place).expect("it comes back");
    }
    assert_eq!(home.legwork(&["doctor", "--offline"]).run().code, 0);
    assert_eq!(delegate(&home).run().code, 0);
}

/// No statement of ours stands in the message.
#[test]
fn k35_a_version_number_that_no_legwork_writes_is_named() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    assert_eq!(delegate(&home).run().code, 0);
    let known: i64 = version(&home);
    for number in [-3, 0] {
        let database = Connection::open(home.database()).expect("it opens");
        database.pragma_update(None, "user_version", number).expect("it is written");
        drop(database);
        let told = format!("version number {number}");
        let advice = format!("PRAGMA user_version = {known}");
        refused(&home, &server, &[&told, &advice]);
        let doctor = home.legwork(&["doctor", "--json", "--offline"]).run();
        assert!(doctor.code == 1 && doctor.stdout.contains(&told), "{doctor}");
        for told in [doctor, delegate(&home).run(), home.legwork(&["ps"]).run()] {
            assert!(!format!("{told}").contains("CREATE TABLE"), "{told}");
        }
        let database = Connection::open(home.database()).expect("it opens");
        database.execute_batch(&advice).expect("what was advised can be done");
    }
    assert_eq!(delegate(&home).run().code, 0);
}

fn version(home: &Home) -> i64 {
    let database = Connection::open(home.database()).expect("it opens");
    database.pragma_query_value(None, "user_version", |row| row.get(0)).expect("it is read")
}

#[test]
fn a_state_folder_that_nobody_can_write_is_told() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    // Not even root can make a folder here.
    let ended = delegate(&home).env("LEGWORK_STATE_DIR", "/proc/legwork").run();
    ended.assert_refused(3, "state", &["/proc/legwork", "--state-dir", "LEGWORK_STATE_DIR"]);
    let ended = delegate(&home).without("HOME").without("XDG_STATE_HOME").run();
    ended.assert_refused(3, "state", &["HOME", "--state-dir"]);
    assert!(server.log().entries().is_empty());
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    let first = delegate(&home).run();
    let id = first.json()["delegation_id"].as_str().expect("an id").to_owned();
    let known = set_version(&home.database(), 99);
    let path = home.database().display().to_string();
    refused(&home, &server, &[&path, "version 99", "update legwork", "--state-dir"]);
    for verb in [&["results", id.as_str()][..], &["show", &id], &["ps"], &["stop", "--all"]] {
        let ended = home.legwork(&[verb, &["--json"]].concat()).run();
        ended.assert_refused(3, "state", &["version 99"]);
    }
    let doctor = home.legwork(&["doctor", "--json", "--offline"]).run();
    assert_eq!((doctor.code, &doctor.json()["ok"]), (1, &json!(false)), "{doctor}");
    assert_eq!(set_version(&home.database(), known), 99, "it was left as it was");
    assert_eq!(home.legwork(&["results", &id, "--json"]).run().results(), first.results());
}

/// Sets the version of a database and says which it had.
fn set_version(database: &Path, version: u32) -> u32 {
    let connection = Connection::open(database).expect("it opens");
    let before = connection.query_row("PRAGMA user_version", (), |row| row.get(0)).expect("it has one");
    connection.pragma_update(None, "user_version", version).expect("it can be set");
    before
}

#[test]
fn a_damaged_database_is_told_and_kept() {
    for content in [b"this was a shopping list, not a database at all\n".repeat(100), vec![0xff; 8192]] {
        let server = ScriptedServer::start(Scripts::default());
        let home = Home::with(&server);
        fs::create_dir(home.state()).expect("the folder is made");
        fs::write(home.database(), &content).expect("the file is written");
        let path = home.database().display().to_string();
        refused(&home, &server, &[&path, "damaged"]);
        assert_eq!(fs::read(home.database()).expect("it is there"), content, "not a byte was changed");
        let doctor = home.legwork(&["doctor", "--json", "--offline"]).run();
        assert_eq!(doctor.code, 1, "{doctor}");
        fs::remove_file(home.database()).expect("it can be moved away");
        assert_eq!(delegate(&home).run().code, 0);
    }
}

#[test]
fn a_database_with_a_hole_in_it_is_told_by_who_falls_into_it() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    for _ in 0..3 {
        assert_eq!(delegate(&home).run().code, 0);
    }
    let connection = Connection::open(home.database()).expect("it opens");
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
        .expect("everything is in the file");
    drop(connection);
    let mut content = fs::read(home.database()).expect("it is there");
    let pages = content.len() / 4096;
    content[4096..pages * 4096].fill(0x5a);
    fs::write(home.database(), content).expect("it is written");
    for verb in [&["delegate", "--goal", "any"][..], &["ps", "--all"], &["results", "deleg_1"]] {
        let ended = home.legwork(&[verb, &["--json"]].concat()).run();
        ended.assert_refused(3, "state", &["damaged", &home.database().display().to_string()]);
    }
    let doctor = home.legwork(&["doctor", "--offline"]).run();
    assert_eq!(doctor.code, 1, "{doctor}");
    assert!(doctor.stdout.contains("✗ store"), "{doctor}");
}

#[test]
fn a_state_folder_is_private_and_made_where_it_was_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let server =
        ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(|talk| match talk.step() {
            0 => call("terminal", json!({"command": "seq 100000"})),
            _ => say("done"),
        })));
    let home = Home::with(&server);
    let folder = home.project().join("kept here");
    let ended = home.legwork(&["delegate", "--goal", "a", "--state-dir", "kept here"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    assert!(folder.join("legwork.db").is_file() && !home.state().exists());
    let mut folders = vec![folder];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        assert_eq!(fs::metadata(&folder).expect("there").permissions().mode() & 0o777, 0o700, "{folder:?}");
        for entry in fs::read_dir(&folder).expect("it can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files += 1;
                assert_eq!(
                    fs::metadata(&path).expect("there").permissions().mode() & 0o777,
                    0o600,
                    "{path:?}"
                );
            }
        }
    }
    assert!(files >= 4, "database, transcript, manifest, spill");
}
