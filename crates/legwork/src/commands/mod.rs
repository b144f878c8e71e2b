//! One module a verb: its arguments and `run`.

pub mod completions;
pub mod config;
pub mod delegate;
pub mod doctor;
pub mod ps;
pub mod results;
pub mod run;
pub mod show;
pub mod stop;
pub mod tail;
