//! Ollama's chat over a real socket.

mod client;
mod speech;
mod strict;
