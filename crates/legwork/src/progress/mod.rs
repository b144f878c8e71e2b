//! What a person sees on stderr while children run: live lines on a terminal, plain lines elsewhere, nothing with `-q`.

mod follow;
mod lines;
mod live;
mod screen;
mod session;

pub use follow::follow;
pub use screen::Screen;
pub use session::{Before, follow_all, told};
