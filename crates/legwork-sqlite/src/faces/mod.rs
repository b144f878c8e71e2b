//! The three faces of the port `Store`: each call becomes one command of the writer, or one look of a reader.

mod conversations;
mod facts;
mod steps;
