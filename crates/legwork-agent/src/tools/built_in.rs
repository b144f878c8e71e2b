//! The tools that work on this machine's files and processes.

use super::commands::Commands;
use super::list_files::ListFiles;
use super::patch::Patch;
use super::port::Tool;
use super::process::ProcessTool;
use super::read_file::ReadFile;
use super::search_files::SearchFiles;
use super::terminal::Terminal;
use super::write_file::WriteFile;
use std::sync::Arc;

/// All of them. Whoever builds a [`super::Toolbox`] adds what belongs to others, such as `delegate_task`.
pub fn built_in(commands: &Commands) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(ReadFile),
        Arc::new(WriteFile),
        Arc::new(Patch),
        Arc::new(ListFiles),
        Arc::new(SearchFiles),
        Arc::new(Terminal::new(commands.clone())),
        Arc::new(ProcessTool::new(Arc::clone(&commands.background))),
    ]
}
