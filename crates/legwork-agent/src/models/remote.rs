//! A model behind an address: one adapter of the port [`Model`] for every protocol that providers speak.
//!
//! It owns one route: address, key and model, bound together for good. The wire formats are a library's and none of its
//! types leave this crate; sending is `link`'s, the meaning of failures `errors`', what differs between protocols
//! `protocol`'s and `wires`'.

mod nesting;
mod options;
mod protocol;
mod wires;

use super::call_ids::CallIds;
use super::carried::Thinker;
use super::http::SharedHttp;
use super::link::{Link, Way};
use super::port::{Model, ModelError, ModelFacts, ModelRequest, ReplyPart, ReplyStream, Spent};
use super::{convert, errors, reply};
use futures::StreamExt;
use futures::stream;
use legwork_core::report::{Cost, FailureReason};
use legwork_core::step::Reply;
use rig_core::completion::{CompletionRequest, CompletionResponse, Reasoning};
use rig_core::error::ProviderError;
use rig_core::streaming::{CompletionStream, Item, PartKind, StreamEvent};
use std::sync::{Arc, OnceLock};
use tracing::dispatcher::{Dispatch, with_default};
use tracing::instrument::{WithDispatch, WithSubscriber};

use nesting::Nesting;
use options::base_url;
pub use options::{CallLimits, RemoteOptions, RouteError};
pub use protocol::Protocol;
use wires::{Wired, listed_window, wired};

/// Providers whose models take pictures.
const SEEING: [&str; 3] = ["openai", "anthropic", "gemini"];

/// A model behind an address. A clone shares everything.
#[derive(Clone)]
pub struct RemoteModel {
    route: Arc<Route>,
}

struct Route {
    wired: Wired,
    /// The model to which its own reasoning goes back.
    thinker: Thinker,
    options: RemoteOptions,
    /// How this model is told how hard to think, once that is found out; nothing where it takes no word about it.
    way_to_think: OnceLock<Option<Reasoning>>,
}

impl RemoteModel {
    /// A route over the shared clients. Nothing is sent, opened or read from disk, except that an `https` address
    /// loads the certificates that the system trusts.
    ///
    /// # Errors
    /// When the address, the key or the model cannot be used; no request was made then.
    pub fn new(options: RemoteOptions, http: &SharedHttp) -> Result<Self, RouteError> {
        let base = base_url(&options.base_url)?;
        if options.model.trim().is_empty() {
            return Err(RouteError::Model(options.provider));
        }
        let protocol = options.protocol;
        let way = Way {
            client: http.client_for(&base),
            endpoint: protocol.endpoint(&base, &options.model),
            key: options.key.as_ref().map(|key| protocol.key_header(key)).transpose()?,
            protocol,
            overrides: options.overrides.clone(),
            idle_max: options.limits.idle_max,
            reply_max_bytes: options.limits.reply_max_bytes,
        };
        let wired = wired(&options, &base, Link::new(way));
        let thinker = Thinker::new(wired.origin.clone(), &base);
        let way_to_think = OnceLock::new();
        Ok(RemoteModel { route: Arc::new(Route { wired, thinker, options, way_to_think }) })
    }
}

impl Model for RemoteModel {
    fn facts(&self) -> ModelFacts {
        let RemoteOptions { provider, model, window, .. } = &self.route.options;
        let window = window.or_else(|| self.route.listed_window());
        ModelFacts { name: format!("{provider}/{model}"), window }
    }

    /// Of the models that anybody may serve, only some take pictures, and they do not say.
    fn takes_images(&self) -> bool {
        SEEING.contains(&self.route.options.provider.as_str())
    }

    fn respond(&self, request: ModelRequest) -> ReplyStream {
        let call = Call { route: Arc::clone(&self.route), state: State::Asked(request) };
        Box::pin(stream::unfold(call, |mut call| async move { call.next().await.map(|part| (part, call)) }))
    }
}

impl Route {
    fn listed_window(&self) -> Option<u64> {
        self.wired.at_vendor.then(|| listed_window(&self.wired.origin)).flatten()
    }

    fn open(&self, request: &ModelRequest) -> Result<CompletionStream, ModelError> {
        let mut history = convert::history(&request.messages, &self.thinker);
        let Some(last) = history.pop() else {
            return Err(errors::plain(FailureReason::BadRequest, "the conversation is empty"));
        };
        let wanted = CompletionRequest::new(last).messages(history).tools(convert::tools(&request.tools));
        let wanted = wanted.max_tokens(self.options.limits.output_max_tokens);
        let wanted = match &self.wired.fields {
            Some(fields) => wanted.additional_params(fields.clone()),
            None => wanted,
        };
        with_default(&Dispatch::none(), || self.open_thinking(wanted))
    }

