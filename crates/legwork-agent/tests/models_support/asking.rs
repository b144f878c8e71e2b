//! What the tests of models share: a model at a server, a request, a whole reply.
#![allow(dead_code, reason = "each test file uses a part of it")]

use futures::StreamExt;
use legwork_agent::models::Model;
use legwork_agent::models::{
    ApiKey, CallLimits, ModelError, ModelRequest, Protocol, Proxies, RemoteModel, RemoteOptions, ReplyPart,
    ReplyStream, SharedHttp, ToolSpec,
};
use legwork_core::message::{Author, Message, Part, ToolResult};
use legwork_core::step::Reply;
use legwork_testkit::server::ScriptedServer;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How long a test waits for what must come before it fails.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// The key that every test sends.
pub const KEY: &str = "sk-test-key";

pub fn options(base_url: &str) -> RemoteOptions {
    RemoteOptions {
        protocol: Protocol::ChatCompletions,
        provider: "openai-compatible".into(),
        base_url: base_url.into(),
        key: ApiKey::new(KEY),
        model: "test-model".into(),
        window: None,
        effort: None,
        overrides: serde_json::Map::new(),
        limits: CallLimits::default(),
    }
}

/// A route that speaks this protocol.
pub fn spoken(protocol: Protocol, base_url: &str) -> RemoteOptions {
    RemoteOptions { protocol, ..options(base_url) }
}

pub fn model(options: RemoteOptions) -> RemoteModel {
    RemoteModel::new(options, &SharedHttp::new(Proxies::default())).expect("a route")
}

pub fn model_at(server: &ScriptedServer) -> RemoteModel {
    model(options(&server.base_url()))
}

pub fn named(server: &ScriptedServer, name: &str) -> RemoteModel {
    model(RemoteOptions { model: name.into(), ..options(&server.base_url()) })
}

pub fn without_key(base_url: &str) -> RemoteModel {
    model(RemoteOptions { key: None, ..options(base_url) })
}

pub fn with_limits(base_url: &str, limits: CallLimits) -> RemoteModel {
    model(RemoteOptions { limits, ..options(base_url) })
}

/// A conversation of a system message and this one, with one tool.
pub fn request(text: &str) -> ModelRequest {
    let tool = ToolSpec {
        name: "read_file".into(),
        description: "Reads a file.".into(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    };
    let messages = vec![
        Arc::new(Message::text(Author::System, "You are a test.")),
        Arc::new(Message::text(Author::User, text)),
    ];
    ModelRequest { messages, tools: Arc::from([tool]) }
}

/// The conversation with this reply and a result of this content for each of its calls.
pub fn answered(mut request: ModelRequest, reply: Message, content: &str) -> ModelRequest {
    let result = |id: &String| {
        let result = ToolResult { call_id: id.clone(), content: content.to_owned(), is_error: false };
        Arc::new(Message { author: Author::Tool, parts: vec![Part::Result(result)] })
    };
    let ids: Vec<String> = reply.calls().map(|call| call.id.clone()).collect();
    request.messages.push(Arc::new(reply));
    request.messages.extend(ids.iter().map(result));
    request
}

/// All parts before the end, and the end.
pub async fn ask(model: &RemoteModel, request: ModelRequest) -> (Vec<ReplyPart>, Result<Reply, ModelError>) {
    let mut stream = model.respond(request);
    let mut parts = Vec::new();
    loop {
        match next(&mut stream).await.expect("a stream ends with a reply or an error") {
            Ok(ReplyPart::Done(reply)) => {
                assert!(next(&mut stream).await.is_none(), "the stream goes on after its end");
                return (parts, Ok(*reply));
            }
            Ok(part @ (ReplyPart::Text(_) | ReplyPart::Thinking(_) | ReplyPart::Moved)) => parts.push(part),
            Err(error) => {
                assert!(next(&mut stream).await.is_none(), "the stream goes on after an error");
                return (parts, Err(error));
            }
        }
    }
}

/// The error of a call that must fail.
pub async fn failure(model: &RemoteModel) -> ModelError {
    ask(model, request("hi")).await.1.expect_err("the call must fail")
}

pub async fn next(stream: &mut ReplyStream) -> Option<Result<ReplyPart, ModelError>> {
    tokio::time::timeout(PATIENCE, stream.next()).await.expect("the stream hangs")
}

pub async fn rest(stream: &mut ReplyStream) -> Vec<Result<ReplyPart, ModelError>> {
    let mut parts = Vec::new();
    while let Some(part) = next(stream).await {
        parts.push(part);
    }
    parts
}

/// All pieces of reasoning, joined.
pub fn thought(parts: &[ReplyPart]) -> String {
    let pieces = parts.iter().filter_map(|part| match part {
        ReplyPart::Thinking(text) => Some(text.as_str()),
        ReplyPart::Text(_) | ReplyPart::Moved | ReplyPart::Done(_) => None,
    });
    pieces.collect()
}

/// All pieces of visible text, joined.
pub fn said(parts: &[ReplyPart]) -> String {
    let pieces = parts.iter().filter_map(|part| match part {
        ReplyPart::Text(text) => Some(text.as_str()),
        ReplyPart::Thinking(_) | ReplyPart::Moved | ReplyPart::Done(_) => None,
    });
    pieces.collect()
}

pub fn text_of(part: &ReplyPart) -> &str {
    match part {
        ReplyPart::Text(text) => text,
        ReplyPart::Thinking(_) | ReplyPart::Moved | ReplyPart::Done(_) => {
            panic!("a piece of text was expected, not {part:?}")
        }
    }
}
