//! What a person sees on stderr while children run: live lines on a terminal, plain lines elsewhere, nothing with `-q`.

mod follow;
mod lines;
mod live;
mod reason;
mod screen;
mod session;
mod sets;

pub use follow::Follow;
pub use lines::{at, head};
pub use reason::reason;
pub use screen::Screen;
pub use session::{Before, follow_all, told};
pub use sets::{Ended, Notice, Sets};
