//! Transcripts that nobody reads, for tests of everything else.

use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::Outcome;
use legwork_core::ports::{Heading, TranscriptError, Transcripts};
use legwork_core::pulse::LineEvent;
use legwork_core::time::Timestamp;

/// Takes everything and writes nothing; a call has no paths then.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwritten;

impl Transcripts for Unwritten {
    fn create(&self, _: &[Heading]) -> Result<Vec<String>, TranscriptError> {
        Ok(Vec::new())
    }

    fn discard(&self, _: &DelegationId) {}

    fn reopen(
        &self,
        _: &[Heading],
        _: &[(usize, Outcome, Timestamp)],
        _: Timestamp,
    ) -> Result<(), TranscriptError> {
        Ok(())
    }

    fn append(&self, _: &ChildId, _: Timestamp, _: &LineEvent) {}

    fn finish(&self, _: &ChildId, _: Timestamp, _: Outcome, _: Option<&str>) {}
}
