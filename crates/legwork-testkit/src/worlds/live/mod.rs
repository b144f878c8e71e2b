//! Live worlds: the running engine over a store that fails now and then, sessions whose users talk, workers that read
//! what is said to them and send out others, processes that end, die or stand still; and laws about what must have
//! arrived when all is over.
//!
//! Time is paused, so that a world takes no time but what its store needs. A seed decides what people do and what goes
//! wrong. In memory it decides everything: the runtime has one thread and takes up tasks in the order in which they are woken, and
//! nothing wakes them in an order that is chance's. So whoever waits here for one thing together with others does so by `biased`
//! selects and by `Notify`, and not by clones of a `watch` receiver, which are woken in any order. Over files the threads of the
//! stores have a say in what comes first.

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
