//! The embedded model behind the port `Model`.
//!
//! Owns the translation between messages and the engine: which calls are due, the prompt, the reply as parts. It
//! keeps nothing between requests; the engine remembers by itself.

use crate::demand::{self, Made, Wish};
use crate::engine::{Ending, Engine, EngineError, Event, Replies, Request, Shape, Tally, WINDOW};
use crate::prompt::{self, Shown};
use futures::stream::{self, StreamExt};
use legwork_agent::models::{
    Model, ModelError, ModelFacts, ModelRequest, ReplyPart, ReplyStream, Spent, ToolSpec,
};
use legwork_core::message::{Author, Message, Part, ToolCall, ToolResult};
use legwork_core::report::{Cost, FailureReason, Usage};
use legwork_core::step::{Finish, Reply};
use serde_json::Value;
use std::sync::Arc;

/// The route's name for people and records.
pub const NAME: &str = "local/smollm2-135m";

/// Tokens after which an answer ends with its sentence.
const ANSWER_WANTED: usize = 50;
/// Tokens of an answer at most.
const ANSWER_MAX: usize = 120;
/// Tokens of a call at most; its schema is bounded so that every call ends before.
const CALL_MAX: usize = 1000;

/// The embedded model. Cheap to clone; all clones share one engine.
#[derive(Clone)]
pub struct LocalModel {
    engine: Engine,
}

impl LocalModel {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }
}

impl Model for LocalModel {
    fn facts(&self) -> ModelFacts {
        ModelFacts { name: NAME.to_owned(), window: Some(WINDOW as u64) }
    }

    /// Its prompt shows of goal and results what fits.
    fn cuts_to_fit(&self) -> bool {
        true
    }

    fn takes_images(&self) -> bool {
        false
    }

    fn respond(&self, request: ModelRequest) -> ReplyStream {
        let engine = self.engine.clone();
        let stage = Stage::Waiting(request);
        Box::pin(
            stream::unfold((engine, stage), |(engine, stage)| async move {
                let (part, stage) = stage.next(&engine).await?;
                Some((part, (engine, stage)))
            })
            .fuse(),
        )
    }
}

/// Where a reply stands. Dropping it cancels the request.
enum Stage {
    Waiting(ModelRequest),
    Running(Running),
    Over,
}

struct Running {
    replies: Replies,
    /// What the reply said so far.
    text: String,
    expected: Expected,
}

/// What the reply is going to be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    /// A call that gets this id.
    Call(String),
    Answer,
}

type Step = (Result<ReplyPart, ModelError>, Stage);

impl Stage {
    async fn next(self, engine: &Engine) -> Option<Step> {
        let mut running = match self {
            Self::Waiting(request) => match start(engine, &request).await {
                Ok(running) => running,
                Err(error) => return Some((Err(error), Self::Over)),
            },
            Self::Running(running) => running,
            Self::Over => return None,
        };
        loop {
            match running.replies.next().await {
                Some(Event::Text(piece)) => {
                    running.text.push_str(&piece);
                    if running.expected == Expected::Answer {
                        return Some((Ok(ReplyPart::Text(piece)), Self::Running(running)));
                    }
                }
                Some(Event::Done(tally)) => return Some((running.done(tally), Self::Over)),
                Some(Event::Failed(error)) => return Some((Err(model_error(&error)), Self::Over)),
                None => return Some((Err(model_error(&EngineError::Stopped)), Self::Over)),
            }
        }
    }
}

impl Running {
    fn done(self, tally: Tally) -> Result<ReplyPart, ModelError> {
        let (part, finish) = match (self.expected, tally.ending) {
            (Expected::Answer, Ending::Complete) => (Part::Text { text: self.text }, Finish::Stop),
            (Expected::Answer, Ending::Limit) => (Part::Text { text: self.text }, Finish::Length),
            (Expected::Call(id), Ending::Complete | Ending::Limit) => {
                (Part::Call(read_call(id, &self.text)?), Finish::ToolUse)
            }
        };
        let usage = Usage {
            input: tally.prompt as u64,
            output: tally.reply as u64,
            cached: tally.remembered as u64,
            reasoning: 0,
        };
        let message = Message { author: Author::Assistant, parts: vec![part] };
        let model = Some(NAME.to_owned());
        let reply = Reply { message, usage, cost: Cost::MicroUsd(0), model, finish };
        Ok(ReplyPart::Done(Box::new(reply)))
    }
}

async fn start(engine: &Engine, request: &ModelRequest) -> Result<Running, ModelError> {
    let turn = Turn::of(request)?;
    let wishes = turn.wishes();
    let due = demand::due(&wishes, turn.tools, &turn.made());
    let (request, expected) = if due.is_empty() {
        (turn.answer(engine), Expected::Answer)
    } else {
        (turn.call(&due, engine), Expected::Call(turn.next_id()))
    };
    let replies = engine.ask(request).await.map_err(|error| model_error(&error))?;
    Ok(Running { replies, text: String::new(), expected })
}

