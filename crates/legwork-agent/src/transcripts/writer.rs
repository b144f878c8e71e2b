//! The one thread that writes all transcripts of a process. Whatever has come in is written together, whole lines only,
//! one file after another.
//!
//! A file that fails is given up after one warning; nothing reaches the run.

use super::child::Transcript;
use super::entry::{Cut, Entry};
use super::logs::{self, Logs};
use super::manifest::{Manifest, file_name};
use super::queue::Queue;
use crate::spill::{make_folder, make_new_folder};
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::Outcome;
use legwork_core::ports::Heading;
use legwork_core::time::Timestamp;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A manifest whose children are still running is not written more often than this.
const MANIFEST_EVERY: Duration = Duration::from_secs(1);

/// How long the thread waits when there is nothing to do at all.
const IDLE_MAX: Duration = Duration::from_secs(3600);

/// What the thread is told.
pub(super) enum Told {
    Created {
        folder: PathBuf,
        headings: Vec<Heading>,
    },
    Reopened {
        folder: PathBuf,
        headings: Vec<Heading>,
        settled: Vec<(usize, Outcome, Timestamp)>,
        at: Timestamp,
    },
    /// It never came to be.
    Discarded {
        folder: PathBuf,
        delegation: DelegationId,
    },
    Event {
        child: ChildId,
        at: Timestamp,
        entry: Entry,
    },
    /// So many events are missing here.
    Gap {
        child: ChildId,
        at: Timestamp,
        events: usize,
    },
    Ended {
        child: ChildId,
        at: Timestamp,
        outcome: Outcome,
        error: Option<Cut>,
    },
}

impl Told {
    /// An end is written at once: whoever follows a transcript waits for it, and the program may be about to end.
    pub(super) fn is_urgent(&self) -> bool {
        match self {
            Told::Ended { .. } => true,
            Told::Created { .. }
            | Told::Discarded { .. }
            | Told::Reopened { .. }
            | Told::Event { .. }
            | Told::Gap { .. } => false,
        }
    }

    /// Bytes that it holds while it waits.
    pub(super) fn weight(&self) -> usize {
        match self {
            Told::Created { headings, .. } | Told::Reopened { headings, .. } => {
                headings.iter().map(weight_of_heading).sum()
            }
            Told::Event { entry, .. } => entry.weight(),
            Told::Gap { .. } | Told::Discarded { .. } => 0,
            Told::Ended { error, .. } => error.as_ref().map_or(0, |error| error.text.len()),
        }
    }
}

fn weight_of_heading(heading: &Heading) -> usize {
    heading.goal.len() + heading.context.as_ref().map_or(0, String::len)
}

/// All transcripts that are being written.
#[derive(Default)]
struct Writer {
    children: HashMap<ChildId, (Transcript, DelegationId, usize)>,
    manifests: HashMap<DelegationId, (Manifest, Option<Instant>)>,
    /// Children with lines that are not written yet.
    dirty: HashSet<ChildId>,
    ended: Vec<ChildId>,
    logs: Logs,
    /// Why the folder that was to be made last could not be.
    trouble: Option<String>,
}

/// Writes until the queue is closed and everything is written.
pub(super) fn run(queue: &Queue) {
    let _ending = Ending(queue);
    let mut writer = Writer::default();
    while let Some(told) = queue.take(writer.idle_max()) {
        told.into_iter().for_each(|told| writer.take_in(told));
        queue.note_trouble(writer.trouble.clone());
        writer.write_all();
    }
    writer.write_manifests(Duration::ZERO);
}

/// Tells the end of the thread, also after a panic, so that nobody waits for it.
struct Ending<'a>(&'a Queue);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

