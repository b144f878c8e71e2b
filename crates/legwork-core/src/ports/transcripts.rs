//! Port `Transcripts`: the live, readable record of each child. Asked by the dispatcher and the line, answered by files.

use crate::ids::{ChildId, DelegationId};
use crate::outcome::Outcome;
use crate::pulse::LineEvent;
use crate::time::Timestamp;
use thiserror::Error;

/// Append-only records, one writer a child, readable while they are written. Credentials are masked in every line.
///
/// A failure costs lines, never the run: what cannot be written within a bounded wait is given up, and a warning says so.
pub trait Transcripts: Send + Sync {
    /// Creates the transcripts of a delegation and returns their paths by task index. It does not wait for the disk, and where
    /// something is already under its id that stays as it is (invariant 36).
    ///
    /// # Errors
    /// [`TranscriptError`] as far as the adapter knows by then that they cannot be made; the delegation goes on without transcripts
    /// (LIVE-11).
    fn create(&self, headings: &[Heading]) -> Result<Vec<String>, TranscriptError>;

    /// Removes the transcripts of a delegation that never came to be. What cannot be removed stays, with a warning.
    fn discard(&self, delegation: &DelegationId);

    /// Goes on with transcripts that an earlier process created, and says in those of unsettled children that they go on.
    /// `settled` tells who had ended before. It does not wait for the disk.
    ///
    /// # Errors
    /// [`TranscriptError`] as above; the delegation goes on without transcripts then.
    fn reopen(
        &self,
        headings: &[Heading],
        settled: &[(usize, Outcome, Timestamp)],
        at: Timestamp,
    ) -> Result<(), TranscriptError>;

    /// Appends what a child told. It returns at once unless more waits for the disk than the adapter holds; then it
    /// blocks for the adapter's bounded wait at most.
    fn append(&self, child: &ChildId, at: Timestamp, event: &LineEvent);

    /// Writes the end mark of a child and brings the manifest up to date.
    fn finish(&self, child: &ChildId, at: Timestamp, outcome: Outcome, error: Option<&str>);
}

/// What stands at the head of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// The delegation.
    pub delegation: DelegationId,
    /// The child.
    pub child: ChildId,
    /// Its task's position in the call.
    pub task_index: usize,
    /// Its goal.
    pub goal: String,
    /// Its context.
    pub context: Option<String>,
    /// The model it asks.
    pub model: String,
    /// When the delegation was accepted.
    pub at: Timestamp,
}

/// Why transcripts could not be created.
#[derive(Debug, Error)]
#[error("cannot create the live transcripts in {path}: {source}")]
pub struct TranscriptError {
    /// The folder.
    pub path: String,
    /// What the system said.
    pub source: std::io::Error,
}
