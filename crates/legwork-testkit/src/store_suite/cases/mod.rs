//! The cases, by subject. Each takes a fresh place and panics when the store in it breaks a promise.

pub mod acceptance;
pub mod claims;
pub mod damage;
pub mod due;
pub mod facts;
pub mod history;
pub mod journal;
pub mod lookup;
pub mod notices;
pub mod owners;
pub mod sessions;
pub mod steers;
pub mod unread;
