//! OpenAI Responses over a real socket.

mod client;
mod speech;
mod strict;
