//! Port [`Tool`] and the built-in tools, one file each.

mod arguments;
mod beside;
mod built_in;
mod commands;
mod delegate;
mod errand;
mod glob;
mod groups;
mod list_files;
mod off_thread;
mod patch;
mod place;
mod port;
mod process;
mod read_file;
mod search_files;
mod terminal;
#[cfg(test)]
pub(crate) mod tests;
mod toolbox;
mod toolsets;
mod walk;
mod web_fetch;
mod write_file;

pub use built_in::built_in;
pub use commands::Commands;
pub(crate) use delegate::carries_results;
pub use delegate::routes::{Advertised, NamedRoutes, assign_routes, check_routes};
pub use delegate::tasks::{TaskAuthor, TaskError, TaskRules, parse_tasks, route_names};
pub use delegate::{DELEGATE_TASK, DelegateOptions, DelegateTool};
pub(crate) use errand::{Errand, Ran, word};
pub use list_files::ListFiles;
pub use patch::Patch;
pub use port::{Effect, Invocation, Site, Tool, ToolOutput};
pub use process::{BackgroundProcesses, BackgroundReport, BackgroundState, Known, Leaving, ProcessTool};
pub(crate) use process::{ProcessEnd, known, tell_lost};
pub use read_file::ReadFile;
pub use search_files::SearchFiles;
pub use terminal::Terminal;
pub use toolbox::Toolbox;
pub use toolsets::{Below, expand as toolset, for_children as rights_of_children, toolset_names};
pub use web_fetch::{FetchAddresses, WebFetch};
pub use write_file::WriteFile;
