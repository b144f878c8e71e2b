//! The configuration: one table of keys, five layers, typed values, and the choice of a model.
//!
//! Owns reading, checking and merging. It opens no connection and builds no model client: it hands plain values over.

mod blocks;
mod built;
mod environment;
mod field;
mod file;
mod keys;
mod load;
pub mod model;
mod nearest;
mod origin;
mod problem;
mod raw;
mod schema;
mod secret;
mod values;
pub mod variables;

pub use environment::Environment;
pub use keys::KEYS;
pub use load::{Sources, UserFile, load};
pub use nearest::nearest;
pub use schema::schema;
pub use values::{AtCapacity, DelegationSettings, Images, OnCrash, Settings};
