//! The two state machines, exhaustively: every state × every event against a table written by hand, what can be reached
//! from the start, and the page `docs/lifecycle.md`, which is generated from the machines and must be current.

#[path = "machines/alphabet.rs"]
mod alphabet;
#[path = "machines/child_table.rs"]
mod child_table;
#[path = "machines/delivery_table.rs"]
mod delivery_table;
#[path = "machines/page.rs"]
mod page;
#[path = "machines/reach.rs"]
mod reach;
#[path = "machines/table.rs"]
mod table;
