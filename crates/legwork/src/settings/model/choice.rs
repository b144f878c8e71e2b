//! The model of the conversation.

use super::super::blocks::Overrides;
use super::super::environment::Environment;
use super::super::nearest::nearest;
use super::super::origin::{Layer, Origin};
use super::super::raw;
use super::super::secret::Secret;
use super::super::values::{ApiMode, ReasoningEffort, Settings};
use super::bundle::{Bundle, Key};
use super::endpoint::Endpoint;
use super::error::ModelError;
use super::provider::Provider;

/// Whether the embedded model is part of this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Embedded {
    /// It answers when nothing else is configured. The name of the model.
    #[cfg_attr(not(feature = "local-model"), allow(dead_code, reason = "built only with the embedded model"))]
    BuiltIn(&'static str),
    /// Without a configured model nothing answers.
    Absent,
}

/// A model, where it is and what it is asked with. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoice {
    /// Who answers.
    pub provider: Provider,
    /// The provider's name for the model; for `scripted` the path of the script.
    pub name: String,
    /// The address; none for models inside this process.
    pub base_url: Option<Endpoint>,
    /// The protocol.
    pub api_mode: ApiMode,
    /// The key; empty when none may go to the address and none is needed.
    pub key: Secret,
    /// The name of the variable or configuration key that held the key. This may be stored; the key may not.
    pub key_source: Option<String>,
    /// Keys that were found but belong to another address, by the names of their sources. For explanations.
    pub withheld: Vec<String>,
    /// Tokens of its window, if they are configured.
    pub window: Option<u64>,
    /// How hard it thinks, if that is configured.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Fields of every request.
    pub request_overrides: Overrides,
    /// What answers in its place when it fails, in order; they have no chains of their own.
    pub fallbacks: Vec<ModelChoice>,
    /// The table it was made from; none for the conversation's own.
    pub table: Option<String>,
}

impl ModelChoice {
    /// Chooses the model of the conversation.
    ///
    /// `user_file` is only named in the message that tells where to write one.
    ///
    /// # Errors
    /// When no model is named, its provider is unknown, it has no address, or it needs a key and none was
    /// configured for its address.
    pub fn resolve(
        settings: &Settings,
        environment: &Environment,
        embedded: Embedded,
        user_file: &str,
    ) -> Result<ModelChoice, ModelError> {
        let Some(reference) = Reference::of(settings, embedded)? else {
            return Err(ModelError::NotConfigured { user_file: user_file.to_owned() });
        };
        let mut choice = ModelChoice {
            window: settings.model.window_tokens.map(|tokens| tokens as u64),
            reasoning_effort: settings.model.reasoning_effort,
            request_overrides: settings.model.request_overrides.clone(),
            ..ModelChoice::bare(reference.provider, reference.name.clone())
        };
        if reference.provider.has_address() {
            let bundles = Bundle::all(settings, environment)?;
            let endpoint = address(&reference, &bundles, environment)?;
            choice.find_key(&endpoint, &bundles, environment)?;
            choice.api_mode =
                settings.model.api_mode.unwrap_or_else(|| reference.provider.usual_mode(&endpoint));
            choice.base_url = Some(endpoint);
        }
        let links = settings.model.fallback_providers.as_deref().unwrap_or_default();
        choice.with_links(links, "model", settings.origin("model.fallback_providers"), environment)
    }

    /// A model of a server on this machine that was found and not configured. No key goes there.
    pub fn found(provider: Provider, name: String, at: Endpoint) -> ModelChoice {
        let api_mode = provider.usual_mode(&at);
        ModelChoice { api_mode, base_url: Some(at), ..ModelChoice::bare(provider, name) }
    }

    /// The name as it is written on the command line.
    pub fn reference(&self) -> String {
        format!("{}/{}", self.provider.word(), self.name)
    }

    fn find_key(
        &mut self,
        to: &Endpoint,
        bundles: &[Bundle],
        environment: &Environment,
    ) -> Result<(), ModelError> {
        for bundle in bundles {
            let bound = bundle.bound(self.provider, environment)?;
            for source in &bundle.keys {
                if bound.allows(to) {
                    self.take(source.read(environment)?);
                    return Ok(());
                }
                self.withheld.push(source.name().to_owned());
            }
        }
        self.find_vendor_key(to, environment)
    }

    /// The provider's usual variables: the key goes to the address that stands beside it there, or to the provider.
    pub(super) fn find_vendor_key(
        &mut self,
        to: &Endpoint,
        environment: &Environment,
    ) -> Result<(), ModelError> {
        let Some(vendor) = self.provider.vendor() else { return Ok(()) };
        let own = self.provider.own_endpoint();
        let bound = self.provider.vendor_endpoint(environment)?.or_else(|| own.clone());
        if let Some(text) = environment.text(vendor.key)? {
            if bound.is_some_and(|bound| bound.same_origin(to)) {
                self.take(Key { secret: Secret::new(text), source: vendor.key.to_owned() });
                return Ok(());
            }
            self.withheld.push(vendor.key.to_owned());
        }
        if own.is_some_and(|own| own.same_origin(to)) {
            return Err(ModelError::NoKey {
                provider: self.provider,
                endpoint: to.clone(),
                variable: vendor.key,
                withheld: self.withheld.clone(),
            });
        }
        Ok(())
    }

    pub(super) fn take(&mut self, key: Key) {
        self.key = key.secret;
        self.key_source = Some(key.source);
    }
}

/// A model's name, taken apart, and the layer that gave it.
struct Reference {
    provider: Provider,
    name: String,
    layer: Layer,
}

impl Reference {
    fn of(settings: &Settings, embedded: Embedded) -> Result<Option<Reference>, ModelError> {
        let origin = settings.origin("model.default");
        match (settings.model.default.as_str(), embedded) {
            ("", Embedded::Absent) => Ok(None),
            ("", Embedded::BuiltIn(name)) => Ok(Some(Reference {
                provider: Provider::Local,
                name: name.to_owned(),
                layer: Layer::Default,
            })),
            (text, _) => Reference::parse(text, origin).map(Some),
        }
    }

    fn parse(text: &str, origin: &Origin) -> Result<Reference, ModelError> {
        let malformed = || ModelError::Malformed { text: raw::cut(text), origin: origin.clone() };
        let (word, name) = text.split_once('/').ok_or_else(malformed)?;
        if word.is_empty() || name.trim().is_empty() {
            return Err(malformed());
        }
        let provider = known_provider(word, &origin.to_string())?;
        Ok(Reference { provider, name: name.to_owned(), layer: origin.layer() })
    }
}

/// The provider of a word.
pub(super) fn known_provider(word: &str, place: &str) -> Result<Provider, ModelError> {
    Provider::of_word(word).ok_or_else(|| ModelError::UnknownProvider {
        word: raw::cut(word),
        place: place.to_owned(),
        nearest: nearest(word, Provider::WORDS.iter().copied()),
    })
}

/// The address of the strongest layer that names one. An address that stands beside a model of another provider, in a
/// weaker layer than the chosen model, belongs to that other model and is passed over.
fn address(
    reference: &Reference,
    bundles: &[Bundle],
    environment: &Environment,
) -> Result<Endpoint, ModelError> {
    let fits = |bundle: &&Bundle| {
        bundle.layer >= reference.layer
            || bundle.provider.is_none_or(|provider| provider == reference.provider)
    };
    if let Some(endpoint) = bundles.iter().filter(fits).find_map(|bundle| bundle.base_url.clone()) {
        return Ok(endpoint);
    }
    reference.provider.home(environment)?.ok_or(ModelError::NoAddress(reference.provider))
}
