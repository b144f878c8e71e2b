//! The providers that a model's name may begin with.

use super::super::environment::Environment;
use super::super::problem::Problem;
use super::super::values::{ApiMode, words};
use super::endpoint::Endpoint;
use super::error::ModelError;

words! {
    /// Who answers: the part of a model's name before the slash.
    Provider {
        /// OpenAI, or what `OPENAI_BASE_URL` names.
        #[default]
        OpenAi = "openai",
        /// Any server that speaks OpenAI's protocol; needs an address.
        OpenAiCompatible = "openai-compatible",
        /// Anthropic.
        Anthropic = "anthropic",
        /// Google's Gemini.
        Gemini = "gemini",
        /// An Ollama server.
        Ollama = "ollama",
        /// The embedded model.
        Local = "local",
        /// A script in a file; for tests and demonstrations.
        Scripted = "scripted",
    }
}

/// The variables that other programs also read for a provider. They are one bundle: the key belongs to the address.
#[derive(Debug, Clone, Copy)]
pub struct Vendor {
    /// Holds the key.
    pub key: &'static str,
    /// Holds the address, if it is not the provider's own.
    pub base_url: &'static str,
}

impl Provider {
    /// The provider of a word.
    pub fn of_word(word: &str) -> Option<Provider> {
        Provider::ALL.iter().copied().find(|provider| provider.word() == word)
    }

    /// Whether it is reached over the network.
    pub fn has_address(self) -> bool {
        match self {
            Provider::Local | Provider::Scripted => false,
            Provider::OpenAi
            | Provider::OpenAiCompatible
            | Provider::Anthropic
            | Provider::Gemini
            | Provider::Ollama => true,
        }
    }

    /// The usual variables of the provider.
    pub fn vendor(self) -> Option<Vendor> {
        match self {
            Provider::OpenAi | Provider::OpenAiCompatible => {
                Some(Vendor { key: "OPENAI_API_KEY", base_url: "OPENAI_BASE_URL" })
            }
            Provider::Anthropic => Some(Vendor { key: "ANTHROPIC_API_KEY", base_url: "ANTHROPIC_BASE_URL" }),
            Provider::Gemini => Some(Vendor { key: "GEMINI_API_KEY", base_url: "GEMINI_BASE_URL" }),
            Provider::Ollama | Provider::Local | Provider::Scripted => None,
        }
    }

    /// The provider's own address. A key is required there, if the provider has keys at all.
    pub fn own_endpoint(self) -> Option<Endpoint> {
        let text = match self {
            Provider::OpenAi => "https://api.openai.com/v1",
            Provider::Anthropic => "https://api.anthropic.com",
            Provider::Gemini => "https://generativelanguage.googleapis.com",
            Provider::Ollama => "http://127.0.0.1:11434",
            Provider::OpenAiCompatible | Provider::Local | Provider::Scripted => return None,
        };
        Some(Endpoint::parse(text).expect("the addresses above are addresses"))
    }

    /// The protocol that is spoken with the provider at this address, unless another one is named. What is known of an
    /// address decides: OpenAI's own speaks Responses, other servers that take its place speak chat completions, and
    /// some vendors offer Anthropic's protocol under a path that says so (CRED-4).
    pub fn usual_mode(self, at: &Endpoint) -> ApiMode {
        match self {
            Provider::OpenAi if self.own_endpoint().is_some_and(|own| own.same_origin(at)) => {
                ApiMode::Responses
            }
            Provider::OpenAi => ApiMode::ChatCompletions,
            Provider::OpenAiCompatible => mode_of_address(at),
            Provider::Anthropic => ApiMode::AnthropicMessages,
            Provider::Gemini => ApiMode::Gemini,
            Provider::Ollama => ApiMode::Ollama,
            // Nothing is spoken with a model inside this process.
            Provider::Local | Provider::Scripted => ApiMode::default(),
        }
    }

    /// The address that the provider's usual variable names.
    ///
    /// # Errors
    /// When the variable is not an address.
    pub fn vendor_endpoint(self, environment: &Environment) -> Result<Option<Endpoint>, ModelError> {
        let Some(vendor) = self.vendor() else { return Ok(None) };
        let Some(text) = environment.text(vendor.base_url).map_err(Problem::from)? else { return Ok(None) };
        let endpoint = Endpoint::parse(text);
        endpoint.map(Some).map_err(|cause| ModelError::BadVendorUrl { variable: vendor.base_url, cause })
    }

    /// Where the provider is reached when nothing of ours names an address.
    ///
    /// # Errors
    /// As [`Provider::vendor_endpoint`].
    pub fn home(self, environment: &Environment) -> Result<Option<Endpoint>, ModelError> {
        Ok(self.vendor_endpoint(environment)?.or_else(|| self.own_endpoint()))
    }
}

/// The protocol that an address is known for.
fn mode_of_address(at: &Endpoint) -> ApiMode {
    let text = at.as_str();
    let anthropic = Provider::Anthropic.own_endpoint().is_some_and(|own| own.same_origin(at));
    if anthropic || text.ends_with("/anthropic") || text.starts_with("https://api.kimi.com/coding") {
        ApiMode::AnthropicMessages
    } else if text.starts_with("https://chatgpt.com/backend-api/codex") {
        ApiMode::Responses
    } else {
        ApiMode::ChatCompletions
    }
}
