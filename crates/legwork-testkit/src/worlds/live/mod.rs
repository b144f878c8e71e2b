//! Live worlds: the running engine over a store that fails now and then, sessions whose users talk, workers that read
//! what is said to them and send out others, processes that end, die or stand still; and laws about what must have
//! arrived when all is over.
//!
//! Time is paused, so that a world takes no time but what its store needs. A seed decides what people do and what goes
//! wrong; the order in which tasks of one moment run is the runtime's.

mod calls;
mod figures;
mod journal;
mod order;
mod people;
mod population;
mod process;
mod readers;
mod session;
mod terms;
mod told;
mod verdict;
mod wall;
mod weather;
mod worker;
mod world;

pub use figures::LiveFigures;
pub use terms::{Cut, Ground, Lapse, LiveTerms, Owners, Trouble, Wall};
pub use world::{LiveWreck, run_live, run_on};
