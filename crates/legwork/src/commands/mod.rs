//! One module a verb: its arguments and `run`.

pub mod completions;
pub mod config;
