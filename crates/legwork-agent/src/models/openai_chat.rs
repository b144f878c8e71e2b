//! OpenAI chat completions behind the port [`Model`], for the vendor and for every server that speaks the same.
//!
//! It owns one route: address, key and model, bound together for good. The wire format is a library's and none of its
//! types leave this crate; sending is `link`'s, the meaning of failures `errors`'.

use super::call_ids::CallIds;
use super::http::SharedHttp;
use super::key::ApiKey;
use super::link::{Link, Way};
use super::port::{Model, ModelError, ModelFacts, ModelRequest, ReplyPart, ReplyStream};
use super::{convert, errors, reply};
use futures::StreamExt;
use futures::stream;
use legwork_core::report::{Cost, FailureReason};
use legwork_core::step::Reply;
use reqwest::Url;
use reqwest::header::HeaderValue;
use rig_core::catalog::Catalog;
use rig_core::completion::{CompletionRequest, ReplayTarget};
use rig_core::driver::Model as Driver;
use rig_core::error::ProviderError;
use rig_core::message::Origin;
use rig_core::providers::openai::OpenAIConfig;
use rig_core::providers::openai::wire::{Chat, Dialect, OPENAI, all};
use rig_core::streaming::{CompletionStream, Item, StreamEvent};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// The path of the endpoint below the base URL.
const PATH: &str = "chat/completions";

/// One route to a model.
#[derive(Debug, Clone)]
pub struct OpenAiChatOptions {
    /// The name that comes before the slash in the model's name.
    pub provider: String,
    /// The address that `/chat/completions` is below of, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key that belongs to this address; it is sent nowhere else.
    pub key: Option<ApiKey>,
    /// The model, as the provider names it.
    pub model: String,
    /// Tokens that fit into one request and its reply together, where the user says so.
    pub window: Option<u64>,
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

/// A model behind an OpenAI chat completions endpoint. A clone shares everything.
#[derive(Clone)]
pub struct OpenAiChat {
    route: Arc<Route>,
}

struct Route {
    driver: Driver<Chat, Link>,
    /// The model as the library names it, to which its own reasoning goes back.
    origin: Origin,
    options: OpenAiChatOptions,
    /// Whether the address is the vendor's own, so that its price list and model facts hold.
    at_vendor: bool,
}

impl OpenAiChat {
    /// A route over the shared clients. Nothing is sent, opened or read from disk, except that an `https` address
    /// loads the certificates that the system trusts.
    ///
    /// # Errors
    /// When the address, the key or the model cannot be used; no request was made then.
    pub fn new(options: OpenAiChatOptions, http: &SharedHttp) -> Result<Self, RouteError> {
        let base = base_url(&options.base_url)?;
        if options.model.trim().is_empty() {
            return Err(RouteError::Model(options.provider));
        }
        let vendor = dialect_of(&base);
        let way = Way {
            client: http.client_for(&base),
            endpoint: endpoint(&base, vendor),
            authorization: options.key.as_ref().map(authorization).transpose()?,
            idle_max: options.limits.idle_max,
            reply_max_bytes: options.limits.reply_max_bytes,
        };
        // The library is not given the key: what it does not have it cannot lose.
        let config =
            OpenAIConfig::with_key(vendor.unwrap_or(&OPENAI), "").with_base_url(way.endpoint.as_str());
        let wire = config.chat(options.model.as_str());
        let origin = Origin::new(wire.api(), wire.provider.dialect.name, options.model.as_str());
        let driver = Driver::new(wire, Link::new(way));
        Ok(OpenAiChat { route: Arc::new(Route { driver, origin, options, at_vendor: vendor.is_some() }) })
    }
}

impl Model for OpenAiChat {
    fn facts(&self) -> ModelFacts {
        let OpenAiChatOptions { provider, model, window, .. } = &self.route.options;
        let window = window.or_else(|| self.route.listed_window());
        ModelFacts { name: format!("{provider}/{model}"), window }
    }

