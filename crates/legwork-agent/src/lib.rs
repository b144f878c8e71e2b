//! The agent: the turn loop, the journal that makes a child resumable, tools, models, the worker and the session.
//!
//! It knows the engine only through the ports of `legwork-core`.

pub mod models;
pub mod tools;
