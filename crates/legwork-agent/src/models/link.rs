//! The way of a request to the provider and of its reply back: what the wire library hands over is sent, and the
//! frames of the answer are handed back. It owns every wait and every limit of size on the way; it does not know what
//! a request or a frame means, and it never tries again.

mod body;

use super::http::root_cause;
use super::overrides;
use super::remote::Protocol;
use body::{Frame, Reading};
use futures::stream::{self, Stream};
use legwork_core::report::NetworkFault;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, Url};
use rig_core::driver::{Exchange, Opened, Opening, Transport};
use rig_core::error::ProviderError;
use rig_core::http_client::framing::{Framing, WireFrame};
use rig_core::wire::{Body, Encoded, Wire};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;

/// Bytes of an error response that are read; the rest is not looked at.
const ERROR_BODY_MAX_BYTES: usize = 64 * 1024;

/// Headers of the library that go along: they say how the body is meant. No other one does, least of all one that
/// names the program or holds a key.
const MEANT: &[&str] = &["anthropic-version", "anthropic-beta"];

/// What went wrong on the way.
#[derive(Debug, Error)]
pub(super) enum Fault {
    /// There is no client to send with.
    #[error("{0}")]
    NoClient(String),
    /// No connection came about.
    #[error("{} {origin}: {cause}", NetworkFault::Unreachable.words())]
    Connect { origin: String, cause: String },
    /// The connection ended before an answer began.
    #[error("{origin} {}: {cause}", NetworkFault::Broken.words())]
    Broken { origin: String, cause: String },
    /// The connection ended in the midst of the answer.
    #[error("{}, the connection to {origin} ended: {cause}", NetworkFault::CutOff.words())]
    CutOff { origin: String, cause: String },
    /// Nothing came for too long.
    #[error("{origin} sent nothing for {} s", limit.as_secs_f64())]
    Silent { origin: String, limit: Duration },
    /// The reply is larger than allowed.
    #[error("the reply is larger than {limit} bytes")]
    TooLarge { limit: usize },
    /// The answer is an error response.
    #[error("HTTP {status}")]
    Status { status: u16, headers: Box<HeaderMap>, body: String },
    /// The answer is no stream of the kind that was asked for.
    #[error("the answer is of the type {content_type:?}, which is no stream of events")]
    NoStream { content_type: String, body: String },
}

/// A way to one provider. A clone shares it.
#[derive(Clone)]
pub(super) struct Link {
    inner: Arc<Way>,
}

/// What a way is made of. The key is bound to the address here and nowhere else.
pub(super) struct Way {
    pub client: Result<Client, String>,
    /// The address of the endpoint.
    pub endpoint: Url,
    /// The header that carries the key.
    pub key: Option<(HeaderName, HeaderValue)>,
    /// What is spoken there.
    pub protocol: Protocol,
    /// Fields that are laid over every request.
    pub overrides: Map<String, Value>,
    /// The longest silence that is borne, before the first byte and between two.
    pub idle_max: Duration,
    /// The largest reply, in bytes as it comes over the wire.
    pub reply_max_bytes: usize,
}

impl Link {
    pub fn new(way: Way) -> Self {
        Link { inner: Arc::new(way) }
    }
}

impl<W: Wire<Payload = Encoded, Frame = WireFrame>> Transport<W> for Link {
    fn send(&self, payload: Encoded, _exchange: Exchange) -> Opening<WireFrame> {
        let way = Arc::clone(&self.inner);
        Opening::new(async move { way.open(payload).await.map(Opened::new).map_err(in_library) })
    }
}

