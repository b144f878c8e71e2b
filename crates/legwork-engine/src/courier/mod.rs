//! Brings settled units to whoever waits for them: to a caller that joins its own delegation, and to open sessions, each
//! completion as a turn of its own when the session is idle (DLV-1). Where results are is the store's to know; nothing
//! here remembers what would be lost with the process.

mod choice;
mod collect;
mod debts;
mod round;
mod routes;

pub(crate) use collect::{OnTheWay, Ways, collect, collect_unit};
pub(crate) use routes::Routes;
