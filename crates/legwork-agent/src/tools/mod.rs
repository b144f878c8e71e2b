//! Port [`Tool`] and the built-in tools, one file each.

mod arguments;
mod built_in;
mod delegate;
mod groups;
mod off_thread;
mod place;
mod port;
mod read_file;
mod terminal;
#[cfg(test)]
mod tests;
mod toolbox;

pub use built_in::built_in;
pub use delegate::tasks::{TaskAuthor, TaskError, TaskRules, parse_tasks};
pub use delegate::{DELEGATE_TASK, DelegateOptions, DelegateTool};
pub use groups::Groups;
pub use port::{Effect, Invocation, Site, Tool, ToolOutput};
pub use read_file::ReadFile;
pub use terminal::Terminal;
pub use toolbox::Toolbox;
