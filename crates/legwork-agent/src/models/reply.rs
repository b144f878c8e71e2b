//! The end of a reply: whether it is whole, what it consists of, what it cost.

use super::call_ids::CallIds;
use super::carried::Thinker;
use super::port::{ModelError, Spent};
use super::words::words_of_text;
use super::{convert, errors};
use legwork_core::message::Message;
use legwork_core::report::{Cost, FailureReason, Usage};
use legwork_core::step::{Finish, Reply};
use rig_core::completion::{self as rig, CompletionResponse, FinishReason};
use serde_json::Value;

/// Words of servers for an ordinary end that the library does not know.
const ORDINARY_ENDS: &[&str] = &["eos_token", "stop_token", "complete", "completed", "finished"];

/// Gemini's name for a call that its model wrote so badly that it is not handed over.
const MALFORMED_CALL: &str = "MALFORMED_FUNCTION_CALL";

/// The whole reply of this model, or why it is none.
pub(super) fn whole(
    response: CompletionResponse,
    thinker: &Thinker,
    ids: &mut CallIds,
) -> Result<Reply, ModelError> {
    let reason = response.finish_reason();
    if let Some(text) = malformed_call(&response, reason.as_ref()) {
        return Ok(with_unreadable_call(response, text, thinker, ids));
    }
    check(&response, reason.as_ref())?;
    Ok(read(response, thinker, ids))
}

/// A reply that ended with a call that the provider does not hand over. The call must not fail the reply: its writer
/// reads what was wrong and can write another one.
pub(super) fn with_unreadable_call(
    response: CompletionResponse,
    text: String,
    thinker: &Thinker,
    ids: &mut CallIds,
) -> Reply {
    let mut reply = read(response, thinker, ids);
    reply.message.parts.push(convert::unreadable_call(text, ids));
    reply.finish = Finish::ToolUse;
    reply
}

fn read(response: CompletionResponse, thinker: &Thinker, ids: &mut CallIds) -> Reply {
    let reason = response.finish_reason();
    let model = response.model().map(str::to_owned);
    let (usage, cost) = (usage(&response.usage), cost(&response.usage));
    let message = convert::message(response.choice, thinker, ids);
    let finish = finish(&message, reason.as_ref());
    Reply { message, usage, cost, model, finish }
}

/// Whatever a provider says: a reply with calls waits for their results.
fn finish(message: &Message, reason: Option<&FinishReason>) -> Finish {
    match reason {
        Some(FinishReason::Length) => Finish::Length,
        Some(_) | None if message.calls().next().is_some() => Finish::ToolUse,
        Some(_) | None => Finish::Stop,
    }
}

fn check(response: &CompletionResponse, reason: Option<&FinishReason>) -> Result<(), ModelError> {
    if let Some(error) = response.raw.get("error").filter(|error| !error.is_null()) {
        return Err(errors::of_error_object(&serde_json::json!({ "error": error })));
    }
    match reason {
        Some(FinishReason::ContentFilter) => {
            let refusal = "the provider's content filter stopped the reply";
            let message = match &response.error {
                Some(words) => format!("{refusal}: {}", words_of_text(words)),
                None => refusal.to_owned(),
            };
            Err(errors::plain(FailureReason::ContentPolicy, message))
        }
        Some(FinishReason::Other(name)) if !ORDINARY_ENDS.contains(&name.as_str()) => {
            let name = name.escape_debug();
            let words = response.error.as_deref().map(|words| format!(": {}", words_of_text(words)));
            let words = words.unwrap_or_default();
            let message = format!("the provider ended the reply with the reason `{name}`{words}");
            Err(errors::plain(FailureReason::ServerError, message))
        }
        // The library's list of reasons is open; those that it may add are ends it understands.
        Some(_) | None => Ok(()),
    }
}

/// What the provider says about a call that it does not hand over.
fn malformed_call(response: &CompletionResponse, reason: Option<&FinishReason>) -> Option<String> {
    match reason {
        Some(FinishReason::Other(name)) if name == MALFORMED_CALL => {
            let said = response.raw.pointer("/candidates/0/finishMessage").and_then(Value::as_str);
            Some(words_of_text(said.unwrap_or_default()))
        }
        Some(_) | None => None,
    }
}

