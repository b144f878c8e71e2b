//! What the tests of the program share: a machine of its own for each test, the program started on it and waited for,
//! and a look at the processes that carry its mark. It knows no verb and judges nothing.

mod ended;
mod hang_up;
mod home;
mod order;
mod processes;
mod running;
mod screen;
mod tasks;
mod waiting;

pub use ended::Ended;
pub use hang_up::HangUp;
pub use home::{Home, KEY};
pub use order::Order;
pub use processes::Seen;
pub use running::{Death, Running};
pub use screen::Screen;
pub use tasks::tasks_toml;
pub use waiting::{PATIENCE, RELEASE_MAX, STOP_MAX, at, release_max, until, within};
