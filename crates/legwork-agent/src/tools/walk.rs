//! The walk over a folder that `list_files` and `search_files` share: in order, without what `.gitignore` names and
//! without `.git`, and never for longer than its limits.

use super::off_thread::Abandoned;
use ignore::{DirEntry, Walk, WalkBuilder};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Entries that are visited at most.
const VISITED_MAX: usize = 200_000;
/// How long a walk may take.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Entries in the order of their paths, folders before what they hold.
pub(super) struct Entries<'a> {
    walk: Walk,
    folder: PathBuf,
    abandoned: &'a Abandoned,
    until: Instant,
    visited: usize,
    /// What the walk could not look at.
    unreadable: Vec<String>,
    ended: Option<&'static str>,
}

impl<'a> Entries<'a> {
    /// Walks `folder`, or gives the one file that it is. `depth` 1 is the folder's own entries.
    pub(super) fn new(folder: &Path, depth: Option<usize>, abandoned: &'a Abandoned) -> Self {
        let mut builder = WalkBuilder::new(folder);
        builder.hidden(false).require_git(false).max_depth(depth);
        builder.filter_entry(|entry| entry.file_name() != ".git");
        builder.sort_by_file_path(Path::cmp);
        Entries {
            walk: builder.build(),
            folder: folder.to_owned(),
            abandoned,
            until: Instant::now() + TIME_MAX,
            visited: 0,
            unreadable: Vec::new(),
            ended: None,
        }
    }

    /// The entry's path relative to the folder; a lone file's is its name.
    pub(super) fn relative<'e>(&self, entry: &'e DirEntry) -> &'e Path {
        match entry.path().strip_prefix(&self.folder) {
            Ok(relative) if !relative.as_os_str().is_empty() => relative,
            Ok(_) | Err(_) => Path::new(entry.file_name()),
        }
    }

    /// Whether the limits are reached or nobody waits any more.
    pub(super) fn is_over(&mut self) -> bool {
        if self.abandoned.is_set() {
            self.ended = Some("the call was given up");
        } else if Instant::now() >= self.until {
            self.ended = Some("the search took longer than 60 s");
        } else if self.visited > VISITED_MAX {
            self.ended = Some("there are more than 200000 entries");
        }
        self.ended.is_some()
    }

    /// When the walk must be done.
    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// What to tell about the walk itself.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(reason) = self.ended {
            notes.push(format!("not everything was looked at, because {reason}: send a path further down"));
        }
        if let Some(first) = self.unreadable.first() {
            notes.push(format!("{} entries could not be read: {first}", self.unreadable.len()));
        }
        notes
    }
}

impl Iterator for Entries<'_> {
    type Item = DirEntry;

    fn next(&mut self) -> Option<DirEntry> {
        loop {
            if self.is_over() {
                return None;
            }
            match self.walk.next()? {
                Ok(entry) if entry.depth() == 0 && entry.file_type().is_some_and(|kind| kind.is_dir()) => {}
                Ok(entry) => {
                    self.visited += 1;
                    return Some(entry);
                }
                Err(error) => self.unreadable.push(error.to_string()),
            }
        }
    }
}
