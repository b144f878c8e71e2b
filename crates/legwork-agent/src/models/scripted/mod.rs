//! The scripted model: it says what a file tells it to say. It runs in the process, opens no connection, asks no clock
//! but for the delays it was told, and the same conversation always gets the same reply.
//!
//! A script is TOML. The first user message of a conversation chooses the agent whose `marker` it contains; the number
//! of replies so far chooses the step.
//!
//! ```toml
//! [[agent]]
//! marker = "README.md"
//!
//! [[agent.step]]
//! call = [{ tool = "read_file", arguments = { path = "{goal_path}" } }]
//!
//! [[agent.step]]
//! delay_ms = 200
//! say = "{goal_path} begins with: {last_result_line_1}"
//! usage = { input = 900, output = 20 }
//!
//! [[default.step]]
//! say = "I have no script for: {goal}"
//! ```

mod file;
mod fill;
mod play;

pub use file::{Script, ScriptError};
pub use play::Scripted;