    fn respond(&self, request: ModelRequest) -> ReplyStream {
        let call = Call { route: Arc::clone(&self.route), state: State::Asked(request) };
        Box::pin(stream::unfold(call, |mut call| async move { call.next().await.map(|part| (part, call)) }))
    }
}

impl Route {
    fn listed_window(&self) -> Option<u64> {
        let dialect = self.driver.wire.provider.dialect.name;
        let listed = || Catalog::builtin().resolve(&format!("{dialect}/{}", self.options.model));
        let window = self.at_vendor.then(listed).flatten()?.context_window?;
        Some(u64::from(window))
    }

    fn open(&self, request: &ModelRequest) -> Result<CompletionStream, ModelError> {
        let mut history = convert::history(&request.messages, &self.origin);
        let Some(last) = history.pop() else {
            return Err(errors::plain(FailureReason::BadRequest, "the conversation is empty"));
        };
        let wanted = CompletionRequest::new(last).messages(history).tools(convert::tools(&request.tools));
        let wanted = wanted.max_tokens(self.options.limits.output_max_tokens);
        self.driver.stream(wanted).map_err(|error| self.failure(&error))
    }

    async fn finish(&self, stream: CompletionStream, mut ids: CallIds) -> Result<ReplyPart, ModelError> {
        let response = stream.finish().await.map_err(|error| self.failure(&error))?;
        let reply = reply::whole(response, &mut ids).map_err(|error| self.masked(error))?;
        let cost = if self.at_vendor { reply.cost } else { Cost::Unknown };
        Ok(ReplyPart::Done(Box::new(Reply { cost, ..reply })))
    }

    fn failure(&self, error: &ProviderError) -> ModelError {
        self.masked(errors::model_error(error))
    }

    /// A failure whose text cannot hold the key, whatever the provider wrote.
    fn masked(&self, error: ModelError) -> ModelError {
        match &self.options.key {
            Some(key) => ModelError { message: key.mask(&error.message), ..error },
            None => error,
        }
    }
}

/// One call while it is under way.
struct Call {
    route: Arc<Route>,
    state: State,
}

enum State {
    /// Nothing was sent.
    Asked(ModelRequest),
    /// Parts are coming in; the ids that the conversation had used before.
    Reading(Box<CompletionStream>, CallIds),
    /// There is nothing more.
    Ended,
}

impl Call {
    async fn next(&mut self) -> Option<Result<ReplyPart, ModelError>> {
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Asked(request) => match self.route.open(&request) {
                    Ok(stream) => {
                        self.state = State::Reading(Box::new(stream), CallIds::of(&request.messages))
                    }
                    Err(error) => return Some(Err(error)),
                },
                State::Reading(mut stream, ids) => match stream.next().await {
                    Some(Ok(item)) => {
                        self.state = State::Reading(stream, ids);
                        if let Some(part) = visible(item) {
                            return Some(Ok(part));
                        }
                    }
                    Some(Err(error)) => return Some(Err(self.route.failure(&error))),
                    None => return Some(self.route.finish(*stream, ids).await),
                },
                State::Ended => return None,
            }
        }
    }
}

/// The part of a reply that can be shown as it arrives.
fn visible(item: Item<StreamEvent>) -> Option<ReplyPart> {
    match item {
        Item::Event(StreamEvent::Text { text, .. }) => Some(ReplyPart::Text(text)),
        Item::Event(StreamEvent::Reasoning { text, .. }) if !text.is_empty() => {
            Some(ReplyPart::Thinking(text))
        }
        Item::Event(_) | Item::Unknown(_) => None,
    }
}

fn base_url(text: &str) -> Result<Url, RouteError> {
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

fn endpoint(base: &Url, vendor: Option<&Dialect>) -> Url {
    let path = vendor.map_or(PATH, |vendor| vendor.quirks.completion_path.trim_start_matches('/'));
    let mut endpoint = base.clone();
    endpoint.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    endpoint
}

fn authorization(key: &ApiKey) -> Result<HeaderValue, RouteError> {
    let mut value =
        HeaderValue::from_str(&format!("Bearer {}", key.expose())).map_err(|_| RouteError::Key)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The vendor whose own address this is, of those the library knows peculiarities of.
fn dialect_of(base: &Url) -> Option<&'static Dialect> {
    all().find(|dialect| Url::parse(dialect.base_url).is_ok_and(|vendor| vendor.origin() == base.origin()))
}

#[cfg(test)]
#[path = "openai_chat_tests.rs"]
mod tests;
