//! Removes what is old enough: delegations whose results were delivered or dismissed, and the transcripts and spilled outputs
//! that belong to no delegation any more. Nothing undelivered is ever touched (invariant 5).

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use legwork_core::ports::{Facts, StoreError};
use legwork_core::time::Timestamp;

use crate::paths::StateFolder;

/// Removes what is older than `age`.
///
/// # Errors
/// When the store fails; files are left alone then. A folder that cannot be removed is logged and left.
pub async fn enforce(store: &dyn Facts, state: &StateFolder, age: Duration) -> Result<(), StoreError> {
    let cutoff = SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
    let millis = cutoff.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let removed = store.prune(Timestamp(i64::try_from(millis).unwrap_or(i64::MAX))).await?;
    if removed == 0 {
        return Ok(());
    }
    // Ids are never used again, so a folder whose id the store does not know belongs to nobody.
    for folder in [state.live(), state.spill()] {
        for (id, path) in old_folders(&folder, cutoff) {
            if store.find(&id).await?.is_empty() {
                remove(&path);
            }
        }
    }
    Ok(())
}

/// The folders within `folder` that are named by an id of ours and were not touched since `cutoff`.
fn old_folders(folder: &Path, cutoff: SystemTime) -> Vec<(String, std::path::PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let old = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let id = entry.file_name().into_string().ok()?;
        let ours = ["deleg_", "sa-", "ses_"].iter().any(|prefix| id.starts_with(prefix));
        let facts = entry.metadata().ok()?;
        (ours && facts.is_dir() && facts.modified().ok()? < cutoff).then(|| (id, entry.path()))
    });
    old.collect()
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::warn!(folder = %folder.display(), %error, "an old folder cannot be removed");
    }
}
