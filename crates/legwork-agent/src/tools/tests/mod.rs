//! The built-in tools through the toolbox, with real files and real processes.

pub(crate) mod ledger;
mod list_files;
mod patch;
mod process;
mod read_file;
mod rig;
mod search_files;
mod terminal;
mod toolbox;
mod web_fetch;
mod write_file;
