//! Gemini's `generateContent` over a real socket.

mod client;
mod speech;
mod strict;
