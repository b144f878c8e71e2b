//! The tables and how they came about: one step of SQL for each version. A step that was released is never changed.

mod backup;
mod upgrade;

pub(crate) use upgrade::{bring_up, check, check_present, version};
