//! Seeded worlds: thousands of random schedules over the engine's book, with workers that answer, fail, hang and ignore
//! stops, stores that refuse and fail, clocks that jump, owners that die; and laws that are checked after every step.
//!
//! Most worlds run no thread and wait for nothing; those in `live` drive the running engine with its sessions.

mod account;
mod action;
mod audit;
mod chance;
mod comparison;
mod ending;
mod expectation;
mod figures;
mod lanes;
mod law;
mod live;
mod note;
mod run;
mod runner;
mod sabotage;
mod saboteur;
mod storage;
mod terms;
mod trail;
mod world;

pub use chance::Chance;
pub use figures::Figures;
pub use law::{Broken, Law};
pub use live::{
    Cut, Ground, Lapse, LiveFigures, LiveTerms, LiveWreck, Owners, Trouble, Wall, run_live, run_on,
};
pub use run::{Wreck, run, run_sabotaged, worlds_wanted};
pub use sabotage::Sabotage;
pub use terms::Scenario;
