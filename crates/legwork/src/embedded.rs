//! The embedded model, where it was built in (feature `local-model`), and a clear refusal where it was not.

use std::sync::Arc;

use legwork_agent::models::Model;

use crate::failure::{CliError, Kind};
use crate::invocation::Invocation;
use crate::settings::model::Embedded;

/// The name of the embedded model behind `local/`.
#[cfg(feature = "local-model")]
pub const NAME: &str = "smollm2-135m";

/// Whether it can be used when nothing else is configured.
#[cfg(feature = "local-model")]
pub const AVAILABLE: Embedded = Embedded::BuiltIn(NAME);
/// Whether it can be used when nothing else is configured.
#[cfg(not(feature = "local-model"))]
pub const AVAILABLE: Embedded = Embedded::Absent;

/// Says that the embedded model is not part of this program.
///
/// # Errors
/// Always.
#[cfg(not(feature = "local-model"))]
pub fn open(_invocation: &Invocation, name: &str) -> Result<Arc<dyn Model>, CliError> {
    let message =
        format!("this legwork was built without the embedded model, so local/{name} cannot be used");
    Err(CliError::new(Kind::NoModel, message)
        .with_hint("build it with `cargo install --path crates/legwork --features local-model`"))
}
