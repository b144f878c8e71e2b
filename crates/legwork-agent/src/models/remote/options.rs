//! What a route is made of, and the checks that it passes before anything is sent.

use super::protocol::Protocol;
use crate::models::effort::ReasoningEffort;
use crate::models::key::ApiKey;
use reqwest::Url;
use serde_json::{Map, Value};
use std::time::Duration;
use thiserror::Error;

/// One route to a model.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// What is spoken there.
    pub protocol: Protocol,
    /// The name that comes before the slash in the model's name.
    pub provider: String,
    /// The address that the protocol's path is below of, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key that belongs to this address; it is sent nowhere else.
    pub key: Option<ApiKey>,
    /// The model, as the provider names it.
    pub model: String,
    /// Tokens that fit into one request and its reply together, where the user says so.
    pub window: Option<u64>,
    /// How hard the model is asked to think; by itself where nothing is said.
    pub effort: Option<ReasoningEffort>,
    /// Fields that are laid over every request.
    pub overrides: Map<String, Value>,
    /// The limits of one call.
    pub limits: CallLimits,
}

/// The limits of one call. There is none on its whole length: a reply that moves is never cut for taking long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// The longest silence that is borne, before the first byte and between two; then the call fails as a timeout.
    pub idle_max: Duration,
    /// The largest reply, in bytes as it comes over the wire.
    pub reply_max_bytes: usize,
    /// The most tokens that a reply may have; the provider's own limit where nothing is said.
    pub output_max_tokens: Option<u64>,
}

impl Default for CallLimits {
    fn default() -> Self {
        CallLimits {
            idle_max: Duration::from_secs(300),
            reply_max_bytes: 64 * 1024 * 1024,
            output_max_tokens: None,
        }
    }
}

/// Why a route cannot be used. No text holds the key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RouteError {
    /// The address is none.
    #[error("the base URL `{0}` is not an address like https://host/v1: {1}")]
    BaseUrl(String, String),
    /// The address holds a name or a password.
    #[error("the base URL holds a user name or password: take it out and set the key instead")]
    Credentials,
    /// The key cannot be a header.
    #[error("the key holds characters that cannot be sent, such as a line break: check where it is set")]
    Key,
    /// The model has no name.
    #[error("the model has no name: write it as {0}/NAME")]
    Model(String),
}

pub(super) fn base_url(text: &str) -> Result<Url, RouteError> {
    let refused = |why: &str| RouteError::BaseUrl(shown(text), why.to_owned());
    let url = Url::parse(text.trim()).map_err(|error| refused(&error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(RouteError::Credentials);
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("it must begin with http:// or https://"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refused("it must not have a query or a fragment"));
    }
    Ok(url)
}

/// An address as it may be shown: what stands before an `@` may be a password.
fn shown(text: &str) -> String {
    text.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, rest)| format!("…@{rest}"))
}
