//! One module a verb: its arguments and `run`.

pub mod chat;
pub mod completions;
pub mod config;
pub mod delegate;
pub mod dismiss;
pub mod doctor;
pub mod pause;
pub mod ps;
pub mod results;
pub mod run;
pub mod sessions;
pub mod show;
pub mod steer;
pub mod stop;
pub mod tail;
pub mod worker;
