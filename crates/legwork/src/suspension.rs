//! Ctrl-Z (SIGTSTP) while work runs: the process stands still between two commits, so that it keeps the right to write from
//! nobody. SIGSTOP cannot be heard; the process that it hits in mid-commit is named to whoever has to wait for it.

use std::sync::Arc;

use legwork_sqlite::SqliteStore;
use nix::sys::signal::{self, Signal};
use tokio::signal::unix::{SignalKind, signal};
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
            let store = Arc::clone(&store);
            let stood_still =
                tokio::task::spawn_blocking(move || store.between_commits(|| signal::raise(Signal::SIGSTOP)));
            match stood_still.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the process could not be suspended"),
                Err(error) => tracing::warn!(%error, "the process could not be suspended"),
            }
        }
    });
    Ok(heeding)
}
