//! Anthropic messages: how its requests are read and how its answers are written.
//!
//! What any format asks of calls and results is checked in `strict`; that messages alternate and that results come
//! first in theirs is checked here.

mod blocks;
mod errors;
mod request;
mod response;
mod stream;
mod wire;

pub(super) use wire::Messages;
