//! The tools that work on this machine's files and processes.

use super::groups::Groups;
use super::port::Tool;
use super::read_file::ReadFile;
use super::terminal::Terminal;
use crate::process::Shells;
use std::sync::Arc;

/// All of them. Whoever builds a [`super::Toolbox`] adds what belongs to others, such as `delegate_task`.
pub fn built_in(shells: Arc<Shells>, groups: Arc<Groups>) -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(ReadFile), Arc::new(Terminal::new(shells, groups))]
}
