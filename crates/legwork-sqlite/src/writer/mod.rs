//! The one thread that writes. Commands that wait at the same moment share one commit, so that the price of a flush to
//! the disk is paid once for all of them. It does not know what the commands do.

mod command;
mod group;
mod thread;

pub(crate) use thread::Writer;
