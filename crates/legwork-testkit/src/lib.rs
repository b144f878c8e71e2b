//! legwork-testkit

pub mod gated;
pub mod memory;
pub mod server;
pub mod store_suite;
pub mod worlds;
