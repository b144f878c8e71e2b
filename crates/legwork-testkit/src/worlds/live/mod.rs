//! Live worlds: the running engine over a store in memory that fails now and then, sessions whose users talk, workers that
//! read what is said to them, processes that die; and laws about what must have arrived when all is over.
//!
//! Time is paused, so that a world takes no time. A seed decides what people do and what goes wrong; the order in which
//! tasks of one moment run is the runtime's.

mod figures;
mod process;
mod session;
mod verdict;
mod weather;
mod worker;
mod world;

pub use figures::LiveFigures;
pub use weather::Cut;
pub use world::{LiveWreck, run_cut, run_live};
