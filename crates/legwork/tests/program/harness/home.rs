//! A machine of its own for each test: an empty home, a project folder, a state folder, and an environment that holds
//! nothing else. What is left of its processes is killed when it goes.

use std::fs;
use std::path::{Path, PathBuf};

use legwork_testkit::server::ScriptedServer;
use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

use super::order::Order;
use super::processes::{self, Seen};
use super::waiting::{PATIENCE, until};

/// The key that the program is given. It must be found nowhere but in requests.
pub const KEY: &str = "sk-e2e-4f9d1c7ab2e84c55-Zq8vT3";

/// A machine of its own.
pub struct Home {
    folder: TempDir,
    base_url: Option<String>,
}

impl Home {
    /// A machine whose model is the scripted server.
    pub fn with(server: &ScriptedServer) -> Home {
        let mut home = Home::without_model();
        home.base_url = Some(server.base_url());
        home
    }

    /// A machine on which no model is configured.
    pub fn without_model() -> Home {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["home", "project", "state"] {
            fs::create_dir(folder.path().join(name)).expect("the folder is made");
        }
        Home { folder, base_url: None }
    }

    /// The folder that the program is started in.
    pub fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// The state folder; the program has to make it.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state/legwork")
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.state().join("legwork.db")
    }

    /// Writes a file of the project, and gives its path relative to it.
    pub fn write<'a>(&self, name: &'a str, content: impl AsRef<[u8]>) -> &'a str {
        fs::write(self.project().join(name), content).expect("the file is written");
        name
    }

    /// Reads a file of the project.
    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.project().join(name)).expect("the file is there and text")
    }

    /// The program with these arguments, not started yet.
    pub fn legwork(&self, arguments: &[&str]) -> Order<'_> {
        Order::new(self, arguments)
    }

    /// A conversation in which something was said; its id.
    #[track_caller]
    pub fn conversation(&self) -> String {
        let ended = self.legwork(&["run", "hello", "--json"]).run();
        ended.json()["session_id"].as_str().unwrap_or_else(|| panic!("no id: {ended}")).to_owned()
    }

    /// Leaves a piece of work of that conversation to a worker in the background; the delegation's id.
    #[track_caller]
    pub fn leave_piece(&self, session: &str, goal: &str) -> String {
        let order = ["delegate", "--goal", goal, "--detach", "--session", session, "--json"];
        let left = self.legwork(&order).run();
        assert_eq!(left.code, 0, "{left}");
        left.json()["delegation_id"].as_str().expect("an id").to_owned()
    }

    /// A conversation with a piece of work that was left to a worker and is done; the ids of both.
    #[track_caller]
    pub fn left_piece(&self, goal: &str) -> (String, String) {
        let session = self.conversation();
        let id = self.leave_piece(&session, goal);
        self.wait_until_nothing_runs();
        (session, id)
    }

    /// What `ps --json` lists.
    #[track_caller]
    pub fn ps(&self) -> Vec<Value> {
        let ended = self.legwork(&["ps", "--json"]).run();
        assert_eq!(ended.code, 0, "{ended}");
        ended.json()["delegations"].as_array().expect("a list").clone()
    }

    /// Waits until `ps` lists one delegation whose children, by task index, are in these states; gives its id.
    #[track_caller]
    pub fn wait_for_states(&self, wanted: &[&str]) -> String {
        until(&format!("children to be {wanted:?}"), || {
            let list = self.ps();
            let [delegation] = list.as_slice() else { return None };
            let states: Vec<&str> =
                children(delegation).iter().filter_map(|child| child["state"].as_str()).collect();
            let id = delegation["delegation_id"].as_str().expect("an id");
            (states == wanted).then(|| id.to_owned())
        })
    }

    /// What `ps --all --json` lists.
    #[track_caller]
    pub fn list(&self) -> Vec<Value> {
        let ended = self.legwork(&["ps", "--all", "--json"]).run();
        assert_eq!(ended.code, 0, "{ended}");
        ended.json()["delegations"].as_array().expect("a list").clone()
    }

    /// The id of the only delegation there is.
    #[track_caller]
    pub fn only_delegation(&self) -> String {
        let list = self.list();
        let [delegation] = list.as_slice() else { panic!("not one delegation: {list:?}") };
        delegation["delegation_id"].as_str().expect("an id").to_owned()
    }

    /// The id of the child with this index in the only delegation there is.
    #[track_caller]
    pub fn only_child(&self, task_index: usize) -> String {
        let list = self.list();
        let [delegation] = list.as_slice() else { panic!("not one delegation: {list:?}") };
        children(delegation)[task_index]["subagent_id"].as_str().expect("an id").to_owned()
    }

    /// The bytes of all files right in the state folder.
    pub fn state_bytes(&self) -> u64 {
        let Ok(entries) = fs::read_dir(self.state()) else { return 0 };
        entries.filter_map(|entry| entry.ok()?.metadata().ok()).map(|file| file.len()).sum()
    }

    /// Waits until process `pid` has `file` open.
    #[track_caller]
    pub fn wait_for_open_file(&self, pid: i32, file: &Path) {
        until(&format!("{} to be opened", file.display()), || {
            let mut open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
            open.any(|entry| entry.is_ok_and(|fd| fs::read_link(fd.path()).is_ok_and(|path| path == file)))
                .then_some(())
        });
    }

    /// Keeps every other process from writing into the database, for as long as the returned connection lives.
    pub fn lock_database(&self) -> Connection {
        let connection = Connection::open(self.database()).expect("the database opens");
        connection.busy_timeout(PATIENCE).expect("a limit can be set");
        connection.execute_batch("BEGIN IMMEDIATE").expect("the lock is free now and then");
        connection
    }

    /// How often all processes together have renewed their leases.
    pub fn renewals(&self) -> i64 {
        self.count("SELECT coalesce(sum(beats), 0) FROM owners")
    }

    /// The number that a query of the database gives: without a start of the program, for whoever has no time for one.
    #[track_caller]
    pub fn count(&self, query: &str) -> i64 {
        let database = Connection::open(self.database()).expect("the database opens");
        database.query_row(query, (), |row| row.get(0)).expect("a number")
    }

    /// The state of the child whose goal ends with this, wherever it is.
    pub fn state_of(&self, goal: &str) -> Option<String> {
        let list = self.list();
        let mut all = list.iter().flat_map(children);
        let found = all.find(|child| child["goal"].as_str().is_some_and(|known| known.ends_with(goal)))?;
        found["state"].as_str().map(str::to_owned)
    }

    /// The processes of this machine that live.
    pub fn processes(&self) -> Vec<Seen> {
        processes::of(self.folder.path())
    }

    /// The processes of this machine that live and are not the program itself.
    pub fn commands(&self) -> Vec<Seen> {
        let mut commands = self.processes();
        commands.retain(|seen| !seen.command.starts_with(env!("CARGO_BIN_EXE_legwork")));
        commands
    }

    /// Waits until so many processes of this machine run exactly this command.
    #[track_caller]
    pub fn wait_for_processes(&self, command: &str, count: usize) {
        until(&format!("{count} processes `{command}`"), || {
            let found = self.processes().iter().filter(|seen| seen.command == command).count();
            (found == count).then_some(())
        });
    }

    /// Waits until no process of this machine lives any more.
    #[track_caller]
    pub fn wait_until_nothing_runs(&self) {
        until("all processes to end", || self.processes().is_empty().then_some(()));
    }

    /// Fails when a process of this machine still lives.
    #[track_caller]
    pub fn assert_nothing_runs(&self) {
        let left = self.processes();
        assert!(left.is_empty(), "these processes were left: {left:?}");
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn base_url(&self) -> Option<&str> {
        self.base_url.as_deref()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for seen in self.processes() {
            seen.kill();
        }
    }
}

/// The children of a delegation as `ps` lists it, of all its units.
fn children(delegation: &Value) -> Vec<&Value> {
    let units = delegation["units"].as_array().expect("units");
    units.iter().flat_map(|unit| unit["children"].as_array().expect("children")).collect()
}
