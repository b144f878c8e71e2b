//! The wire formats that the server speaks: where each is found, and what a user would configure for it.

use super::anthropic::Messages;
use super::chat::Chat;
use super::gemini::Gemini;
use super::ollama::Ollama;
use super::responses::Responses;
use super::wire::Wire;

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// `POST /v1/chat/completions`, as OpenAI and most local servers speak it.
    OpenAiChat,
    /// `POST /v1/responses`, as OpenAI speaks it.
    OpenAiResponses,
    /// `POST /v1/messages`, as Anthropic speaks it.
    Anthropic,
    /// `POST /v1beta/models/MODEL:generateContent` and `:streamGenerateContent`, as Gemini speaks it.
    Gemini,
    /// `POST /api/chat`, as Ollama speaks it.
    Ollama,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::OpenAiChat, Self::OpenAiResponses, Self::Anthropic, Self::Gemini, Self::Ollama];

    /// The wire format that is spoken at a path without its query.
    pub(super) fn at(path: &str) -> Option<Self> {
        match path {
            "/v1/chat/completions" => Some(Self::OpenAiChat),
            "/v1/responses" => Some(Self::OpenAiResponses),
            "/v1/messages" => Some(Self::Anthropic),
            "/api/chat" => Some(Self::Ollama),
            _ => gemini_method(path).map(|_| Self::Gemini),
        }
    }

    pub(super) fn wire(self) -> &'static dyn Wire {
        match self {
            Self::OpenAiChat => &Chat,
            Self::OpenAiResponses => &Responses,
            Self::Anthropic => &Messages,
            Self::Gemini => &Gemini,
            Self::Ollama => &Ollama,
        }
    }

    /// What stands behind the origin in the base URL that clients of this format are given.
    pub(super) fn base_path(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => "/v1",
            Self::Anthropic | Self::Gemini | Self::Ollama => "",
        }
    }
}

/// How Gemini is asked to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GeminiMethod {
    Generate,
    Stream,
}

/// The model and the method in one of Gemini's paths.
pub(super) fn gemini_method(path: &str) -> Option<(&str, GeminiMethod)> {
    let (model, method) = path.strip_prefix("/v1beta/models/")?.split_once(':')?;
    let method = match method {
        "generateContent" => GeminiMethod::Generate,
        "streamGenerateContent" => GeminiMethod::Stream,
        _ => return None,
    };
    Some((model, method)).filter(|(model, _)| !model.is_empty())
}
