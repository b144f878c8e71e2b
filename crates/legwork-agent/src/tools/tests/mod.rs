//! The built-in tools through the toolbox, with real files and real processes.

mod ledger;
mod read_file;
mod rig;
mod terminal;
mod toolbox;
