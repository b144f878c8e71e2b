//! The one thread that writes all transcripts of a process. Events come over a bounded channel; whatever has come in is
//! written together, whole lines only, one file after another.

use super::child::Transcript;
use super::manifest::{Manifest, file_name};
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::Outcome;
use legwork_core::ports::Heading;
use legwork_core::pulse::LineEvent;
use legwork_core::time::Timestamp;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Events that are turned into lines before the lines are written.
const EVENTS_A_WRITE: usize = 2048;
/// Files that are kept open.
const OPEN_MAX: usize = 64;
/// A manifest whose children are still running is not written more often than this.
const MANIFEST_EVERY: Duration = Duration::from_secs(1);

/// What the thread is told.
pub(super) enum Told {
    Created { folder: PathBuf, headings: Vec<Heading> },
    Event { child: ChildId, at: Timestamp, event: LineEvent },
    Ended { child: ChildId, at: Timestamp, outcome: Outcome, error: Option<String> },
}

/// All transcripts that are being written.
#[derive(Default)]
struct Writer {
    children: HashMap<ChildId, (Transcript, DelegationId, usize)>,
    manifests: HashMap<DelegationId, (Manifest, Option<Instant>)>,
    /// Children with lines that are not written yet.
    dirty: HashSet<ChildId>,
    ended: Vec<ChildId>,
    files: Files,
}

/// Writes until every sender is gone and everything is written.
pub(super) fn run(told: &Receiver<Told>) {
    let mut writer = Writer::default();
    while let Ok(first) = told.recv() {
        writer.take_in(first);
        for more in told.try_iter().take(EVENTS_A_WRITE) {
            writer.take_in(more);
        }
        writer.write_all();
    }
    writer.write_manifests(Duration::ZERO);
}

impl Writer {
    fn take_in(&mut self, told: Told) {
        match told {
            Told::Created { folder, headings } => self.created(&folder, headings),
            Told::Event { child, at, event } => {
                if let Some((transcript, ..)) = self.children.get_mut(&child) {
                    transcript.told(at, &event);
                    if !transcript.lines.is_empty() {
                        self.dirty.insert(child);
                    }
                }
            }
            Told::Ended { child, at, outcome, error } => {
                let Some((transcript, delegation, task_index)) = self.children.get_mut(&child) else {
                    return;
                };
                transcript.ended(at, outcome, error.as_deref());
                if let Some((manifest, _)) = self.manifests.get_mut(delegation) {
                    manifest.ended(*task_index, outcome, at);
                }
                self.dirty.insert(child.clone());
                self.ended.push(child);
            }
        }
    }

    fn created(&mut self, folder: &Path, headings: Vec<Heading>) {
        if let Some(manifest) = Manifest::new(folder, &headings) {
            self.manifests.insert(headings[0].delegation.clone(), (manifest, None));
        }
        for heading in headings {
            let transcript = Transcript::new(folder.join(file_name(heading.task_index)), &heading);
            self.dirty.insert(heading.child.clone());
            self.children.insert(heading.child, (transcript, heading.delegation, heading.task_index));
        }
    }

    fn write_all(&mut self) {
        for child in std::mem::take(&mut self.dirty) {
            let Some((transcript, ..)) = self.children.get_mut(&child) else { continue };
            let lines = std::mem::take(&mut transcript.lines);
            if transcript.given_up {
                continue;
            }
            if let Err(error) = self.files.append(&transcript.path, lines.as_bytes()) {
                transcript.given_up = true;
                tracing::warn!(path = %transcript.path.display(), %error, "a transcript cannot be written and is given up");
            }
        }
        for child in std::mem::take(&mut self.ended) {
            if let Some((transcript, ..)) = self.children.remove(&child) {
                self.files.close(&transcript.path);
            }
        }
        self.write_manifests(MANIFEST_EVERY);
    }

    fn write_manifests(&mut self, every: Duration) {
        for (manifest, written) in self.manifests.values_mut() {
            let due = manifest.is_complete() || written.is_none_or(|written| written.elapsed() >= every);
            if manifest.dirty && due {
                *written = Some(Instant::now());
                if let Err(error) = manifest.write() {
                    tracing::warn!(%error, "the manifest of a delegation's transcripts cannot be written");
                }
            }
        }
        self.manifests.retain(|_, (manifest, _)| !manifest.is_complete() || manifest.dirty);
    }
}

/// Files that are open for appending, the least recently used first.
#[derive(Default)]
struct Files {
    open: HashMap<PathBuf, File>,
    order: VecDeque<PathBuf>,
}

impl Files {
    fn append(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if !self.open.contains_key(path) {
            if self.open.len() >= OPEN_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.open.remove(&oldest);
            }
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
            self.open.insert(path.to_owned(), file);
            self.order.push_back(path.to_owned());
        }
        match self.open.get_mut(path) {
            Some(file) => file.write_all(bytes),
            None => Ok(()),
        }
    }

    fn close(&mut self, path: &Path) {
        if self.open.remove(path).is_some() {
            self.order.retain(|open| open != path);
        }
    }
}