impl Way {
    /// Sends the request and waits for the head of the answer.
    async fn open(
        self: Arc<Self>,
        payload: Encoded,
    ) -> Result<impl Stream<Item = Frame> + Send + 'static, Fault> {
        let framing = payload.framing;
        let response = self.ask(payload).await?;
        let status = response.status();
        if status.as_u16() != 200 {
            let headers = Box::new(response.headers().clone());
            let body = self.error_body(response).await;
            return Err(Fault::Status { status: status.as_u16(), headers, body });
        }
        let content_type = content_type(response.headers());
        if !is_stream(framing, &content_type) {
            let body = self.error_body(response).await;
            return Err(Fault::NoStream { content_type, body });
        }
        Ok(self.frames(response, framing))
    }

    async fn ask(&self, payload: Encoded) -> Result<Response, Fault> {
        let client = self.client.as_ref().map_err(|cause| Fault::NoClient(cause.clone()))?;
        let (head, body) = payload.request.into_parts();
        let Body::Bytes(body) = body else {
            return Err(Fault::NoClient("only JSON requests can be sent".to_owned()));
        };
        let body = overrides::laid_over(body, &self.overrides);
        let request = self.dressed(client.post(self.endpoint.clone()), &head.headers).body(body);
        match timeout(self.idle_max, request.send()).await {
            Ok(sent) => sent.map_err(|error| self.fault(&error)),
            Err(_) => Err(self.silent()),
        }
    }

    /// The request with its headers.
    fn dressed(&self, request: RequestBuilder, of_library: &HeaderMap) -> RequestBuilder {
        let mut request = request.header(CONTENT_TYPE, "application/json");
        for name in MEANT {
            if let Some(value) = of_library.get(*name) {
                request = request.header(*name, value);
            }
        }
        match &self.key {
            Some((name, value)) => request.header(name, value.clone()),
            None => request,
        }
    }

    /// The beginning of an error response; what cannot be read is left out, since the status already says the most.
    async fn error_body(&self, response: Response) -> String {
        let (mut bytes, mut response) = (Vec::new(), response);
        while bytes.len() < ERROR_BODY_MAX_BYTES {
            let Ok(Ok(Some(chunk))) = timeout(self.idle_max, response.chunk()).await else { break };
            bytes.extend_from_slice(&chunk);
        }
        bytes.truncate(ERROR_BODY_MAX_BYTES);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn frames(
        self: Arc<Self>,
        response: Response,
        framing: Framing,
    ) -> impl Stream<Item = Frame> + Send + 'static {
        let reading = Reading::new(response, self, framing);
        stream::unfold(
            reading,
            |mut reading| async move { reading.next().await.map(|frame| (frame, reading)) },
        )
    }

    fn fault(&self, error: &reqwest::Error) -> Fault {
        let (origin, cause) = (self.origin(), root_cause(error));
        if error.is_connect() { Fault::Connect { origin, cause } } else { Fault::Broken { origin, cause } }
    }

    /// The same of a connection over which an answer was coming.
    fn cut_off(&self, error: &reqwest::Error) -> Fault {
        Fault::CutOff { origin: self.origin(), cause: root_cause(error) }
    }

    fn silent(&self) -> Fault {
        Fault::Silent { origin: self.origin(), limit: self.idle_max }
    }

    /// The address as messages name it: without path, query or credentials.
    fn origin(&self) -> String {
        self.endpoint.origin().ascii_serialization()
    }
}

fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.trim().to_ascii_lowercase()
}

/// Whether an answer of this type can be read in this framing. An answer without a type is tried.
fn is_stream(framing: Framing, content_type: &str) -> bool {
    match framing {
        Framing::Sse => content_type.is_empty() || content_type.starts_with("text/event-stream"),
        // Every line is a document of its own, and some servers name the stream after one of them.
        Framing::Ndjson | Framing::Whole => content_type.is_empty() || content_type.contains("json"),
    }
}

/// A fault in the form in which the library carries it to whoever reads the stream.
fn in_library(fault: Fault) -> ProviderError {
    ProviderError::Http(Arc::new(rig_core::http_client::Error::instance(fault)))
}

/// The fault that a library error carries, if it came from here.
pub(super) fn fault_in(error: &ProviderError) -> Option<&Fault> {
    let ProviderError::Http(error) = error else { return None };
    let rig_core::http_client::Error::Instance(inner) = error.as_ref() else { return None };
    inner.downcast_ref()
}
