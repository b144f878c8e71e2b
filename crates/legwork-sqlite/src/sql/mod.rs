//! The statements, one file a subject. Each function works on a connection inside a transaction that somebody else
//! opened, and checks everything before it writes anything.

pub(crate) mod accept;
pub(crate) mod append;
pub(crate) mod claims;
pub(crate) mod delivery;
pub(crate) mod draft;
pub(crate) mod due;
pub(crate) mod fence;
pub(crate) mod find;
mod follow;
pub(crate) mod groups;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod journal;
pub(crate) mod notices;
pub(crate) mod owners;
pub(crate) mod prune;
pub(crate) mod pulses;
pub(crate) mod records;
pub(crate) mod requests;
pub(crate) mod sessions;
pub(crate) mod switches;
