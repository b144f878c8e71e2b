//! Where a server on this machine is looked for when no model is configured. It names the places; looking is done by
//! whoever builds the model.

use legwork_agent::models::is_loopback;

use super::super::values::Settings;
use super::error::ModelError;

/// Where Ollama and llama-server listen unless they are told otherwise.
const USUAL: &[&str] = &["http://127.0.0.1:11434", "http://127.0.0.1:8080"];

/// The places to look at, in the order in which they are preferred. None where a model or an address is configured:
/// what was asked for is never replaced by what happens to run.
///
/// # Errors
/// When one of the addresses is not of this machine.
pub fn places_to_look(settings: &Settings) -> Result<Vec<String>, ModelError> {
    let usual = || USUAL.iter().copied().map(str::to_owned).collect();
    let places = settings.model.local_servers.clone().unwrap_or_else(usual);
    if let Some(place) = places.iter().find(|place| !is_loopback(place)) {
        return Err(ModelError::NotLocal(place.clone()));
    }
    let is_open = settings.model.default.is_empty() && settings.model.base_url.is_empty();
    Ok(if is_open { places } else { Vec::new() })
}
