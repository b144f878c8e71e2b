//! What a caller may choose about the store. It reads no environment: the binary does.

/// Limits of one opened store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// The largest size of the database file in pages of 4096 bytes; no limit of ours when absent. A write that
    /// would need more is refused with [`StoreError::Full`](legwork_core::ports::StoreError::Full).
    pub max_pages: Option<u32>,
}
