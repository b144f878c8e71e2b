//! Processes of the operating system: the only place that starts, watches, signals and reaps any.
//!
//! A command runs in a terminal session and a process group of its own, under a shell that waits for its script on
//! stdin; until the script is sent, nothing of it runs. Whatever a command leaves behind is ended and named. This
//! module does not know what a tool or a store is: whoever runs a command stores the group before sending the script.

mod apart;
mod capture;
mod environment;
mod family;
mod gated;
mod identity;
mod leader;
mod mark;
mod orphans;
mod outliving;
mod plain;
mod recent;
mod shell;
mod store;
mod system;
mod table;
#[cfg(test)]
mod tests;

pub use capture::{Capture, CaptureLimits, Captured, Whole};
pub use family::is_group_gone;
pub use gated::{End, Finished, Gated, Order, time_limit};
pub use orphans::{adopt_orphans, kill_all, sweep, sweep_all, sweep_but};
pub use outliving::{leave_terminal, start_outliving};
pub(crate) use plain::Cleaner;
pub use recent::{Part, Recent};
pub use shell::{NoShell, Shells, SpawnError};
pub use store::work_with;
#[cfg(test)]
pub(crate) use system::kill_marked;
pub use system::{SystemProcesses, is_group_living, kill_groups};
pub use table::Leftover;
