//! The port `Store` in memory, with the rules of the real one and nothing else: plain collections behind one lock.
//! It survives no process, and it is the reference that the store suite compares adapters with.

mod append;
mod claims;
mod conversations;
mod facts;
mod journal;
mod leases;
mod requests;
mod sessions;
mod state;
mod store;
mod whole;

pub use state::Damage;
pub use store::MemoryStore;
