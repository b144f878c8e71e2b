//! A model that answers from a script and remembers what it was asked.

use super::tool::Dropped;
use futures::{FutureExt, StreamExt, stream};
use legwork_agent::models::{Model, ModelError, ModelFacts, ModelRequest, ReplyPart, ReplyStream, Spent};
use legwork_core::message::{Author, Message, Part, ToolCall};
use legwork_core::report::{Cost, FailureReason, Usage};
use legwork_core::step::{Finish, Reply};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// What the model does when it is asked.
pub enum Say {
    /// It answers.
    Text(&'static str),
    /// It calls tools, after some text.
    Calls(&'static str, Vec<ToolCall>),
    /// It fails after some text.
    Fail(&'static str, ModelError),
    /// It says some text and then nothing any more; the mark tells whether it was dropped.
    Hang(&'static str, Dropped),
    /// It sends exactly these parts.
    Parts(Vec<Result<ReplyPart, ModelError>>),
}

pub struct FakeModel {
    name: &'static str,
    script: Mutex<VecDeque<Say>>,
    requests: Mutex<Vec<ModelRequest>>,
    window: Option<u64>,
    usage: Usage,
    asked: Box<dyn Fn() + Send + Sync>,
}

impl FakeModel {
    pub fn new(script: impl IntoIterator<Item = Say>) -> Arc<Self> {
        Arc::new(Self::bare(script))
    }

    /// A model that tells its window and counts only the tokens that it says.
    pub fn with_window(window: u64, script: impl IntoIterator<Item = Say>) -> Arc<Self> {
        let usage = Usage { output: 2, ..Usage::default() };
        Arc::new(FakeModel { window: Some(window), usage, ..Self::bare(script) })
    }

    /// `asked` runs whenever the model is asked.
    pub fn heard(
        script: impl IntoIterator<Item = Say>,
        asked: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(FakeModel { asked: Box::new(asked), ..Self::bare(script) })
    }

    /// A model of that name.
    pub fn named(name: &'static str, script: impl IntoIterator<Item = Say>) -> Arc<Self> {
        Arc::new(FakeModel { name, ..Self::bare(script) })
    }

    fn bare(script: impl IntoIterator<Item = Say>) -> Self {
        let script = Mutex::new(script.into_iter().collect());
        let usage = Usage { input: 10, output: 2, cached: 4, reasoning: 1 };
        let name = "fake/model";
        FakeModel { name, script, requests: Mutex::default(), window: None, usage, asked: Box::new(|| ()) }
    }

    pub fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().expect("no holder panics").clone()
    }

    pub fn calls(&self) -> usize {
        self.requests.lock().expect("no holder panics").len()
    }
}

impl FakeModel {
    fn reply(&self, text: &str, calls: Vec<ToolCall>) -> ReplyPart {
        let text = (!text.is_empty()).then(|| Part::Text { text: text.to_owned() });
        let finish = if calls.is_empty() { Finish::Stop } else { Finish::ToolUse };
        let parts = text.into_iter().chain(calls.into_iter().map(Part::Call)).collect();
        ReplyPart::Done(Box::new(Reply {
            message: Message { author: Author::Assistant, parts },
            usage: self.usage,
            cost: Cost::MicroUsd(7),
            model: Some("fake-model-1".to_owned()),
            finish,
        }))
    }
}

impl Model for FakeModel {
    fn facts(&self) -> ModelFacts {
        ModelFacts { name: self.name.to_owned(), window: self.window }
    }

    fn respond(&self, request: ModelRequest) -> ReplyStream {
        (self.asked)();
        self.requests.lock().expect("no holder panics").push(request);
        let say = self
            .script
            .lock()
            .expect("no holder panics")
            .pop_front()
            .expect("the script has an answer for every request");
        match say {
            Say::Text(text) => parts(text, Ok(self.reply(text, Vec::new()))),
            Say::Calls(text, calls) => parts(text, Ok(self.reply(text, calls))),
            Say::Fail(text, error) => parts(text, Err(error)),
            Say::Hang(text, dropped) => {
                let held = async move {
                    let _dropped = dropped;
                    std::future::pending().await
                };
                Box::pin(stream::iter(text_part(text)).chain(held.into_stream()))
            }
            Say::Parts(parts) => Box::pin(stream::iter(parts)),
        }
    }
}

fn parts(text: &'static str, end: Result<ReplyPart, ModelError>) -> ReplyStream {
    Box::pin(stream::iter(text_part(text).into_iter().chain([end])))
}

fn text_part(text: &'static str) -> Option<Result<ReplyPart, ModelError>> {
    (!text.is_empty()).then(|| Ok(ReplyPart::Text(text.to_owned())))
}

/// A tool call.
pub fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments, malformed: None }
}

/// A provider's failure.
pub fn failure(reason: FailureReason, message: &str) -> ModelError {
    ModelError {
        reason,
        message: message.to_owned(),
        retryable: false,
        retry_after: None,
        spent: Spent::default(),
    }
}
