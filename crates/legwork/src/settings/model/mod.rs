//! Which model is talked to, at which address, with which key.
//!
//! Owns the choice as plain data and the rule that a key goes only to the address it was configured for. It builds no
//! client and sends nothing.

mod block;
#[cfg(test)]
mod block_tests;
mod bundle;
mod choice;
mod endpoint;
mod error;
mod local;
mod provider;
#[cfg(test)]
mod tests;

pub use block::ROUTES;
pub use choice::{Embedded, ModelChoice};
pub use endpoint::Endpoint;
pub use error::ModelError;
pub use local::places_to_look;
pub use provider::Provider;
