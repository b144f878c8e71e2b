//! The worker: carries out the assignments of the engine's runner, each with an agent of its own.

mod closing;
mod diagnostics;
mod local;
mod parking;
mod pictures;
mod setting_up;
mod shared_prompt;
mod shared_tools;
mod source;
mod stale;
mod sweeper;
mod unready;

pub use local::{LocalWorker, Pictures, WorkerParts};
pub use source::ModelSource;
