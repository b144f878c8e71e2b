//! Fakes of the ports that the agent asks, and short ways to say what they do.

mod bench;
mod line;
mod model;
mod steps;
mod tool;

pub use bench::{Bench, allowance, rights, route};
pub use line::FakeLine;
pub use model::{FakeModel, Say, call, failure};
pub use steps::FakeSteps;
pub use tool::{Dropped, FakeTool};
