//! The terminal of a conversation: what is shown of it, the line that is typed, and the loop between them; and the same without
//! a terminal, line by line.
//!
//! [`View`] is pure: events, keys and times go in, rows come out. [`Dialogue`] has the terminal, and [`Host`] is what stands
//! behind it.

mod backstage;
mod dialogue;
mod draw;
mod editor;
mod elsewhere;
mod feed;
mod history;
mod host;
mod keys;
mod markdown;
mod painter;
mod plain;
mod roster;
mod rows;
#[cfg(test)]
mod screens;
mod shelf;
mod slash;
mod sought;
mod subagents;
mod terminal;
mod typing;
mod view;

pub use backstage::Backstage;
pub use dialogue::{Dialogue, Sources};
pub use feed::Feed;
pub use history::History;
pub use host::Host;
pub use painter::Painter;
pub use plain::{Plain, print_last};
pub use rows::Colours;
pub use terminal::{RawTerminal, is_dumb, narrowing, size_now};
pub use typing::Typing;
pub use view::{Size, View, Who};
