//! The engine: weights in memory and one thread that answers requests with them.
//!
//! Owns the arithmetic, the vocabulary, the caches and the fair turn between requests. It knows nothing of tools,
//! goals or messages: a request is a list of tokens and the shape that the reply must have.

mod attention;
mod cache;
mod error;
mod file;
mod generation;
mod grammar;
mod kernel;
mod linear;
mod network;
mod service;
mod vocabulary;

pub use error::EngineError;
pub use generation::{Ending, Event, Request, Tally};
pub use grammar::Shape;
pub use network::WINDOW;
pub use service::{Engine, Replies};
pub use vocabulary::Vocabulary;
