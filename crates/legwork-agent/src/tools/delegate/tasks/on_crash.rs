//! What is to become of a task whose process dies, as a call or one of its tasks says it.

use super::kind;
use legwork_core::batch::OnCrash;
use serde_json::{Map, Value};

/// The key of a task, and of a call for all its tasks.
pub(super) const ON_CRASH: &str = "on_crash";

/// The value of the key; `fallback` when it says nothing.
pub(super) fn parse(fields: &Map<String, Value>, fallback: OnCrash) -> Result<OnCrash, String> {
    match fields.get(ON_CRASH) {
        None | Some(Value::Null) => Ok(fallback),
        Some(Value::String(word)) if word.trim().is_empty() => Ok(fallback),
        Some(Value::String(word)) => OnCrash::of_word(word.trim()).ok_or_else(|| {
            format!("`{ON_CRASH}` is `{}` or `{}`, not `{word}`", OnCrash::WORDS[0], OnCrash::WORDS[1])
        }),
        Some(other) => Err(format!("`{ON_CRASH}` must be text, found {}", kind(other))),
    }
}
