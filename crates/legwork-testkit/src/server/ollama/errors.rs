//! Writes Ollama's errors, which are a sentence and nothing more, and the words of each trouble.

use serde_json::{Value, json};

use crate::server::fault::Trouble;
use crate::server::wire::Whole;

/// The object that holds an error, in a response or as the last line of a stream.
pub(super) fn error(message: &str) -> Value {
    json!({ "error": message })
}

pub(super) fn trouble(trouble: Trouble) -> Whole {
    match trouble {
        Trouble::NoKey | Trouble::WrongKey => Whole::new(401, error("unauthorized")),
        Trouble::RateLimited { retry_after_s } => {
            let whole = Whole::new(429, error("too many requests, please slow down"));
            whole.header(format!("retry-after: {retry_after_s}"))
        }
        Trouble::Broken => Whole::new(500, error("llama runner process has terminated: signal: killed")),
        Trouble::Overloaded => {
            Whole::new(503, error("server busy, please try again.  maximum pending requests exceeded"))
        }
    }
}
