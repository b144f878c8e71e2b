//! The tools that work on this machine's files and processes.

use super::groups::Groups;
use super::list_files::ListFiles;
use super::port::Tool;
use super::read_file::ReadFile;
use super::search_files::SearchFiles;
use super::terminal::Terminal;
use super::write_file::WriteFile;
use crate::process::Shells;
use std::sync::Arc;

/// All of them. Whoever builds a [`super::Toolbox`] adds what belongs to others, such as `delegate_task`.
pub fn built_in(shells: Arc<Shells>, groups: Arc<Groups>) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(ReadFile),
        Arc::new(WriteFile),
        Arc::new(ListFiles),
        Arc::new(SearchFiles),
        Arc::new(Terminal::new(shells, groups)),
    ]
}
