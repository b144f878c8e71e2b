//! The wire library's model for a route: which of its wires speaks a protocol, and with which settings. None of the
//! library's types leave `models`, and it is given no key: what it does not have it cannot lose.

use super::options::RemoteOptions;
use super::protocol::Protocol;
use crate::models::link::Link;
use reqwest::Url;
use rig_core::DynModel;
use rig_core::catalog::Catalog;
use rig_core::completion::ReplayTarget;
use rig_core::driver::Model as Driver;
use rig_core::message::Origin;
use rig_core::operation::Completion;
use rig_core::providers::anthropic::wire as anthropic;
use rig_core::providers::gemini::completion::GenerateContent;
use rig_core::providers::gemini::{self, GeminiConfig};
use rig_core::providers::ollama::{self, OllamaConfig};
use rig_core::providers::openai::OpenAIConfig;
use rig_core::providers::openai::responses_api::wire::Responses;
use rig_core::providers::openai::wire::{self as openai, OPENAI};
use rig_core::providers::registry::ProviderId;
use rig_core::wire::{Encoded, Wire, WireFrame};
use serde_json::{Value, json};

/// The most output tokens of an Anthropic reply where nothing else is said: the protocol insists on a number, and a
/// larger one takes room in the window from the conversation.
const ANTHROPIC_OUTPUT_MAX: u64 = 32_000;
/// The same for a model whose own limit is not known.
const ANTHROPIC_OUTPUT_UNKNOWN: u64 = 8_192;

/// The library's model for one route.
pub(super) struct Wired {
    pub model: DynModel<Completion>,
    /// The model as the library names it.
    pub origin: Origin,
    /// Whether the address is the vendor's own, so that its price list and model facts hold.
    pub at_vendor: bool,
    /// Fields of every request that the library has no name for.
    pub fields: Option<Value>,
}

/// The model that speaks the route's protocol over `link`.
pub(super) fn wired(options: &RemoteOptions, base: &Url, link: Link) -> Wired {
    match options.protocol {
        Protocol::ChatCompletions => {
            let vendor = openai_vendor(base);
            let wire = openai_config(vendor, base).chat(options.model.as_str());
            Wired { at_vendor: vendor.is_some(), ..with(wire, link) }
        }
        Protocol::Responses => {
            let vendor = openai_vendor(base);
            let wire = Responses::new(openai_config(vendor, base), options.model.as_str());
            // Nothing of a conversation stays with the provider; its reasoning travels with the conversation, encrypted.
            let fields = Some(json!({ "store": false }));
            Wired { at_vendor: vendor.is_some(), fields, ..with(wire, link) }
        }
        Protocol::AnthropicMessages => anthropic_wired(options, base, link),
        Protocol::Gemini => {
            let config = GeminiConfig::new("").with_base_url(base.as_str());
            let at_vendor = is_own(gemini::BASE_URL, base);
            Wired { at_vendor, ..with(GenerateContent::new(config, options.model.as_str()), link) }
        }
        Protocol::Ollama => {
            let config = OllamaConfig::new().with_base_url(base.as_str());
            let fields = Some(ollama_fields(options.window));
            Wired { fields, ..with(ollama::Chat::new(config, options.model.as_str()), link) }
        }
    }
}

fn with<W>(wire: W, link: Link) -> Wired
where
    W: Wire<Op = Completion, Payload = Encoded, Frame = WireFrame> + ReplayTarget,
{
    let origin = Origin::new(wire.api(), wire.provider(), wire.model());
    Wired { model: Driver::new(wire, link).erase(), origin, at_vendor: false, fields: None }
}

fn openai_config(vendor: Option<&openai::Dialect>, base: &Url) -> OpenAIConfig {
    OpenAIConfig::with_key(vendor.unwrap_or(&OPENAI), "").with_base_url(base.as_str())
}

/// The vendor whose own address this is, of those that the library knows peculiarities of.
pub(super) fn openai_vendor(base: &Url) -> Option<&'static openai::Dialect> {
    openai::all().find(|dialect| is_own(dialect.base_url, base))
}

fn anthropic_wired(options: &RemoteOptions, base: &Url, link: Link) -> Wired {
    let vendor = anthropic::all().find(|dialect| is_own(dialect.base_url, base));
    let dialect = vendor.unwrap_or(&anthropic::ANTHROPIC);
    let provider = anthropic::AnthropicConfig::with_key(dialect, "").with_base_url(base);
    let known = dialect.default_max_tokens(&options.model);
    let wire = anthropic::Messages {
        default_max_tokens: Some(
            known.map_or(ANTHROPIC_OUTPUT_UNKNOWN, |tokens| tokens.min(ANTHROPIC_OUTPUT_MAX)),
        ),
        provider,
        model: options.model.clone(),
        // Every request of a turn repeats the one before, so most of it is read from the provider's cache.
        prompt_caching: true,
        static_prefix_cache_ttl: None,
        strict_tools: false,
        tool_input_streaming: dialect.quirks.tool_input_streaming,
    };
    Wired { at_vendor: vendor.is_some(), ..with(wire, link) }
}

/// A conversation that does not fit is refused instead of silently shortened, and a window that the user named is used.
fn ollama_fields(window: Option<u64>) -> Value {
    let mut fields = json!({ "truncate": false, "shift": false });
    if let Some(tokens) = window {
        fields["options"] = json!({ "num_ctx": tokens });
    }
    fields
}

/// Whether an address is the vendor's own. Only `https` proves it: what listens on a port of this machine may be
/// anything.
fn is_own(own: &str, base: &Url) -> bool {
    base.scheme() == "https" && Url::parse(own).is_ok_and(|own| own.origin() == base.origin())
}

/// The window of a model in the library's list of models, which holds at the vendor's own address only.
pub(super) fn listed_window(origin: &Origin) -> Option<u64> {
    let vendor = ProviderId::catalog(&origin.provider)?;
    let window = Catalog::builtin().find(vendor, &origin.model)?.context_window?;
    Some(u64::from(window))
}
