//! The embedded model of legwork, `local/smollm2-135m`: a toy that shows the machine running without a key, a
//! service or a network. It reads what it is told to read and then says something; whether that is right, nobody
//! promises.
//!
//! Owns the weights, the engine and the form of the replies. It knows the agent only through the port `Model`.
//! Without the feature `local-model` this crate is empty.

#[cfg(feature = "local-model")]
mod adapter;
#[cfg(feature = "local-model")]
mod demand;
#[cfg(feature = "local-model")]
pub mod engine;
#[cfg(feature = "local-model")]
mod open;
#[cfg(feature = "local-model")]
mod prompt;
#[cfg(feature = "local-model")]
#[cfg(test)]
mod tiny;
#[cfg(feature = "local-model")]
pub mod weights;

#[cfg(feature = "local-model")]
pub use adapter::{LocalModel, NAME};
#[cfg(feature = "local-model")]
pub use open::{LocalError, LocalOptions, open};
