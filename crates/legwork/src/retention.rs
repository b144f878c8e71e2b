//! Removes what is old enough: delegations whose results were delivered or dismissed, and the transcripts and spilled outputs
//! that belong to no delegation any more. Nothing undelivered is ever touched (invariant 5).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use legwork_core::ports::{Facts, StoreError};
use legwork_core::time::Timestamp;

use crate::paths::StateFolder;

/// Removes what is older than `age`.
///
/// # Errors
/// When the store fails; files are left alone then. What cannot be removed is logged and left.
pub async fn enforce(store: &dyn Facts, state: &StateFolder, age: Duration) -> Result<(), StoreError> {
    let cutoff = SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
    let millis = cutoff.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    store.prune(Timestamp(i64::try_from(millis).unwrap_or(i64::MAX))).await?;
    // Ids are never used again, so what carries an id that the store does not know belongs to nobody.
    for folder in [state.live(), state.spill(), state.diagnostics()] {
        for (id, path) in old_entries(&folder, cutoff) {
            if store.find(&id).await?.is_empty() {
                remove(&path);
            }
        }
    }
    Ok(())
}

/// Removes the files of what was deleted: those named by one of `ids`, as far as the store knows it no more.
///
/// # Errors
/// When the store fails. What cannot be removed is logged and left.
pub async fn forget(store: &dyn Facts, state: &StateFolder, ids: &[String]) -> Result<(), StoreError> {
    let now = SystemTime::now();
    for folder in [state.live(), state.spill(), state.diagnostics()] {
        for (id, path) in old_entries(&folder, now) {
            if ids.contains(&id) && store.find(&id).await?.is_empty() {
                remove(&path);
            }
        }
    }
    Ok(())
}

/// What in `folder` is named by an id of ours and was not touched since `cutoff`.
fn old_entries(folder: &Path, cutoff: SystemTime) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let old = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let id = id_of(&entry.file_name().into_string().ok()?)?;
        let is_old = entry.metadata().ok()?.modified().ok()? < cutoff;
        is_old.then(|| (id, entry.path()))
    });
    old.collect()
}

/// The id at the beginning of a name: `deleg_…` and `ses_…` up to the first dash, `sa-…-…` up to the third.
fn id_of(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split('-').collect();
    match parts.as_slice() {
        ["sa", index, bits, ..] => Some(format!("sa-{index}-{bits}")),
        [first, ..] if first.starts_with("deleg_") || first.starts_with("ses_") => Some((*first).to_owned()),
        _ => None,
    }
}

fn remove(path: &Path) {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    if let Err(error) = removed {
        tracing::warn!(path = %path.display(), %error, "what is old cannot be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_testkit::memory::MemoryStore;

    /// Proves LIVE-10.
    #[tokio::test]
    async fn inv_24_files_of_nobody_go_when_they_are_old_and_nothing_else_does() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let state = StateFolder::at(folder.path());
        state.prepare().expect("it can be made");
        let old = SystemTime::now() - Duration::from_secs(1000);
        let make = |path: PathBuf| {
            fs::write(&path, "text").expect("it is written");
            fs::File::open(&path).and_then(|file| file.set_modified(old)).expect("its time is set");
            path
        };
        let spilled = make(state.spill().join("sa-0-0000000a-terminal-0000000b.txt"));
        let foreign = make(state.spill().join("notes.txt"));
        let fresh = state.spill().join("sa-1-0000000a-terminal-0000000b.txt");
        fs::write(&fresh, "text").expect("it is written");
        let store = MemoryStore::new();
        enforce(&store, &state, Duration::from_secs(100)).await.expect("the store works");
        assert!(!spilled.exists() && foreign.exists() && fresh.exists());
    }
}
