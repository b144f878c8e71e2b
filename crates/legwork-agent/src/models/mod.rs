//! Port [`Model`] and its adapters.

mod call_ids;
mod convert;
mod errors;
mod frames;
mod http;
mod key;
mod link;
mod openai_chat;
mod port;
mod reply;
mod retry;
mod retry_after;
mod scripted;
mod unicode;
mod words;

pub use http::{Proxies, SharedHttp};
pub use key::ApiKey;
pub use openai_chat::{CallLimits, OpenAiChat, OpenAiChatOptions, RouteError};
pub use port::{Model, ModelError, ModelFacts, ModelRequest, ReplyPart, ReplyStream, ToolSpec};
pub use retry::{Heard, HeardStream, RetryPolicy, Retrying, ask};
pub use scripted::{Script, ScriptError, Scripted};
