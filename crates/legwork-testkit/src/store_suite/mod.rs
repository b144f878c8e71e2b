//! One suite for every adapter of the port `Store`: what passes it may stand behind an engine. It tests promises of the
//! port, never how an adapter keeps them.
//!
//! An adapter's tests say `legwork_testkit::store_suite!(…)` with an expression that makes a fresh [`Place`].

pub mod cases;
mod owned;
mod place;
mod random;
mod sample;
mod suite;

pub use owned::Owned;
pub use place::Place;
pub use random::compare;
