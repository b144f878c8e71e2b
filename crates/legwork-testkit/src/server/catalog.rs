//! What a server tells of itself: its version and the models it has, in the way of each wire format.
//!
//! No script is asked. Whoever looks for a local server finds this one by it.

use serde_json::{Value, json};

use super::http::Request;
use super::protocol::Protocol;
use super::wire::Whole;

/// The version that the server gives for Ollama's.
const VERSION: &str = "0.12.6";

/// How much every model says it can hold, in tokens.
const WINDOW: u64 = 131_072;

/// A question that the catalog answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Version,
    Tags,
    Show,
    OpenAiModels,
    AnthropicModels,
    GeminiModels,
}

impl Question {
    /// The question that a request asks, if it asks one.
    pub(super) fn of(request: &Request) -> Option<Self> {
        match (request.method.as_str(), request.route()) {
            ("GET", "/api/version") => Some(Self::Version),
            ("GET", "/api/tags") => Some(Self::Tags),
            ("POST", "/api/show") => Some(Self::Show),
            // Two formats have this path, and only one of them has this header.
            ("GET", "/v1/models") if request.header("anthropic-version").is_some() => {
                Some(Self::AnthropicModels)
            }
            ("GET", "/v1/models") => Some(Self::OpenAiModels),
            ("GET", "/v1beta/models") => Some(Self::GeminiModels),
            _ => None,
        }
    }

    /// The wire formats whose servers answer this; the first of them says which key is asked for.
    pub(super) fn protocols(self) -> &'static [Protocol] {
        match self {
            Self::Version | Self::Tags | Self::Show => &[Protocol::Ollama],
            Self::OpenAiModels => &[Protocol::OpenAiChat, Protocol::OpenAiResponses, Protocol::Ollama],
            Self::AnthropicModels => &[Protocol::Anthropic],
            Self::GeminiModels => &[Protocol::Gemini],
        }
    }

    pub(super) fn answer(self, request: &Request, models: &[String]) -> Whole {
        match self {
            Self::Version => Whole::new(200, json!({ "version": VERSION })),
            Self::Tags => Whole::new(200, json!({ "models": each(models, tag) })),
            Self::Show => show(request, models),
            Self::OpenAiModels => Whole::new(200, json!({ "object": "list", "data": each(models, openai) })),
            Self::AnthropicModels => {
                let (first, last) = (models.first(), models.last());
                let data = each(models, anthropic);
                Whole::new(
                    200,
                    json!({ "data": data, "has_more": false, "first_id": first, "last_id": last }),
                )
            }
            Self::GeminiModels => Whole::new(200, json!({ "models": each(models, gemini) })),
        }
    }
}

fn each(models: &[String], write: fn(&str) -> Value) -> Vec<Value> {
    models.iter().map(|model| write(model)).collect()
}

fn details() -> Value {
    json!({
        "parent_model": "",
        "format": "gguf",
        "family": "scripted",
        "families": ["scripted"],
        "parameter_size": "1B",
        "quantization_level": "Q4_K_M",
    })
}

fn tag(model: &str) -> Value {
    json!({
        "name": model,
        "model": model,
        "modified_at": "2023-11-14T22:13:20Z",
        "size": 1_000_000_000_u64,
        "digest": "0".repeat(64),
        "details": details(),
    })
}

fn show(request: &Request, models: &[String]) -> Whole {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
    let model = body["model"].as_str().unwrap_or_default();
    if !models.iter().any(|known| known == model) {
        return Whole::new(404, json!({ "error": format!("model '{model}' not found") }));
    }
    let info = json!({ "general.architecture": "scripted", "scripted.context_length": WINDOW });
    let capabilities = json!(["completion", "tools", "thinking", "vision"]);
    Whole::new(200, json!({ "details": details(), "model_info": info, "capabilities": capabilities }))
}

fn openai(model: &str) -> Value {
    json!({ "id": model, "object": "model", "created": 1_700_000_000, "owned_by": "legwork" })
}

fn anthropic(model: &str) -> Value {
    json!({ "type": "model", "id": model, "display_name": model, "created_at": "2023-11-14T22:13:20Z" })
}

fn gemini(model: &str) -> Value {
    json!({
        "name": format!("models/{model}"),
        "displayName": model,
        "inputTokenLimit": WINDOW,
        "outputTokenLimit": 8192,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    })
}
