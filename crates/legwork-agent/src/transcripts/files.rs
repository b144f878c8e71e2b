//! The port [`Transcripts`] over files: `<root>/<delegation>/task-<n>.log` and `manifest.json`.
//!
//! It asks the disk for nothing and hands everything to the thread that writes: whoever tells something is the one loop of the
//! engine, or a run.

use super::entry::{Cut, Entry};
use super::manifest::file_name;
use super::queue::Queue;
use super::writer::{self, Told};
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::Outcome;
use legwork_core::ports::{Heading, TranscriptError, Transcripts};
use legwork_core::pulse::LineEvent;
use legwork_core::time::Timestamp;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the end of the program may wait for the disk.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Writes transcripts below a folder. Dropping it closes it.
pub struct FileTranscripts {
    root: PathBuf,
    queue: Arc<Queue>,
    /// The thread that writes; emptied when it is closed.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl FileTranscripts {
    /// Transcripts below `root`, which is created when the first delegation is.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn new(root: PathBuf) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let hears = Arc::clone(&queue);
        let thread = std::thread::Builder::new().name("transcripts".to_owned());
        let thread = Mutex::new(Some(thread.spawn(move || writer::run(&hears))?));
        Ok(FileTranscripts { root, queue, thread })
    }

    /// Writes what is left, for at most two seconds, and says whether all of it was. What is told afterwards is lost.
    ///
    /// It blocks. Dropping does the same, but whoever ends a program cannot know who else still holds this.
    pub fn close(&self) -> bool {
        let written = self.queue.close(CLOSE_WAIT);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if !written {
            // A disk that hangs must not keep the program; the thread ends with it.
            tracing::warn!("the last lines of transcripts could not be written in time");
        } else if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("BUG: the thread that writes transcripts panicked");
        }
        written
    }
}

impl Transcripts for FileTranscripts {
    fn create(&self, headings: &[Heading]) -> Result<Vec<String>, TranscriptError> {
        let Some(first) = headings.first() else { return Ok(Vec::new()) };
        let folder = self.root.join(first.delegation.as_str());
        let path = |heading: &Heading| folder.join(file_name(heading.task_index)).display().to_string();
        let paths = headings.iter().map(path).collect();
        let headings = headings.iter().map(shortened).collect();
        let path = folder.display().to_string();
        self.queue.tell(Told::Created { folder, headings });
        self.queue
            .trouble()
            .map_or(Ok(paths), |why| Err(TranscriptError { path, source: io::Error::other(why) }))
    }

    fn discard(&self, delegation: &DelegationId) {
        let folder = self.root.join(delegation.as_str());
        self.queue.tell(Told::Discarded { folder, delegation: delegation.clone() });
    }

    fn reopen(
        &self,
        headings: &[Heading],
        settled: &[(usize, Outcome, Timestamp)],
        at: Timestamp,
    ) -> Result<(), TranscriptError> {
        let Some(first) = headings.first() else { return Ok(()) };
        let folder = self.root.join(first.delegation.as_str());
        let path = folder.display().to_string();
        let headings = headings.iter().map(shortened).collect();
        self.queue.tell(Told::Reopened { folder, headings, settled: settled.to_vec(), at });
        self.queue
            .trouble()
            .map_or(Ok(()), |why| Err(TranscriptError { path, source: io::Error::other(why) }))
    }

    fn append(&self, child: &ChildId, at: Timestamp, event: &LineEvent) {
        if let Some(entry) = Entry::of(event) {
            self.queue.tell(Told::Event { child: child.clone(), at, entry });
        }
    }

    fn finish(&self, child: &ChildId, at: Timestamp, outcome: Outcome, error: Option<&str>) {
        let error = error.map(|error| Cut::of("", error));
        self.queue.tell(Told::Ended { child: child.clone(), at, outcome, error });
    }
}

impl Drop for FileTranscripts {
    fn drop(&mut self) {
        self.close();
    }
}

/// A goal may have a megabyte, of which five hundred characters are shown.
fn shortened(heading: &Heading) -> Heading {
    Heading {
        goal: Cut::of("", &heading.goal).text,
        context: heading.context.as_deref().map(|context| Cut::of("", context).text),
        ..heading.clone()
    }
}
