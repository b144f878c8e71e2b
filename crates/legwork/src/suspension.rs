//! Ctrl-Z (SIGTSTP) while work runs: the process stands still between two commits, so that it keeps the right to write from
//! nobody. SIGSTOP cannot be heard; the process that it hits in mid-commit is named to whoever has to wait for it.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use legwork_sqlite::SqliteStore;
use nix::sys::signal::{self, Signal};
use nix::unistd::{getpgrp, getppid, getsid};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::task::JoinSet;

use crate::failure::{CliError, Kind};

/// Heeds the signal from now on. It stands still as soon as no commit is under way: at the latest after one wait for a lock.
///
/// # Errors
/// When the system lets it hear no signals.
pub fn heed(store: Arc<SqliteStore>) -> Result<JoinSet<()>, CliError> {
    let told = signal(SignalKind::from_raw(Signal::SIGTSTP as i32));
    let mut told = told.map_err(|error| {
        CliError::new(Kind::Internal, format!("the signal of Ctrl-Z cannot be heard: {error}"))
    })?;
    let mut heeding = JoinSet::new();
    heeding.spawn(async move {
        while told.recv().await.is_some() {
            if is_orphaned() {
                continue;
            }
            let store = Arc::clone(&store);
            let continued = signal(SignalKind::from_raw(Signal::SIGCONT as i32));
            let stood_still = tokio::task::spawn_blocking(move || stand_still(&store, continued?));
            match stood_still.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the process could not be suspended"),
                Err(error) => tracing::warn!(%error, "the process could not be suspended"),
            }
        }
    });
    Ok(heeding)
}

/// Whether nobody is there to continue our process group: no process of it has a parent in another group of the same session.
/// The system discards a SIGTSTP that is not heard there, as of a program that a remote shell or a terminal window runs in a
/// shell's place (`ssh -t`, `xterm -e`); SIGSTOP would stop it for good.
fn is_orphaned() -> bool {
    let (parent, group) = (getppid(), getpgrp());
    let Ok(session) = getsid(None) else { return true };
    // A parent outside of a container is shown as 0, which would name ourselves. In the group of the session's first
    // process, as that of a shell without job control, its parent is in another session and those of the others are in
    // the group itself.
    parent.as_raw() == 0 || getsid(Some(parent)) != Ok(session) || group == session
}

/// Stops the process once no commit is under way, unless it was continued while it waited for that: a stop that came after its
/// SIGCONT would be nobody's to end.
fn stand_still(store: &SqliteStore, mut continued: unix::Signal) -> std::io::Result<()> {
    store.between_commits(|| match continued.poll_recv(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(_) => Ok(()),
        Poll::Pending => Ok(signal::raise(Signal::SIGSTOP)?),
    })
}
