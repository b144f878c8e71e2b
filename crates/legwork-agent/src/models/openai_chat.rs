//! OpenAI chat completions behind the port [`Model`], for the vendor and for every server that speaks the same.
//!
//! It owns one route: address, key and model, bound together for good. The wire format is a library's and none of its
//! types leave this crate; sending is `link`'s, the meaning of failures `errors`'.

mod options;

use super::call_ids::CallIds;
use super::http::SharedHttp;
use super::link::{Link, Way};
use super::port::{Model, ModelError, ModelFacts, ModelRequest, ReplyPart, ReplyStream};
use super::{convert, errors, reply};
use futures::StreamExt;
use futures::stream;
use legwork_core::report::{Cost, FailureReason};
use legwork_core::step::Reply;
use rig_core::catalog::Catalog;
use rig_core::completion::{CompletionRequest, ReplayTarget};
use rig_core::driver::Model as Driver;
use rig_core::error::ProviderError;
use rig_core::message::Origin;
use rig_core::providers::openai::OpenAIConfig;
use rig_core::providers::openai::wire::{Chat, OPENAI};
use rig_core::streaming::{CompletionStream, Item, StreamEvent};
use std::sync::Arc;
use tracing::dispatcher::{Dispatch, with_default};
use tracing::instrument::{WithDispatch, WithSubscriber};

pub use options::{CallLimits, OpenAiChatOptions, RouteError};
use options::{authorization, base_url, dialect_of, endpoint};

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
            endpoint: endpoint(&base),
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
        let open = || self.driver.stream(wanted).map_err(|error| self.failure(&error));
        with_default(&Dispatch::none(), open)
    }

    async fn finish(&self, stream: CompletionStream, mut ids: CallIds) -> Result<ReplyPart, ModelError> {
        let response = unheard(stream.finish()).await.map_err(|error| self.failure(&error))?;
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
                State::Reading(mut stream, ids) => match unheard(stream.next()).await {
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

/// Runs the library without its log: it would repeat there what the provider wrote, before a key in it is masked.
fn unheard<F: Future>(future: F) -> WithDispatch<F> {
    future.with_subscriber(Dispatch::none())
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

#[cfg(test)]
mod tests;
