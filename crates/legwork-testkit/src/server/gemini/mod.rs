//! Gemini's `generateContent`: how its requests are read and how its answers are written.
//!
//! What any format asks of calls and results is checked in `strict`; where contents with calls and results may stand
//! and which parts must bring their signature back is checked here.

mod contents;
mod errors;
mod names;
mod parts;
mod request;
mod response;
mod schema;
mod stream;
mod wire;

pub(super) use wire::Gemini;
