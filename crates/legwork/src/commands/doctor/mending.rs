//! What to do about a store in each of its states, for people: steps that can be followed as they stand. A line that begins
//! with `$ ` is a command for a shell.
//!
//! Nothing here is done by the program: what cannot be read is somebody's work, and only they can say what it is worth.

use std::path::{Path, PathBuf};

use legwork_core::ids::DelegationId;
use legwork_core::ports::Fault;

use crate::paths::{PathsError, StateFolder};

/// Takes the delegations out that `BROKEN` stands for, then every row that belongs to nothing: a new row would take it over by
/// its number. Steps of sessions have the numbers of these below zero.
const WITHOUT: &str = "BEGIN; \
    DELETE FROM requests WHERE child IN (SELECT c.id FROM children c JOIN delegations d ON d.no = c.delegation WHERE d.id IN (BROKEN)); \
    DELETE FROM delegations WHERE id IN (BROKEN); \
    DELETE FROM children WHERE delegation NOT IN (SELECT no FROM delegations); \
    DELETE FROM units WHERE delegation NOT IN (SELECT no FROM delegations); \
    DELETE FROM facts WHERE delegation NOT IN (SELECT no FROM delegations); \
    DELETE FROM messages WHERE session NOT IN (SELECT no FROM sessions); \
    DELETE FROM steps WHERE actor > 0 AND actor NOT IN (SELECT no FROM children); \
    DELETE FROM steps WHERE actor < 0 AND -actor NOT IN (SELECT no FROM sessions); \
    COMMIT";

/// The steps out of a state.
pub(super) fn fix(fault: Fault, folder: &StateFolder) -> String {
    let (root, database) = (quoted(folder.root()), quoted(&folder.database()));
    match fault {
        Fault::Locked => format!(
            "another process keeps the database locked. Name it, then wait for it or end it:\n$ fuser -v {database}"
        ),
        Fault::Full => format!(
            "free some space there; work that runs is kept meanwhile, and stored when there is room. If LEGWORK_STATE_MAX_PAGES is \
             set, raise it\n$ df -h {root}"
        ),
        Fault::ReadOnly => format!(
            "let your user write the folder and everything in it, or name a folder with --state-dir. `ps`, `show`, `results`, \
             `tail` and `sessions` work as it is\n$ ls -la {root}"
        ),
        Fault::Damaged => recovery(folder),
        Fault::Gone => format!(
            "put the old file back, with its -wal, while the processes that used it still run; or end them and start again\n$ ls -la {root}"
        ),
        Fault::Newer => {
            "update legwork, or name another folder with --state-dir. The file is left as it is".to_owned()
        }
        Fault::Failing => format!(
            "the system could not read or write it: look for errors of the disk (`dmesg`), and copy the folder before anything else\n$ cp -a {root} {}",
            quoted(&aside(folder.root()))
        ),
    }
}

/// The steps out of a file that cannot be read: everything is moved aside, and what can be read comes back.
fn recovery(folder: &StateFolder) -> String {
    let old = aside(folder.root());
    let (root, database) = (quoted(folder.root()), quoted(&folder.database()));
    let (aside, damaged) = (quoted(&old), quoted(&old.join("legwork.db")));
    let (live, spill) = (quoted(&old.join("live")), quoted(&old.join("spill")));
    let head = "SELECT 'PRAGMA user_version = ' || user_version || '; PRAGMA application_id = ' || application_id || ';' \
                FROM pragma_user_version, pragma_application_id";
    format!(
        "if {database}-wal is named that lacks what was committed, as in a folder that was copied while it was in use: end every \
         legwork that uses it, keep a copy of the folder, and move {database}-shm away; it opens with every commit that is whole. Otherwise \
         end every legwork that uses this folder, and move it aside as it is:\n\
         $ mv {root} {aside}\n\
         $ mkdir -m 700 {root}\n\
         bring over what can still be read, with the SQLite shell, and what lies in files:\n\
         $ (sqlite3 -readonly {damaged} \"{head}\"; sqlite3 -readonly {damaged} .dump | sed 's/^ROLLBACK;.*/COMMIT;/') | sqlite3 {database}\n\
         $ cp -a {live} {spill} {root}\n\
         ask `legwork doctor` again, which may have more to say. If the file could not be read at all, or there is no SQLite shell, \
         begin with an empty database:\n  \
         rm -f {database} {database}-wal {database}-shm\n\
         lost is what stood on the damaged pages; with an empty database all conversations, all open work and all results that \
         nobody took. What subagents did can be read in {live}, one folder for each delegation"
    )
}

