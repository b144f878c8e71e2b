//! OpenAI chat completions: how its requests are read and how its answers are written.
//!
//! The order of messages and the pairing of calls and results are checked in `strict`, not here.

mod request;
mod response;
mod wire;

pub(super) use wire::Chat;
