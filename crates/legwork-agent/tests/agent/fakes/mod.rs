//! Fakes of the ports that the agent asks, and short ways to say what they do.

mod bench;
mod delegator;
mod line;
mod model;
mod processes;
mod steps;
mod tool;
mod waiting;

pub use bench::{Bench, allowance, rights, route};
pub use delegator::{FakeDelegator, json_of};
pub use line::FakeLine;
pub use model::{FakeModel, Say, call, failure};
pub use processes::{FakeProcesses, process};
pub use steps::FakeSteps;
pub use tool::{Dropped, FakeTool};
pub use waiting::until;
