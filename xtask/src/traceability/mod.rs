//! The page `docs/traceability.md`: which test proves which requirement. It is written from the names and comments of
//! tests, from `docs/requirements.md` and from `docs/traceability-decisions.txt`; the tidy rule of the same name fails
//! when it is stale.

mod decisions;
mod page;
mod proofs;
mod requirements;
mod written;

pub use decisions::ids_decided_replaced;
pub use requirements::Requirements;
pub use written::{DECISIONS, PAGE, REQUIREMENTS, written};
