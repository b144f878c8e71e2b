//! The scripted model server: a model provider on loopback that says exactly what a test wrote down.
//!
//! It owns the wire (HTTP/1.1, server-sent events, lines of JSON), the choice of what to say, the faults, the gates, the
//! log of requests and the strict check of every request. It does not judge answers, it runs no tools and it never
//! listens beyond `127.0.0.1`.
//!
//! One server speaks all five wire formats ([`Protocol`]) with the same scripts, each at its own paths and in its
//! provider's own way: errors, headers, keys, and what a client must send back. Where a provider cannot say what a
//! script says, the server does what that provider would do:
//!
//! - Reasoning goes out only as far as the request asks for it: Responses show a summary for `reasoning.summary` and
//!   seal it for `include`, Gemini shows thoughts for `includeThoughts`; Anthropic and Ollama think unless told not to.
//! - Calls come in pieces from OpenAI and Anthropic, whole from Gemini and Ollama. Malformed arguments reach the client
//!   from the former; Gemini ends with `MALFORMED_FUNCTION_CALL`, and Ollama with an error.
//! - Gemini answers an unknown key with 400 and says in the body alone when to come back; the others say 401 and
//!   `Retry-After`.
//!
//! A server runs on a thread of its own, so synchronous tests drive a program against it and ask it afterwards.
//! Each agent has a script, found by a marker in the first user message of its conversation. Which step of the
//! script is played follows from the conversation alone (the assistant messages after the first user message), so a
//! retry gets the same step again and the order in which children run does not matter.
//!
//! ```
//! use legwork_testkit::server::{Script, Scripts, ScriptedServer, call, rate_limited, say};
//! use serde_json::json;
//!
//! let scripts = Scripts::default()
//!     .agent("alpha", Script::new().step(call("read_file", json!({"path": "a.txt"}))).step(say("alpha is done")))
//!     .agent("beta", Script::new().step(rate_limited(1).on_retry(say("beta is done"))))
//!     .agent("gamma", Script::new().step(say("half").gate("g").say(" and half")))
//!     .otherwise(Script::from_fn(|talk| say(format!("you said {}", talk.first_user_text()))));
//! let server = ScriptedServer::start(scripts);
//! assert!(server.base_url().starts_with("http://127.0.0.1:"));
//! // A test now runs the program with this address, waits with `server.gate("g").wait_reached()`, opens the gate
//! // and reads `server.log()`.
//! assert!(server.log().violations().is_empty());
//! ```

mod act;
mod anthropic;
mod catalog;
mod chat;
mod conversation;
mod director;
mod fault;
mod fields;
mod gate;
mod gemini;
mod http;
mod log;
mod memory;
mod ollama;
mod openai;
mod play;
mod protocol;
mod reply;
mod responses;
mod script;
mod seal;
mod serve;
mod start;
mod streaming;
mod strict;
mod terms;
mod wire;

#[cfg(test)]
mod tests;

pub use act::{Call, Finish, Usage};
pub use conversation::{Conversation, Role, SeenCall, SeenMessage};
pub use fault::{
    ProviderError, hang, hang_after_headers, hang_up, overloaded, rate_limited, raw_response, server_error,
    status, status_page, status_with, unauthorized,
};
pub use gate::Gate;
pub use log::{Ending, Entry, Log};
pub use protocol::Protocol;
pub use reply::{Reply, Step, call, calls, empty, gate, reason, say};
pub use script::{Script, Scripts};
pub use start::ScriptedServer;
pub use strict::{Alternation, Rule, Violation};
