//! Why no model could be chosen, in words that say what to write where.

use super::super::environment::NotUnicode;
use super::super::origin::Origin;
use super::super::problem::Problem;
use super::endpoint::{Endpoint, EndpointError};
use super::provider::Provider;
use crate::failure::{CliError, Kind};

/// Why no model could be chosen.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Nothing names a model.
    #[error("no model is configured")]
    NotConfigured {
        /// The user's file, for the hint.
        user_file: String,
    },
    /// The name has no provider.
    #[error("{origin}: the model {text:?} is not of the form PROVIDER/NAME")]
    Malformed { text: String, origin: Origin },
    /// The provider is not known.
    #[error("{place}: unknown provider {word:?}{}", near(*nearest))]
    UnknownProvider { word: String, place: String, nearest: Option<&'static str> },
    /// The provider has no address of its own.
    #[error("the provider `{}` has no address of its own", .0.word())]
    NoAddress(Provider),
    /// The provider's usual variable is not an address.
    #[error("environment variable {variable} expects an address, found {cause}")]
    BadVendorUrl { variable: &'static str, cause: EndpointError },
    /// An address in the settings is not one. Settings are checked when they are read, so this is rare.
    #[error("the address of the model: {0}")]
    BadUrl(#[from] EndpointError),
    /// The named variable that should hold the key is not set.
    #[error("{origin}: `api_key_env` names the variable {variable}, which is not set")]
    KeyVariableUnset { variable: String, origin: Origin },
    /// No key may go to the address, and the provider asks for one there.
    #[error("no key for the provider `{}` at {endpoint}{}", provider.word(), withheld_note(withheld))]
    NoKey { provider: Provider, endpoint: Endpoint, variable: &'static str, withheld: Vec<String> },
    /// A key stands alone.
    #[error("`{table}.api_key` stands without `{table}.base_url` or `{table}.provider`")]
    HomelessKey { table: String },
    /// A table leads to another origin than its parent's and brings no key (CRED-23).
    #[error(
        "`{table}` leads to {endpoint} and has no key for it; a key that is configured for another address is not sent there"
    )]
    NoOwnKey { table: String, endpoint: Endpoint },
    /// There is no such route.
    #[error("there is no route {name:?}{}", known_routes(known))]
    UnknownRoute { name: String, known: Vec<String> },
    /// `delegation.provider` is another provider than the parent's, and no model is named for it.
    #[error("`delegation.provider` is `{}` but `delegation.model` names no model for it", .0.word())]
    NoChildModel(Provider),
    /// An address of a local server is not one of this machine.
    #[error("`model.local_servers` holds {0:?}, which is no http address of this machine")]
    NotLocal(String),
    /// A variable is not valid text.
    #[error(transparent)]
    Variable(#[from] Problem),
}

impl From<NotUnicode> for ModelError {
    fn from(error: NotUnicode) -> ModelError {
        ModelError::Variable(error.into())
    }
}

fn near(nearest: Option<&str>) -> String {
    nearest.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default()
}

fn known_routes(known: &[String]) -> String {
    match known {
        [] => "; none is configured".to_owned(),
        some => format!("; the routes are {}", some.join(", ")),
    }
}

fn withheld_note(withheld: &[String]) -> String {
    match withheld {
        [] => String::new(),
        some => format!(" (not used, because configured for another address: {})", some.join(", ")),
    }
}

impl ModelError {
    fn kind(&self) -> Kind {
        match self {
            ModelError::NotConfigured { .. } => Kind::NoModel,
            ModelError::UnknownProvider { .. } => Kind::UnknownProvider,
            ModelError::KeyVariableUnset { .. } | ModelError::NoKey { .. } | ModelError::NoOwnKey { .. } => {
                Kind::NoKey
            }
            ModelError::UnknownRoute { .. } => Kind::Input,
            ModelError::Malformed { .. }
            | ModelError::NoAddress(_)
            | ModelError::BadVendorUrl { .. }
            | ModelError::BadUrl(_)
            | ModelError::HomelessKey { .. }
            | ModelError::NoChildModel(_)
            | ModelError::NotLocal(_)
            | ModelError::Variable(_) => Kind::Configuration,
        }
    }

    fn hint(&self) -> Option<String> {
        let known = || format!("known providers: {}", Provider::WORDS.join(", "));
        match self {
            ModelError::NotConfigured { user_file } => Some(format!(
                "name one with `--model PROVIDER/NAME`, with `export LEGWORK_MODEL=PROVIDER/NAME`, \
                 or in {user_file}:\n[model]\ndefault = \"openai/MODEL-NAME\"\n{}; \
                 a local server is found by itself while it runs (`ollama serve`, `llama-server`)",
                known()
            )),
            ModelError::Malformed { .. } => Some(format!("write for example openai/MODEL-NAME; {}", known())),
            ModelError::UnknownProvider { .. } => Some(known()),
            ModelError::NoAddress(_) => {
                Some("add `--base-url http://HOST:PORT/v1` or set LEGWORK_BASE_URL".to_owned())
            }
            ModelError::KeyVariableUnset { variable, .. } => Some(format!("export {variable}=…")),
            ModelError::NoKey { variable, .. } => Some(format!("export {variable}=… or LEGWORK_API_KEY=…")),
            ModelError::NoOwnKey { table, .. } => Some(format!(
                "set `{table}.api_key_env` or `{table}.api_key`; `api_key = \"\"` says that none is needed there"
            )),
            ModelError::HomelessKey { .. } => Some(
                "write the address or provider it belongs to beside it; a key goes nowhere else".to_owned(),
            ),
            ModelError::NoChildModel(_) => Some("set `delegation.model` as well".to_owned()),
            ModelError::NotLocal(_) => {
                Some("for a server elsewhere set `model.default` and `model.base_url`".to_owned())
            }
            ModelError::UnknownRoute { .. }
            | ModelError::BadVendorUrl { .. }
            | ModelError::BadUrl(_)
            | ModelError::Variable(_) => None,
        }
    }
}

impl From<ModelError> for CliError {
    fn from(error: ModelError) -> CliError {
        let failure = CliError::new(error.kind(), error.to_string());
        match error.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}
