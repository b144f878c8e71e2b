//! The running engine: it accepts delegations, runs their children within the limits, and brings results back.
//!
//! The centre is [`book::Book`], a pure policy; [`dispatcher`] is the one loop that feeds it and performs what it
//! says. Everything outside is reached through the ports of `legwork-core`.

pub mod book;
mod courier;
mod detached;
mod dispatcher;
mod elsewhere;
mod gap;
mod handle;
pub mod lease;
mod line;
mod offering;
pub mod options;
pub mod recovery;
mod runner;
mod salvage;
mod steering;
mod wiring;

pub use gap::Gaps;
pub use handle::{Engine, Handle, Hold, StartError};
pub use options::{AtCapacity, Options, OptionsError, Patience};
pub use steering::STEER_BYTES_MAX;
pub use wiring::{Clock, Wiring};
