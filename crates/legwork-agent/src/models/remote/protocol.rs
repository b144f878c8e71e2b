//! The protocols that are spoken, and how they differ at the level of HTTP: the path, the header of the key, and which
//! event is the last. How messages look is the wire library's business, and which wire it is `wires`'.

use super::options::RouteError;
use crate::models::key::ApiKey;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A protocol that providers speak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// OpenAI chat completions, as most servers speak it.
    #[default]
    ChatCompletions,
    /// OpenAI Responses.
    Responses,
    /// Anthropic messages.
    AnthropicMessages,
    /// Gemini's `generateContent`.
    Gemini,
    /// Ollama's own `/api/chat`.
    Ollama,
}

/// Where Anthropic wants its key.
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Where Gemini takes its key. It also takes it in the address, which is no place for one.
const X_GOOG_API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// The data of the last event of a stream of chat completions.
const DONE: &str = "[DONE]";

impl Protocol {
    /// Every protocol.
    pub const ALL: &[Protocol] = &[
        Protocol::ChatCompletions,
        Protocol::Responses,
        Protocol::AnthropicMessages,
        Protocol::Gemini,
        Protocol::Ollama,
    ];

    /// The words of [`Self::ALL`], in the same order, as configuration and stored routes have them.
    pub const WORDS: &[&str] = &["chat_completions", "responses", "anthropic_messages", "gemini", "ollama"];

    /// The word of this protocol.
    pub fn word(self) -> &'static str {
        match self {
            Protocol::ChatCompletions => "chat_completions",
            Protocol::Responses => "responses",
            Protocol::AnthropicMessages => "anthropic_messages",
            Protocol::Gemini => "gemini",
            Protocol::Ollama => "ollama",
        }
    }

    /// The address that requests for `model` go to. A base URL may hold the protocol's version or not: both are in use.
    pub(super) fn endpoint(self, base: &Url, model: &str) -> Url {
        let mut endpoint = base.clone();
        match self {
            Protocol::ChatCompletions => set_path(&mut endpoint, &[], "chat/completions"),
            Protocol::Responses => set_path(&mut endpoint, &[], "responses"),
            Protocol::AnthropicMessages => set_path(&mut endpoint, &["/v1"], "v1/messages"),
            Protocol::Ollama => set_path(&mut endpoint, &["/v1", "/api"], "api/chat"),
            Protocol::Gemini => {
                set_path(&mut endpoint, &["/v1beta"], "v1beta");
                push_model(&mut endpoint, model);
                endpoint.set_query(Some("alt=sse"));
            }
        }
        endpoint
    }

    /// The header that carries the key.
    ///
    /// # Errors
    /// When the key holds what no header can.
    pub(super) fn key_header(self, key: &ApiKey) -> Result<(HeaderName, HeaderValue), RouteError> {
        let (name, text) = match self {
            Protocol::ChatCompletions | Protocol::Responses | Protocol::Ollama => {
                (AUTHORIZATION, format!("Bearer {}", key.expose()))
            }
            Protocol::AnthropicMessages => (X_API_KEY, key.expose().to_owned()),
            Protocol::Gemini => (X_GOOG_API_KEY, key.expose().to_owned()),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| RouteError::Key)?;
        value.set_sensitive(true);
        Ok((name, value))
    }

    /// Whether this is the event with which a reply ends, so that only the end of the body is to come.
    pub(in crate::models) fn is_last(self, data: &str) -> bool {
        match self {
            Protocol::ChatCompletions => data.trim() == DONE,
            Protocol::Responses => says_completed(data),
            Protocol::AnthropicMessages => has_stop_reason(data),
            // Its replies end with their body.
            Protocol::Gemini => false,
            Protocol::Ollama => is_done(data),
        }
    }
}

/// Puts `path` below the address, whose own path may end with one of these already.
fn set_path(address: &mut Url, versions: &[&str], path: &str) {
    let own = address.path().trim_end_matches('/');
    let own = versions.iter().find_map(|version| own.strip_suffix(version)).unwrap_or(own);
    let whole = format!("{own}/{path}");
    address.set_path(&whole);
}

/// Appends the model as Gemini wants it; what is not a legal part of a path is escaped.
fn push_model(address: &mut Url, model: &str) {
    let action = format!("{model}:streamGenerateContent");
    let family = if model.contains('/') { None } else { Some("models") };
    if let Ok(mut segments) = address.path_segments_mut() {
        segments.extend(family.into_iter().chain(action.split('/')));
    }
}

// The texts that are looked for first spare most events a second reading; a text may speak of them too, so they prove
// nothing.

