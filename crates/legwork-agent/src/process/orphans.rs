//! Orphans: processes whose parents have ended. As a subreaper this process adopts those that its commands leave,
//! finds them by their mark, ends them and reaps them.
//!
//! Every process that this program starts itself is entered here while it lives, so that nobody but its owner reaps it.

use super::family;
use super::mark;
use super::table::{self, Leftover, Row};
use legwork_core::record::ProcessGroup;
use legwork_core::step::Actor;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a sweep waits for what it has killed.
const SWEEP_WAIT: Duration = Duration::from_millis(200);

/// The processes that this program started itself and whose owners will reap them. Children belong to the whole
/// operating-system process, so there is one set for it.
static OWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// The processes that this program started to outlive it.
static LET_GO: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// The children that were there before anything of ours ran.
static BORN_WITH: OnceLock<BTreeSet<u32>> = OnceLock::new();

/// Lets this process adopt the orphans of its commands. To be called when the program starts; without it a
/// process that left its group is found by nobody until recovery looks for its mark. Children that are there already
/// were started by whatever became this program, such as a shell that replaced itself with it: they stay untouched.
///
/// # Errors
/// What the system said. On systems without subreapers it does nothing.
pub fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true)?;
    // A later call would take orphans of ours for children that were there before.
    BORN_WITH.get_or_init(|| table::children().into_iter().collect());
    Ok(())
}

/// Ends and reaps every orphan of `actor` that this process has adopted, and names them. It waits a moment for
/// their end, at most 200 ms.
pub fn sweep(actor: &Actor) -> Vec<Leftover> {
    sweep_but(actor, &[])
}

/// The same, but for what is of the terminal sessions of these groups: they belong to somebody else now.
pub fn sweep_but(actor: &Actor, spared: &[ProcessGroup]) -> Vec<Leftover> {
    let mut orphans = Orphans::new(actor.as_str(), None);
    orphans.spared = spared.iter().map(|group| group.pgid).collect();
    let leftovers = table::name_roots(&orphans.look());
    if !leftovers.is_empty() {
        until(SWEEP_WAIT, || orphans.kill());
    }
    leftovers
}

/// Ends and reaps every orphan that this process has adopted, also those that have cleared their environment and so
/// carry no mark, and names them. To be called when no command runs any more, before the program ends.
pub fn sweep_all() -> Vec<Leftover> {
    let found = strangers();
    let leftovers = table::name_roots(&found);
    until(SWEEP_WAIT, || {
        let left = strangers();
        left.iter().for_each(|row| family::send(*row, Signal::SIGKILL));
        left.is_empty()
    });
    leftovers
}

/// Kills the group of every command that runs now, for a program that must end at once and runs no destructors.
/// What has left its group is found by its mark when the next program recovers.
pub fn kill_all() {
    for leader in own().iter().copied().filter_map(super::identity::pid_of) {
        family::send_group(leader, Signal::SIGKILL);
    }
}

/// The orphans that carry one mark or belong to one terminal session. Once seen, an orphan is remembered until it is
/// gone: while it ends it loses its environment before it leaves the table.
#[derive(Debug)]
pub(super) struct Orphans {
    id: String,
    session: Option<u32>,
    /// Sessions that are left alone.
    spared: Vec<u32>,
    seen: BTreeMap<u32, Row>,
}

impl Orphans {
    /// Those with the mark of `id`, and those of `session`, which must be the session of a command of ours. Its number
    /// is used for nothing else as long as one of it lives.
    pub(super) fn new(id: &str, session: Option<u32>) -> Self {
        Orphans { id: id.to_owned(), session, spared: Vec::new(), seen: BTreeMap::new() }
    }

    /// Those that are there now.
    pub(super) fn look(&mut self) -> Vec<Row> {
        self.seen.retain(|_, row| is_still_there(row));
        let (id, session) = (&self.id, self.session);
        let adopted = strangers()
            .into_iter()
            .filter(|row| !self.spared.contains(&row.stat.session))
            .filter(|row| session == Some(row.stat.session) || mark::carries(row.pid, &[id]));
        self.seen.extend(adopted.map(|row| (row.pid, row)));
        self.seen.values().copied().collect()
    }

    /// Kills them and says whether none was there. What they had started comes to the surface when they are gone,
    /// so one round is not enough.
    pub(super) fn kill(&mut self) -> bool {
        let found = self.look();
        found.iter().for_each(|row| family::send(*row, Signal::SIGKILL));
        found.is_empty()
    }
}

fn is_still_there(seen: &Row) -> bool {
    let row = table::row(seen.pid).filter(|row| row.stat.start_ticks == seen.stat.start_ticks);
    row.is_some_and(|row| !reap_if_dead(&row))
}

/// The living children of this process that it did not start. Dead ones are reaped on the way.
fn strangers() -> Vec<Row> {
    let mut children = table::children();
    let (own, let_go) = (own(), LET_GO.lock().unwrap_or_else(PoisonError::into_inner));
    children.retain(|pid| {
        !own.contains(pid) && !let_go.contains(pid) && !BORN_WITH.get().is_some_and(|born| born.contains(pid))
    });
    drop((own, let_go));
    children.into_iter().filter_map(table::row).filter(|row| !reap_if_dead(row)).collect()
}

fn reap_if_dead(row: &Row) -> bool {
    if row.stat.zombie
        && let Some(pid) = super::identity::pid_of(row.pid)
        && let Err(error) = waitpid(pid, Some(WaitPidFlag::WNOHANG))
    {
        tracing::trace!(%error, pid = row.pid, "somebody else reaped an orphan first");
    }
    row.stat.zombie
}

/// Enters a process that its owner will reap.
pub(super) fn enter(pid: u32) {
    own().insert(pid);
}

/// From now on the process is nobody's here: no sweep ends it.
pub(super) fn let_go(pid: u32) {
    LET_GO.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
}

/// Removes a process that was reaped, or whose owner gave it up.
pub(super) fn leave(pid: u32) {
    own().remove(&pid);
}

fn own() -> MutexGuard<'static, BTreeSet<u32>> {
    // The set is whole whatever its last user did: every change is a single insert or remove.
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks until the answer is yes or the time is up, and returns the last answer. For places that cannot await: a
/// process that was killed takes some microseconds to be gone.
pub(super) fn until(limit: Duration, mut check: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    for round in 0_u32.. {
        if check() {
            return true;
        }
        if begun.elapsed() >= limit {
            return false;
        }
        rest(round);
    }
    false
}

#[expect(
    clippy::disallowed_methods,
    reason = "a destructor cannot await, and the system tells of no group's end"
)]
fn rest(round: u32) {
    if round < 8 {
        std::thread::yield_now();
    } else {
        // Deadline: one step of the bounded wait of `until`.
        std::thread::sleep(Duration::from_micros(200));
    }
}