/// The last thing that was asked, and what has been done about it.
struct Turn<'a> {
    goal: String,
    /// Only a person's words demand calls; a subagent's report does not.
    demanding: bool,
    tools: &'a [ToolSpec],
    calls: Vec<&'a ToolCall>,
    results: Vec<&'a ToolResult>,
    /// Calls of the whole conversation.
    calls_before: usize,
}

impl<'a> Turn<'a> {
    fn of(request: &'a ModelRequest) -> Result<Self, ModelError> {
        let messages: &[Arc<Message>] = &request.messages;
        let asks = |message: &Arc<Message>| matches!(message.author, Author::User | Author::Completion);
        let Some(start) = messages.iter().rposition(asks) else {
            return Err(refused(
                FailureReason::BadRequest,
                "the conversation holds no message of a user".to_owned(),
            ));
        };
        let since = &messages[start..];
        let results = since.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
            Part::Result(result) => Some(result),
            Part::Text { .. }
            | Part::Reasoning { .. }
            | Part::Call(_)
            | Part::Image(_)
            | Part::Summary(_) => None,
        });
        Ok(Self {
            goal: messages[start].plain_text(),
            demanding: messages[start].author == Author::User,
            tools: &request.tools,
            calls: since.iter().flat_map(|message| message.calls()).collect(),
            results: results.collect(),
            calls_before: messages.iter().map(|message| message.calls().count()).sum(),
        })
    }

    fn wishes(&self) -> Vec<Wish> {
        if self.demanding { demand::wishes(&self.goal, self.tools) } else { Vec::new() }
    }

    fn made(&self) -> Vec<Made<'_>> {
        self.calls.iter().map(|call| Made { tool: &call.name, arguments: &call.arguments }).collect()
    }

    fn next_id(&self) -> String {
        format!("call_{}", self.calls_before + 1)
    }

    fn call(&self, due: &[&Wish], engine: &Engine) -> Request {
        let named =
            self.tools.iter().enumerate().filter(|(place, _)| due.iter().any(|wish| wish.tool == *place));
        let named: Vec<&ToolSpec> = named.map(|(_, tool)| tool).collect();
        Request {
            prompt: prompt::asking_for_call(&self.goal, &named, engine.vocabulary()),
            shape: Shape::Json(demand::schema(due, self.tools)),
            tokens_wanted: CALL_MAX,
            tokens_max: CALL_MAX,
        }
    }

    fn answer(&self, engine: &Engine) -> Request {
        let titles: Vec<String> = self.results.iter().map(|result| self.title(result)).collect();
        let shown = titles.iter().zip(&self.results);
        let shown: Vec<Shown<'_>> =
            shown.map(|(title, result)| Shown { title, text: &result.content }).collect();
        Request {
            prompt: prompt::asking_for_answer(&self.goal, &shown, engine.vocabulary()),
            shape: Shape::Text,
            tokens_wanted: ANSWER_WANTED,
            tokens_max: ANSWER_MAX,
        }
    }

    /// What a result is the result of: what the call pointed at, or else the tool.
    fn title(&self, result: &ToolResult) -> String {
        let call = self.calls.iter().find(|call| call.id == result.call_id);
        let Some(call) = call else { return "result".to_owned() };
        let first = call
            .arguments
            .as_object()
            .and_then(|arguments| arguments.values().next())
            .and_then(Value::as_str);
        let title = first.unwrap_or(&call.name);
        if result.is_error { format!("{title} failed") } else { title.to_owned() }
    }
}

fn read_call(id: String, text: &str) -> Result<ToolCall, ModelError> {
    let whole: Option<Value> = serde_json::from_str(text).ok();
    let call = whole.as_ref().and_then(|call| Some((call["tool"].as_str()?, call.get("arguments")?)));
    match call {
        Some((name, arguments)) => {
            Ok(ToolCall { id, name: name.to_owned(), arguments: arguments.clone(), malformed: None })
        }
        None => Err(refused(
            FailureReason::ServerError,
            "the embedded model did not finish its tool call; ask for less in one goal".to_owned(),
        )),
    }
}

fn model_error(error: &EngineError) -> ModelError {
    let reason = match error {
        EngineError::Window { .. } => FailureReason::ContextOverflow,
        EngineError::Grammar(_) => FailureReason::BadRequest,
        EngineError::Read(_)
        | EngineError::Unsupported(_)
        | EngineError::Shape { .. }
        | EngineError::Stopped => FailureReason::ServerError,
    };
    refused(reason, error.to_string())
}

/// Asking the same again would give the same, so nothing is retried.
fn refused(reason: FailureReason, message: String) -> ModelError {
    ModelError { reason, message, retryable: false, retry_after: None, spent: Spent::default() }
}

#[cfg(test)]
#[path = "adapter_tests.rs"]
mod tests;
