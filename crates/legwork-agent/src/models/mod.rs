//! Port [`Model`] and its adapters.

mod call_ids;
mod carried;
mod chain;
mod convert;
mod discovery;
mod effort;
mod errors;
mod frames;
mod http;
mod key;
mod link;
mod overrides;
mod port;
mod remote;
mod reply;
mod retry;
mod retry_after;
mod scripted;
mod unicode;
mod words;

pub(crate) use call_ids::renew_used;
pub use chain::Chain;
pub use discovery::{LocalServer, find_local_server, is_loopback};
pub use effort::ReasoningEffort;
pub(crate) use http::root_cause;
pub use http::{Proxies, SharedHttp};
pub use key::ApiKey;
pub use overrides::EXTRA_BODY;
pub use port::{Link, Model, ModelError, ModelFacts, ModelRequest, ReplyPart, ReplyStream, Spent, ToolSpec};
pub use remote::{CallLimits, Protocol, RemoteModel, RemoteOptions, RouteError};
pub use retry::{BegunReply, Heard, HeardStream, RetryPolicy, Retrying, StoodIn, ask};
pub use scripted::{Script, ScriptError, Scripted};
