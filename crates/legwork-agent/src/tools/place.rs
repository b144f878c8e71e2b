//! Paths as a model writes them: relative to its folder or absolute.
//!
//! It does not keep anyone out of anywhere: there is no sandbox yet.

use super::port::Site;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Entries of a folder that are looked at for a similar name.
const LOOKED_AT_MAX: usize = 2000;
/// Similar names that are shown.
const SHOWN_MAX: usize = 5;

/// The path that `text` means for a caller.
pub(super) fn resolve(site: &Site, text: &str) -> PathBuf {
    resolve_in(Path::new(&site.setting.folder), text)
}

/// The path that `text` means in `folder`.
pub(super) fn resolve_in(folder: &Path, text: &str) -> PathBuf {
    let joined = folder.join(text);
    // The parts `.` vanish; `..` stays, because before it there may be a link.
    joined.components().collect()
}

/// What to tell a model about a file that could not be used.
pub(super) fn explain(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => format!("{shown} does not exist{}", similar(path)),
        io::ErrorKind::PermissionDenied => format!("{shown}: permission denied; this user may not do that"),
        io::ErrorKind::NotADirectory => format!("{shown}: a part of the path is a file, not a folder"),
        _ => format!("{shown}: {error}"),
    }
}

/// Names near a missing one, or what the nearest folder above it holds.
fn similar(path: &Path) -> String {
    let mut missing = path;
    while let Some(folder) = missing.parent() {
        if folder.is_dir() {
            return suggest(folder, missing);
        }
        missing = folder;
    }
    String::new()
}

fn suggest(folder: &Path, missing: &Path) -> String {
    let wanted = missing.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let Ok(entries) = fs::read_dir(folder) else { return String::new() };
    let names =
        entries.flatten().take(LOOKED_AT_MAX).map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut near: Vec<(usize, String)> =
        names.map(|name| (distance(&wanted, &name.to_lowercase()), name)).collect();
    near.sort();
    let close = near.iter().take_while(|(distance, _)| *distance <= wanted.chars().count().max(3) / 2);
    let shown: Vec<&str> = close.map(|(_, name)| name.as_str()).take(SHOWN_MAX).collect();
    match shown.as_slice() {
        [] => format!("; the nearest folder above it is {}: use list_files there", folder.display()),
        names => format!("; near it, in {}, there is: {}", folder.display(), names.join(", ")),
    }
}

/// How different two names are; one that holds the other is near.
fn distance(wanted: &str, name: &str) -> usize {
    if wanted.len() >= 3 && (name.contains(wanted) || (name.len() >= 3 && wanted.contains(name))) {
        return 1;
    }
    strsim::osa_distance(wanted, name)
}
