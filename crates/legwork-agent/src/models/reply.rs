//! The end of a reply: whether it is whole, what it consists of, what it cost.

use super::call_ids::CallIds;
use super::port::ModelError;
use super::{convert, errors};
use legwork_core::message::{Message, Part};
use legwork_core::report::{Cost, FailureReason, Usage};
use legwork_core::step::Reply;
use rig_core::completion::{self as rig, CompletionResponse, FinishReason};
use serde_json::Value;

/// Stands at the end of a text that the provider's limit of output cut off.
const CUT: &str = "\n\n[cut off: the reply reached the provider's limit of output tokens]";

/// Words of servers for an ordinary end that the library does not know.
const ORDINARY_ENDS: &[&str] = &["eos_token", "stop_token", "complete", "completed", "finished"];

/// The whole reply, or why it is none.
pub(super) fn whole(response: CompletionResponse, ids: &mut CallIds) -> Result<Reply, ModelError> {
    let finish = response.finish_reason();
    check(&response.raw, finish.as_ref())?;
    let model = response.model().map(str::to_owned);
    let (usage, cost) = (usage(&response.usage), cost(&response.usage));
    let mut message = convert::message(response.choice, &response.origin, ids);
    if finish == Some(FinishReason::Length) {
        mark_cut(&mut message);
    }
    Ok(Reply { message, usage, cost, model })
}

fn check(document: &Value, finish: Option<&FinishReason>) -> Result<(), ModelError> {
    if let Some(error) = document.get("error").filter(|error| !error.is_null()) {
        return Err(errors::of_error_object(&serde_json::json!({ "error": error })));
    }
    match finish {
        Some(FinishReason::ContentFilter) => Err(errors::plain(
            FailureReason::ContentPolicy,
            "the provider's content filter stopped the reply",
        )),
        Some(FinishReason::Other(name)) if !ORDINARY_ENDS.contains(&name.as_str()) => {
            let message = format!("the provider ended the reply with the reason `{}`", name.escape_debug());
            Err(errors::plain(FailureReason::ServerError, message))
        }
        // The library's list of reasons is open; those that it may add are ends it understands.
        Some(_) | None => Ok(()),
    }
}

/// A text that was cut never stands without its mark.
fn mark_cut(message: &mut Message) {
    let last_text = message.parts.iter_mut().rev().find_map(|part| match part {
        Part::Text { text } => Some(text),
        Part::Reasoning { .. } | Part::Call(_) | Part::Result(_) => None,
    });
    match last_text {
        Some(text) => text.push_str(CUT),
        None => message.parts.push(Part::Text { text: CUT.trim_start().to_owned() }),
    }
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
    use legwork_core::message::Author;
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

    #[test]
    fn only_an_end_that_is_understood_makes_a_reply_whole() {
        let other = |name: &str| Some(FinishReason::Other(name.to_owned()));
        let reason =
            |finish: Option<FinishReason>| check(&json!({}), finish.as_ref()).err().map(|error| error.reason);
        for finish in [Some(FinishReason::Stop), Some(FinishReason::ToolCalls), other("eos_token"), None] {
            assert_eq!(reason(finish), None);
        }
        assert_eq!(reason(other("network_error")), Some(FailureReason::ServerError));
        assert_eq!(reason(Some(FinishReason::ContentFilter)), Some(FailureReason::ContentPolicy));
    }

    #[test]
    fn the_mark_of_a_cut_stands_even_where_no_text_came() {
        let mut message = Message { author: Author::Assistant, parts: Vec::new() };
        mark_cut(&mut message);
        assert!(message.plain_text().starts_with("[cut off"), "{message:?}");
    }
}
