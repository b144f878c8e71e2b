//! Port [`Tool`] and the built-in tools, one file each.

mod port;

pub use port::{Effect, Invocation, Site, Tool, ToolOutput};
