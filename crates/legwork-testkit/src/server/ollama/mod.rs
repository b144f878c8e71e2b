//! Ollama's own chat: how its requests are read and how its answers are written.
//!
//! A real daemon takes messages in any order. This server asks for what any format asks of calls and results, which is
//! checked in `strict`.

mod errors;
mod request;
mod response;
mod wire;

pub(super) use wire::Ollama;
