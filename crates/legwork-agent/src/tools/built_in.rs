//! The tools that work on files and processes of this machine, and the one that looks at the web.

use super::commands::Commands;
use super::list_files::ListFiles;
use super::patch::Patch;
use super::port::Tool;
use super::process::ProcessTool;
use super::read_file::ReadFile;
use super::search_files::SearchFiles;
use super::terminal::Terminal;
use super::web_fetch::{FetchAddresses, WebFetch};
use super::write_file::WriteFile;
use std::sync::Arc;

/// All of them. Whoever builds a [`super::Toolbox`] adds what belongs to others, such as `delegate_task`;
/// `fetched` is what `web_fetch` may go to.
pub fn built_in(commands: &Commands, fetched: FetchAddresses) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(ReadFile),
        Arc::new(WriteFile),
        Arc::new(Patch),
        Arc::new(ListFiles),
        Arc::new(SearchFiles),
        Arc::new(Terminal::new(commands.clone())),
        Arc::new(ProcessTool::new(Arc::clone(&commands.background))),
        Arc::new(WebFetch::new(fetched)),
    ]
}
