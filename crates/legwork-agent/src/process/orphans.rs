//! Orphans: processes whose parents have ended. As a subreaper this process adopts those that its commands leave,
//! finds them by their mark, ends them and reaps them.
//!
//! Every process that this program starts itself is entered here while it lives, so that nobody but its owner reaps it.

use super::family;
use super::mark;
use super::table::{self, Leftover, Row};
use legwork_core::step::Actor;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a sweep waits for what it has killed.
const SWEEP_WAIT: Duration = Duration::from_millis(200);

/// The processes that this program started itself and whose owners will reap them. Children belong to the whole
/// operating-system process, so there is one set for it.
static OWN: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Lets this process adopt the orphans of its commands. To be called once, when the program starts; without it a
/// process that left its group is found by nobody until recovery looks for its mark.
///
/// # Errors
/// What the system said. On systems without subreapers it does nothing.
pub fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true)?;
    Ok(())
}

/// Ends and reaps every orphan of `actor` that this process has adopted, and names them. It waits a moment for
/// their end, at most 200 ms.
pub fn sweep(actor: &Actor) -> Vec<Leftover> {
    let ids = [actor.as_str()];
    let found = adopted(&ids);
    let leftovers = table::name_roots(&found);
    if !found.is_empty() {
        until(SWEEP_WAIT, || kill_adopted(&ids));
    }
    leftovers
}

/// Kills the orphans with one of these marks; says whether none was there. What they had started comes to the
/// surface when they are gone, so one round is not enough.
fn kill_adopted(ids: &[&str]) -> bool {
    let found = adopted(ids);
    found.iter().for_each(|row| family::send(*row, Signal::SIGKILL));
    found.is_empty()
}

/// The living orphans that carry one of these marks. Dead ones are reaped on the way, whosever they were.
pub(super) fn adopted(ids: &[&str]) -> Vec<Row> {
    let own = own().clone();
    let strangers = table::children().into_iter().filter(|pid| !own.contains(pid));
    let living = strangers.filter_map(table::row).filter(|row| !reap_if_dead(row));
    living.filter(|row| mark::carries(row.pid, ids)).collect()
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