fn says_completed(data: &str) -> bool {
    #[derive(Deserialize)]
    struct Event {
        #[serde(rename = "type")]
        kind: String,
    }
    let read = || serde_json::from_str::<Event>(data).ok();
    data.contains("response.completed") && read().is_some_and(|event| event.kind == "response.completed")
}

fn has_stop_reason(data: &str) -> bool {
    #[derive(Deserialize)]
    struct Event {
        #[serde(rename = "type")]
        kind: String,
        delta: Delta,
    }
    #[derive(Deserialize)]
    struct Delta {
        stop_reason: Option<IgnoredAny>,
    }
    let read = || serde_json::from_str::<Event>(data).ok();
    data.contains("stop_reason")
        && read().is_some_and(|event| event.kind == "message_delta" && event.delta.stop_reason.is_some())
}

fn is_done(data: &str) -> bool {
    #[derive(Deserialize)]
    struct Record {
        done: bool,
    }
    serde_json::from_str::<Record>(data).is_ok_and(|record| record.done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(protocol: Protocol, base: &str, model: &str) -> String {
        protocol.endpoint(&Url::parse(base).expect("an address"), model).to_string()
    }

    #[test]
    fn the_endpoint_is_below_the_base_url() {
        let cases = [
            (Protocol::ChatCompletions, "http://127.0.0.1:8080/v1", "/v1/chat/completions"),
            (Protocol::ChatCompletions, "http://127.0.0.1:8080/v1/", "/v1/chat/completions"),
            (Protocol::ChatCompletions, "http://127.0.0.1:8080", "/chat/completions"),
            (Protocol::Responses, "http://127.0.0.1:8080/v1", "/v1/responses"),
            (Protocol::AnthropicMessages, "http://127.0.0.1:8080", "/v1/messages"),
            (Protocol::AnthropicMessages, "http://127.0.0.1:8080/v1/", "/v1/messages"),
            (Protocol::AnthropicMessages, "http://127.0.0.1:8080/anthropic", "/anthropic/v1/messages"),
            (Protocol::Gemini, "http://127.0.0.1:8080", "/v1beta/models/m:streamGenerateContent?alt=sse"),
            (
                Protocol::Gemini,
                "http://127.0.0.1:8080/v1beta",
                "/v1beta/models/m:streamGenerateContent?alt=sse",
            ),
            (Protocol::Ollama, "http://127.0.0.1:8080", "/api/chat"),
            (Protocol::Ollama, "http://127.0.0.1:8080/v1", "/api/chat"),
            (Protocol::Ollama, "http://127.0.0.1:8080/api/", "/api/chat"),
        ];
        for (protocol, base, path) in cases {
            assert_eq!(at(protocol, base, "m"), format!("http://127.0.0.1:8080{path}"));
        }
    }

    #[test]
    fn a_model_in_the_address_stays_within_its_place() {
        let path = |model| at(Protocol::Gemini, "http://h", model);
        assert_eq!(path("models/a"), "http://h/v1beta/models/a:streamGenerateContent?alt=sse");
        assert_eq!(path("tunedModels/b"), "http://h/v1beta/tunedModels/b:streamGenerateContent?alt=sse");
        assert_eq!(path("a?b#c"), "http://h/v1beta/models/a%3Fb%23c:streamGenerateContent?alt=sse");
    }

    #[test]
    fn the_last_event_is_told_from_one_that_only_speaks_of_it() {
        let last = [
            (Protocol::ChatCompletions, "[DONE]"),
            (Protocol::Responses, r#"{"type":"response.completed","response":{}}"#),
            (Protocol::AnthropicMessages, r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#),
            (Protocol::Ollama, r#"{"message":{"content":""},"done":true}"#),
        ];
        for (protocol, data) in last {
            assert!(protocol.is_last(data), "{data}");
        }
        let earlier = [
            (Protocol::ChatCompletions, r#"{"choices":[{"delta":{"content":"[DONE]"}}]}"#),
            (Protocol::Responses, r#"{"type":"response.output_text.delta","delta":"response.completed"}"#),
            (Protocol::AnthropicMessages, r#"{"type":"message_delta","delta":{"stop_reason":null}}"#),
            (
                Protocol::AnthropicMessages,
                r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"stop_reason"}}"#,
            ),
            (Protocol::Gemini, r#"{"candidates":[{"finishReason":"STOP"}]}"#),
            (
                Protocol::Ollama,
                r#"{"message":{"tool_calls":[{"function":{"arguments":{"done":true}}}]},"done":false}"#,
            ),
        ];
        for (protocol, data) in earlier {
            assert!(!protocol.is_last(data), "{data}");
        }
    }
}
