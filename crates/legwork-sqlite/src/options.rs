//! What a caller may choose about the store. It reads no environment: the binary does.

use std::time::Duration;

/// Limits of one opened store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOptions {
    /// The largest size of the database file in pages of 4096 bytes; no limit of ours when absent. A write that
    /// would need more is refused with [`StoreError::Full`](legwork_core::ports::StoreError::Full).
    pub max_pages: Option<u32>,
    /// The longest wait for another process's transaction; then the answer is
    /// [`StoreError::Locked`](legwork_core::ports::StoreError::Locked). Five seconds unless chosen otherwise.
    pub lock_wait: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions { max_pages: None, lock_wait: Duration::from_secs(5) }
    }
}
