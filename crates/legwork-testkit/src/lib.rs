//! legwork-testkit

pub mod memory;
pub mod server;
