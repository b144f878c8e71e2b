//! Anthropic messages over a real socket.

mod client;
mod speech;
mod strict;