/// What the provider told that a response took.
pub(super) fn spent(response: &CompletionResponse) -> Spent {
    Spent { usage: usage(&response.usage), cost: cost(&response.usage) }
}

fn usage(usage: &rig::Usage) -> Usage {
    Usage {
        input: usage.input_tokens.unwrap_or(0),
        output: usage.output_tokens.unwrap_or(0),
        cached: usage.cached_input_tokens.unwrap_or(0),
        reasoning: usage.reasoning_tokens.unwrap_or(0),
    }
}

fn cost(usage: &rig::Usage) -> Cost {
    let dollars = usage.cost.map(|cost| cost.total).filter(|total| total.is_finite() && *total >= 0.0);
    // The cast saturates, so no sum can wrap around.
    dollars.map_or(Cost::Unknown, |dollars| Cost::MicroUsd((dollars * 1e6).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rig_core::message::{Api, Origin};
    use serde_json::json;

    #[test]
    fn a_price_becomes_whole_millionths_of_a_dollar() {
        let priced = |dollars: f64| cost(&rig::Usage::new().cost(rig::Cost::from_total(dollars)));
        assert_eq!(priced(0.0123456), Cost::MicroUsd(12_346));
        assert_eq!(priced(0.0), Cost::MicroUsd(0));
        assert_eq!(priced(-1.0), Cost::Unknown);
        assert_eq!(priced(f64::NAN), Cost::Unknown);
        assert_eq!(cost(&rig::Usage::new()), Cost::Unknown);
    }

    /// Proves ENTRY-12.
    #[test]
    fn entry_12_counts_that_a_provider_does_not_tell_are_zero() {
        let told = rig::Usage::new().output_tokens(7);
        assert_eq!(usage(&rig::Usage::new()), Usage::default());
        assert_eq!(usage(&told), Usage { output: 7, ..Usage::default() });
    }

    fn response(reason: Option<FinishReason>, raw: Value) -> CompletionResponse {
        let origin = Origin::new(Api::from_static("openai.chat"), "openai", "m");
        CompletionResponse::new(Vec::new(), rig::Usage::new(), origin, raw)
            .with_optional_finish_reason(reason)
    }

    fn whole_of(response: CompletionResponse) -> Result<Reply, ModelError> {
        let at = reqwest::Url::parse("http://127.0.0.1:1/v1").expect("an address");
        let thinker = Thinker::new(response.origin.clone(), &at);
        whole(response, &thinker, &mut CallIds::default())
    }

    #[test]
    fn only_an_end_that_is_understood_makes_a_reply_whole() {
        let other = |name: &str| Some(FinishReason::Other(name.to_owned()));
        let end = |reason| whole_of(response(reason, Value::Null));
        for reason in [Some(FinishReason::Stop), Some(FinishReason::ToolCalls), other("eos_token"), None] {
            assert_eq!(end(reason).expect("a whole reply").finish, Finish::Stop);
        }
        assert_eq!(end(Some(FinishReason::Length)).expect("a whole reply").finish, Finish::Length);
        let reason = |reason| end(reason).expect_err("it was broken off").reason;
        assert_eq!(reason(other("network_error")), FailureReason::ServerError);
        assert_eq!(reason(Some(FinishReason::ContentFilter)), FailureReason::ContentPolicy);
    }

    #[test]
    fn k23_a_call_that_is_not_handed_over_is_a_malformed_call_and_no_failure() {
        let raw = json!({"candidates": [{"finishMessage": "Malformed function call: print("}]});
        let reply = whole_of(response(Some(FinishReason::Other(MALFORMED_CALL.to_owned())), raw));
        let reply = reply.expect("a whole reply");
        let calls: Vec<_> = reply.message.calls().collect();
        assert_eq!(reply.finish, Finish::ToolUse);
        assert_eq!(calls[0].malformed.as_deref(), Some("Malformed function call: print("));
    }
}