    /// Opens the stream with the configured effort, said as this model takes it. Nothing is sent by a try that is refused:
    /// the library knows what a model takes.
    fn open_thinking(&self, wanted: CompletionRequest) -> Result<CompletionStream, ModelError> {
        let open = |wanted: CompletionRequest, way| {
            let stream = self.wired.model.stream(thinking(wanted, way));
            stream.map_err(|error| self.failure(&error))
        };
        let Some(effort) = self.options.effort else { return open(wanted, None) };
        if let Some(way) = self.way_to_think.get() {
            return open(wanted, *way);
        }
        let ways = effort.ways().into_iter().map(Some).chain([None]);
        let mut refused = None;
        for way in ways {
            match open(wanted.clone(), way) {
                Ok(stream) => {
                    self.way_to_think.get_or_init(|| way);
                    return Ok(stream);
                }
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.expect("at least one way is tried"))
    }

    async fn finish(&self, stream: CompletionStream, mut ids: CallIds) -> Result<ReplyPart, ModelError> {
        let response = unheard(stream.finish()).await.map_err(|error| self.failure(&error))?;
        let spent = self.spent(&response);
        let reply = reply::whole(response, &self.thinker, &mut ids);
        let reply = reply.map_err(|error| ModelError { spent, ..self.masked(error) })?;
        let cost = if self.wired.at_vendor { reply.cost } else { Cost::Unknown };
        Ok(ReplyPart::Done(Box::new(Reply { cost, ..reply })))
    }

    /// What a reply ends with that an error ended: the error, or, where it only says that a call cannot be read, what had
    /// been said and that call.
    fn end(
        &self,
        stream: &CompletionStream,
        ids: CallIds,
        error: &ProviderError,
    ) -> Result<ReplyPart, ModelError> {
        let error = self.failure(error);
        let Some(text) = errors::unreadable_call(&error) else {
            return Err(ModelError { spent: self.spent(&stream.partial()), ..error });
        };
        Ok(self.end_at(stream, ids, text.to_owned()))
    }

    /// What a reply ends with whose call nests too deep to be read: what had been said, and that call.
    fn end_at(&self, stream: &CompletionStream, mut ids: CallIds, text: String) -> ReplyPart {
        let reply = reply::with_unreadable_call(stream.partial(), text, &self.thinker, &mut ids);
        ReplyPart::Done(Box::new(Reply { cost: Cost::Unknown, ..reply }))
    }

    /// What a response took that is no reply.
    fn spent(&self, response: &CompletionResponse) -> Spent {
        let spent = reply::spent(response);
        if self.wired.at_vendor { spent } else { Spent { cost: Cost::Unknown, ..spent } }
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

fn thinking(wanted: CompletionRequest, way: Option<Reasoning>) -> CompletionRequest {
    match way {
        Some(way) => wanted.reasoning(way),
        None => wanted,
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
    Reading(Box<CompletionStream>, CallIds, Nesting),
    /// There is nothing more.
    Ended,
}

impl Call {
    async fn next(&mut self) -> Option<Result<ReplyPart, ModelError>> {
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Asked(request) => match self.route.open(&request) {
                    Ok(stream) => {
                        let ids = CallIds::of(&request.messages);
                        self.state = State::Reading(Box::new(stream), ids, Nesting::default());
                    }
                    Err(error) => return Some(Err(error)),
                },
                State::Reading(mut stream, ids, mut nesting) => match unheard(stream.next()).await {
                    Some(Ok(item)) => {
                        if let Some(text) = nesting.too_deep(&item) {
                            return Some(Ok(self.route.end_at(&stream, ids, text)));
                        }
                        self.state = State::Reading(stream, ids, nesting);
                        if let Some(part) = part_of(item) {
                            return Some(Ok(part));
                        }
                    }
                    Some(Err(error)) => return Some(self.route.end(&stream, ids, &error)),
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

/// What of an event can be shown as it arrives, or counts as a sign of life.
fn part_of(item: Item<StreamEvent>) -> Option<ReplyPart> {
    match item {
        Item::Event(StreamEvent::Text { text, .. }) => Some(ReplyPart::Text(text)),
        Item::Event(StreamEvent::Reasoning { text, .. }) if !text.is_empty() => {
            Some(ReplyPart::Thinking(text))
        }
        Item::Event(StreamEvent::Start { kind: PartKind::ToolCall, .. } | StreamEvent::Arguments { .. }) => {
            Some(ReplyPart::Moved)
        }
        Item::Event(_) | Item::Unknown(_) => None,
    }
}

#[cfg(test)]
mod tests;
