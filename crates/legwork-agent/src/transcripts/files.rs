//! The port [`Transcripts`] over files: `<root>/<delegation>/task-<n>.log` and `manifest.json`.

use super::manifest::file_name;
use super::writer::{self, Told};
use legwork_core::ids::ChildId;
use legwork_core::outcome::Outcome;
use legwork_core::ports::{Heading, TranscriptError, Transcripts};
use legwork_core::pulse::LineEvent;
use legwork_core::time::Timestamp;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Events that may wait for the disk; whoever tells one more waits with it.
const WAITING_MAX: usize = 8192;

/// Writes transcripts below a folder. Dropping it writes what is left and ends its thread.
pub struct FileTranscripts {
    root: PathBuf,
    /// Emptied only while it is dropped, so that the thread sees the end.
    told: Option<SyncSender<Told>>,
    thread: Option<JoinHandle<()>>,
}

impl FileTranscripts {
    /// Transcripts below `root`, which is created when the first delegation is.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn new(root: PathBuf) -> std::io::Result<Self> {
        let (told, hears) = sync_channel(WAITING_MAX);
        let thread =
            std::thread::Builder::new().name("transcripts".to_owned()).spawn(move || writer::run(&hears))?;
        Ok(FileTranscripts { root, told: Some(told), thread: Some(thread) })
    }

    fn tell(&self, told: Told) {
        if let Some(thread) = &self.told
            && thread.send(told).is_err()
        {
            tracing::error!("BUG: the thread that writes transcripts has ended");
        }
    }
}

impl Transcripts for FileTranscripts {
    fn create(&self, headings: &[Heading]) -> Result<Vec<String>, TranscriptError> {
        let Some(first) = headings.first() else { return Ok(Vec::new()) };
        let folder = self.root.join(first.delegation.as_str());
        make_private(&folder)?;
        let path = |heading: &Heading| folder.join(file_name(heading.task_index)).display().to_string();
        let paths = headings.iter().map(path).collect();
        self.tell(Told::Created { folder, headings: headings.to_vec() });
        Ok(paths)
    }

    fn append(&self, child: &ChildId, at: Timestamp, event: &LineEvent) {
        // Signs of life carry nothing that a reader wants.
        if !matches!(event, LineEvent::ToolMoved) {
            self.tell(Told::Event { child: child.clone(), at, event: event.clone() });
        }
    }

    fn finish(&self, child: &ChildId, at: Timestamp, outcome: Outcome, error: Option<&str>) {
        self.tell(Told::Ended { child: child.clone(), at, outcome, error: error.map(str::to_owned) });
    }
}

impl Drop for FileTranscripts {
    fn drop(&mut self) {
        self.told = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("BUG: the thread that writes transcripts panicked");
        }
    }
}

fn make_private(folder: &Path) -> Result<(), TranscriptError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|source| TranscriptError { path: folder.display().to_string(), source })
}
