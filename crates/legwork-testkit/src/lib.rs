//! legwork-testkit

pub mod server;
