//! Port [`Model`] and its adapters.

mod port;

pub use port::{Model, ModelError, ModelFacts, ModelRequest, ReplyPart, ReplyStream, ToolSpec};
