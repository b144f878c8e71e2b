//! The server driven over real sockets by a client as small as it can be.

mod anthropic;
mod catalog;
mod choice;
mod client;
mod faults;
mod formats;
mod gates;
mod gemini;
mod ollama;
mod responses;
mod speech;
mod strict;
