//! The nouns, state machines and ports of legwork.
//!
//! Everything else in the house knows this crate, and it knows nobody: it does no IO, starts no task,
//! reads no clock and draws no random number. Time, ids and randomness are arguments.
#![deny(missing_docs)]

#[cfg(not(unix))]
compile_error!("legwork runs commands in Unix process groups; Windows is not supported, use WSL there");

pub mod aftermath;
pub mod batch;
pub mod below;
pub mod budget;
pub mod child;
pub mod completion;
pub mod delivery;
pub mod fact;
pub mod handover;
pub mod ids;
pub mod letters;
pub mod message;
pub mod outcome;
pub mod ports;
pub mod pulse;
pub mod record;
pub mod relay;
pub mod report;
pub mod spans;
pub mod spending;
pub mod steering;
pub mod step;
pub mod taking;
pub mod time;
mod trace;
