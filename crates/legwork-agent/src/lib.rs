//! The agent: the turn loop, the journal that makes a child resumable, tools, models, the worker and the session.
//!
//! It knows the engine only through the ports of `legwork-core`.

pub mod contract;
mod excerpt;
pub mod hooks;
pub mod journal;
pub mod models;
mod patience;
pub mod process;
mod prompt;
mod quoted;
mod redact;
mod room;
pub mod session;
mod shares;
pub mod spill;
pub mod tools;
pub mod transcripts;
pub mod turn;
pub mod worker;
mod worktree;

pub use redact::redact;
