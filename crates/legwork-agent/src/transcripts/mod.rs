//! Live transcripts as files: one a child, append-only, readable while they are written, with a manifest beside them.

mod child;
mod entry;
mod files;
mod follow;
mod line;
mod logs;
mod manifest;
mod queue;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod torn_tests;
mod writer;

pub use files::FileTranscripts;
pub use follow::{Follow, Source};