/// What to do about something that is where a folder belongs.
pub(super) fn moved_away(obstacle: &PathsError) -> Option<String> {
    match obstacle {
        PathsError::InTheWay { path, .. } => Some(format!(
            "see what it is, and move it away; the folder is made anew when work begins\n$ mv {} {}",
            quoted(path),
            quoted(&aside(path))
        )),
        PathsError::WorkingFolder { .. }
        | PathsError::NoText { .. }
        | PathsError::NoState
        | PathsError::NoCache
        | PathsError::Unusable { .. } => None,
    }
}

/// The steps that take out of a database that is whole otherwise what does not belong together in it.
pub(super) fn without(broken: &[DelegationId], folder: &StateFolder) -> String {
    let ids: Vec<&str> = broken.iter().map(DelegationId::as_str).collect();
    let (root, database) = (quoted(folder.root()), quoted(&folder.database()));
    format!(
        "end every legwork that uses this folder, and keep a copy of it:\n\
         $ cp -a {root} {}\n\
         take out of the database what cannot be read or does not belong together, with the SQLite shell:\n\
         $ sqlite3 {database} \"{}\"\n\
         lost are the results of these delegations that nobody took; what their subagents did can be read in {}, one folder for \
         each. Everything else stays",
        quoted(&aside(folder.root())),
        WITHOUT.replace("BROKEN", &listed(&ids)),
        quoted(&folder.live())
    )
}

/// The steps that take out stops and messages that cannot be read.
pub(super) fn without_requests(ids: &[&str], folder: &StateFolder) -> String {
    let (root, database) = (quoted(folder.root()), quoted(&folder.database()));
    format!(
        "ask for it again. What cannot be read can stay; to take it out, end every legwork that uses this folder, keep a copy of \
         it, and use the SQLite shell:\n\
         $ cp -a {root} {}\n\
         $ sqlite3 {database} \"DELETE FROM requests WHERE id IN ({})\"",
        quoted(&aside(folder.root())),
        listed(ids)
    )
}

/// What is left to do about conversations that cannot be read.
pub(super) fn without_sessions(ids: &[&str], folder: &StateFolder) -> String {
    let root = quoted(folder.root());
    let deletions: Vec<String> =
        ids.iter().map(|id| format!("$ legwork sessions delete {id} --yes")).collect();
    format!(
        "they cannot be opened; what they delegated goes on, and `legwork results ID` prints it. Keep a copy of the folder:\n\
         $ cp -a {root} {}\n\
         to give such a conversation up, once nothing of it is at work or undelivered:\n{}",
        quoted(&aside(folder.root())),
        deletions.join("\n")
    )
}

fn listed(ids: &[&str]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("'{}'", id.replace('\'', "''"))).collect();
    ids.join(", ")
}

/// A place for the folder as it is, beside it, that nothing has taken yet.
fn aside(root: &Path) -> PathBuf {
    let named = |ending: String| {
        let mut name = root.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let mut others = (2_u32..).map(|number| named(format!(".damaged-{number}")));
    let first = named(".damaged".to_owned());
    if first.exists() { others.find(|other| !other.exists()).unwrap_or(first) } else { first }
}

/// The path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    if text.bytes().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
