//! The test equipment of legwork: a scripted model server, a store in memory, the suite of every store, seeded worlds.
//!
//! Nothing here ships, and no crate depends on it outside its tests.

pub mod failpoint;
pub mod gated;
pub mod locks;
pub mod memory;
pub mod server;
pub mod shaky;
pub mod store_suite;
pub mod unwritten;
pub mod worlds;
