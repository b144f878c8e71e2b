//! Plays a script as a [`Model`].

use super::file::{Script, Step};
use super::fill::Filling;
use crate::models::call_ids::CallIds;
use crate::models::errors;
use crate::models::port::{Model, ModelError, ModelFacts, ModelRequest, ReplyPart, ReplyStream};
use futures::StreamExt;
use futures::stream;
use legwork_core::message::{Author, Message, Part, ToolCall};
use legwork_core::report::{Cost, FailureReason, Usage};
use legwork_core::step::{Finish, Reply};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Bytes that are counted as one token where a step says nothing about its usage.
const BYTES_PER_TOKEN: usize = 4;

/// A model that says what its script says. A clone shares the script.
#[derive(Debug, Clone)]
pub struct Scripted {
    name: Arc<str>,
    script: Arc<Script>,
}

impl Scripted {
    /// A model of this name, which is what comes after `scripted/`.
    pub fn new(name: &str, script: Script) -> Self {
        Scripted { name: Arc::from(name), script: Arc::new(script) }
    }

    /// The delay before the reply to this conversation, and its parts.
    fn reply(&self, request: &ModelRequest) -> Result<(Duration, Vec<ReplyPart>), ModelError> {
        let filling = Filling::of(&request.messages);
        let step = self.step(&filling, request)?;
        let message = message(step, &filling, &request.messages).map_err(wrong)?;
        let usage = step.usage.map_or_else(
            || guess(&request.messages, &message),
            |counts| Usage {
                input: counts.input,
                output: counts.output,
                cached: counts.cached,
                reasoning: counts.reasoning,
            },
        );
        let mut parts: Vec<_> = message.parts.iter().flat_map(pieces).collect();
        let finish = if step.calls.is_empty() { Finish::Stop } else { Finish::ToolUse };
        let model = Some(self.name.to_string());
        let reply = Reply { message, usage, cost: Cost::Unknown, model, finish };
        parts.push(ReplyPart::Done(Box::new(reply)));
        Ok((step.delay, parts))
    }

    fn step(&self, filling: &Filling<'_>, request: &ModelRequest) -> Result<&Step, ModelError> {
        let steps = self.script.steps(filling.goal);
        let after_first_user = request.messages.iter().skip_while(|message| message.author != Author::User);
        let number = after_first_user.filter(|message| message.author == Author::Assistant).count();
        steps.get(number).ok_or_else(|| {
            let known = format!("its {} steps are used up", steps.len());
            let why = if steps.is_empty() {
                "no marker matches and there is no [default]".to_owned()
            } else {
                known
            };
            wrong(format!("the script has no reply number {} for this conversation: {why}", number + 1))
        })
    }
}

impl Model for Scripted {
    fn facts(&self) -> ModelFacts {
        ModelFacts { name: format!("scripted/{}", self.name), window: None }
    }

    fn respond(&self, request: ModelRequest) -> ReplyStream {
        let model = self.clone();
        let reply = async move {
            let (delay, parts) = match model.reply(&request) {
                Ok((delay, parts)) => (delay, parts.into_iter().map(Ok).collect()),
                Err(error) => (Duration::ZERO, vec![Err(error)]),
            };
            // Deadline: the delay that the script asks for.
            sleep(delay).await;
            stream::iter(parts)
        };
        Box::pin(stream::once(reply).flatten())
    }
}

fn wrong(message: String) -> ModelError {
    errors::plain(FailureReason::BadRequest, message)
}

fn message(step: &Step, filling: &Filling<'_>, so_far: &[Arc<Message>]) -> Result<Message, String> {
    let mut parts = Vec::new();
    if let Some(think) = &step.think {
        parts.push(Part::Reasoning { text: filling.fill(think)?, opaque: None });
    }
    if let Some(say) = &step.say {
        parts.push(Part::Text { text: filling.fill(say)? });
    }
    let mut ids = CallIds::of(so_far);
    for call in &step.calls {
        let arguments = Value::Object(filling.fill_fields(&call.arguments)?);
        // A random part would make two runs of one script differ; the number alone is unique in the conversation.
        let id = ids.next(None, || 0);
        parts.push(Part::Call(ToolCall { id, name: call.tool.clone(), arguments, malformed: None }));
    }
    Ok(Message { author: Author::Assistant, parts })
}

/// A part as it arrives: texts word by word.
fn pieces(part: &Part) -> Vec<ReplyPart> {
    let words = |text: &str| text.split_inclusive(char::is_whitespace).map(str::to_owned).collect::<Vec<_>>();
    match part {
        Part::Text { text } => words(text).into_iter().map(ReplyPart::Text).collect(),
        Part::Reasoning { text, .. } => words(text).into_iter().map(ReplyPart::Thinking).collect(),
        Part::Call(_) | Part::Result(_) | Part::Image(_) | Part::Summary(_) => Vec::new(),
    }
}

/// Tokens by the rule of thumb, the same for the same conversation.
fn guess(so_far: &[Arc<Message>], reply: &Message) -> Usage {
    let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX);
    let input = so_far.iter().map(|message| bytes(message)).sum();
    Usage { input: tokens(input), output: tokens(bytes(reply)), ..Usage::default() }
}

fn bytes(message: &Message) -> usize {
    let part = |part: &Part| match part {
        Part::Text { text } | Part::Reasoning { text, .. } => text.len(),
        Part::Call(call) => call.name.len() + call.arguments.to_string().len(),
        Part::Result(result) => result.content.len(),
        Part::Summary(summary) => summary.text.len(),
        // What a picture costs is not a matter of its bytes, and a script does not look at it.
        Part::Image(_) => 0,
    };
    message.parts.iter().map(part).sum()
}