impl Writer {
    fn take_in(&mut self, told: Told) {
        match told {
            Told::Created { folder, headings } => self.created(&folder, headings),
            Told::Discarded { folder, delegation } => self.discarded(&folder, &delegation),
            Told::Reopened { folder, headings, settled, at } => {
                self.reopened(&folder, headings, &settled, at);
            }
            Told::Event { child, at, entry } => {
                if let Some((transcript, ..)) = self.children.get_mut(&child) {
                    transcript.told(at, &entry);
                    if !transcript.lines.is_empty() {
                        self.dirty.insert(child);
                    }
                }
            }
            Told::Gap { child, at, events } => {
                if let Some((transcript, ..)) = self.children.get_mut(&child) {
                    transcript.lacks(at, events);
                    self.dirty.insert(child);
                }
            }
            Told::Ended { child, at, outcome, error } => {
                let Some((transcript, delegation, task_index)) = self.children.get_mut(&child) else {
                    return;
                };
                transcript.ended(at, outcome, error.as_ref());
                if let Some((manifest, _)) = self.manifests.get_mut(delegation) {
                    manifest.ended(*task_index, outcome, at);
                }
                self.dirty.insert(child.clone());
                self.ended.push(child);
            }
        }
    }

    /// Whether the folder is there now. Without it the delegation goes on without transcripts.
    fn has_made(&mut self, folder: &Path, made: io::Result<()>) -> bool {
        let refused = made.as_ref().err().filter(|error| error.kind() != io::ErrorKind::AlreadyExists);
        self.trouble = refused.map(io::Error::to_string);
        if let Err(error) = &made {
            tracing::warn!(path = %folder.display(), %error, "a delegation goes on without live transcripts: their folder cannot be made");
        }
        made.is_ok()
    }

    fn created(&mut self, folder: &Path, headings: Vec<Heading>) {
        // What is there already belongs to older work under the same id.
        if !self.has_made(folder, make_new_folder(folder)) {
            return;
        }
        if let Some(manifest) = Manifest::new(folder, &headings) {
            self.manifests.insert(headings[0].delegation.clone(), (manifest, None));
        }
        for heading in headings {
            let transcript = Transcript::new(folder.join(file_name(heading.task_index)), &heading);
            self.dirty.insert(heading.child.clone());
            self.children.insert(heading.child, (transcript, heading.delegation, heading.task_index));
        }
    }

    /// Nothing was told of its children, and nothing will be.
    fn discarded(&mut self, folder: &Path, delegation: &DelegationId) {
        if self.manifests.remove(delegation).is_none() {
            // What may be there is not of this call.
            return;
        }
        for (_, (transcript, ..)) in self.children.extract_if(|_, (_, of, _)| of == delegation) {
            self.logs.close(&transcript.path);
        }
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %folder.display(), %error, "what a call left behind that came to nothing cannot be removed");
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// Children that had ended have said everything; the others go on behind what is there.
    fn reopened(
        &mut self,
        folder: &Path,
        headings: Vec<Heading>,
        settled: &[(usize, Outcome, Timestamp)],
        at: Timestamp,
    ) {
        if !self.has_made(folder, make_folder(folder)) {
            return;
        }
        let Some(mut manifest) = Manifest::new(folder, &headings) else { return };
        for (task_index, outcome, ended_at) in settled {
            manifest.ended(*task_index, *outcome, *ended_at);
        }
        self.manifests.insert(headings[0].delegation.clone(), (manifest, None));
        for heading in headings {
            if settled.iter().any(|(task_index, ..)| *task_index == heading.task_index) {
                continue;
            }
            let path = folder.join(file_name(heading.task_index));
            let transcript = match logs::tail(&path) {
                Some(tail) => Transcript::gone_on(path, tail, &heading, at),
                None => Transcript::new(path, &heading),
            };
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
            if let Err(error) = self.logs.write(transcript, lines.as_bytes()) {
                transcript.given_up = true;
                tracing::warn!(path = %transcript.path.display(), %error, "a transcript cannot be written and is given up");
            }
        }
        for child in std::mem::take(&mut self.ended) {
            if let Some((transcript, ..)) = self.children.remove(&child) {
                self.logs.close(&transcript.path);
            }
        }
        self.write_manifests(MANIFEST_EVERY);
    }

    /// How long nothing may happen before a manifest that is behind gets its turn.
    fn idle_max(&self) -> Duration {
        let is_behind = self.manifests.values().any(|(manifest, _)| manifest.dirty);
        if is_behind { MANIFEST_EVERY } else { IDLE_MAX }
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
