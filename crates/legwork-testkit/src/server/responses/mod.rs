//! OpenAI Responses: how its requests are read and how its answers are written.
//!
//! What any format asks of calls and results is checked in `strict`. This server keeps no response, so each request
//! must carry its whole conversation.

mod input;
mod items;
mod request;
mod response;
mod stream;
mod wire;

pub(super) use wire::Responses;
