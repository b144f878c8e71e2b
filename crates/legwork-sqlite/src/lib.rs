//! The store of legwork in one embedded database file: delegations with their facts, journals of steps, and the
//! histories of sessions.
//!
//! This crate answers the port `Store` and owns the file, its schema and its locks. It decides nothing about work: which
//! move is legal is asked of the state machines in `legwork-core`, inside the transaction that stores it.
#![deny(missing_docs)]

mod busy;
mod damage;
mod encoding;
mod faces;
mod failure;
mod files;
mod holder;
mod log;
mod opening;
mod options;
mod readers;
mod room;
mod schema;
mod sql;
mod store;
mod turns;
mod writer;

pub use options::StoreOptions;
pub use store::SqliteStore;
