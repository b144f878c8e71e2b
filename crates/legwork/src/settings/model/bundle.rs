//! What one layer says about the model: settings that stand together belong together.
//!
//! A layer that names an address and a key means this key for this address. A stronger layer that names another
//! address takes over the address only; the key stays behind.

use super::super::environment::Environment;
use super::super::origin::{Assigned, Layer, Origin, Shown};
use super::super::secret::Secret;
use super::super::values::Settings;
use super::super::variables::API_KEY;
use super::endpoint::Endpoint;
use super::error::ModelError;
use super::provider::Provider;

/// A key and the name of its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub secret: Secret,
    /// Where it was read: the name of a variable or a configuration key.
    pub source: String,
}

/// How a layer names its key.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// It stands in our own variable.
    Own,
    /// It stands in the variable that `api_key_env` names.
    Named { variable: String, origin: Origin },
}

/// Where a key may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// To this origin only.
    To(Endpoint),
    /// To whatever is configured: it was given for this one process, with no address beside it.
    Anywhere,
    /// Nowhere: it is not known what it belongs to.
    Nowhere,
}

impl Bound {
    /// Whether a key with this bound may go to an address.
    pub fn allows(&self, endpoint: &Endpoint) -> bool {
        match self {
            Bound::To(own) => own.same_origin(endpoint),
            Bound::Anywhere => true,
            Bound::Nowhere => false,
        }
    }
}

/// What one layer says about the model.
#[derive(Debug)]
pub struct Bundle {
    /// The layer.
    pub layer: Layer,
    /// The provider of the model it names, if it names one that is known.
    pub provider: Option<Provider>,
    /// The address it names.
    pub base_url: Option<Endpoint>,
    /// The keys it names, strongest first.
    pub keys: Vec<KeySource>,
}

impl Bundle {
    /// The bundles of all layers that may choose a model, strongest first. A project may not.
    ///
    /// # Errors
    /// When an address is not one.
    pub fn all(settings: &Settings, environment: &Environment) -> Result<Vec<Bundle>, ModelError> {
        let layers = [Layer::Flag, Layer::Environment, Layer::User];
        layers.into_iter().map(|layer| Bundle::of_layer(layer, settings, environment)).collect()
    }

    fn of_layer(layer: Layer, settings: &Settings, environment: &Environment) -> Result<Bundle, ModelError> {
        let text = |key| given(settings, key, layer).and_then(|assigned| text_of(&assigned.shown));
        let base_url = text("model.base_url").map(Endpoint::parse).transpose()?;
        let provider = text("model.default").and_then(|model| Provider::of_word(model.split('/').next()?));
        let mut keys = Vec::new();
        if layer == Layer::Environment && environment.has(API_KEY) {
            keys.push(KeySource::Own);
        }
        if let Some(assigned) = given(settings, "model.api_key_env", layer)
            && let Some(variable) = text_of(&assigned.shown)
        {
            keys.push(KeySource::Named { variable: variable.to_owned(), origin: assigned.origin.clone() });
        }
        Ok(Bundle { layer, provider, base_url, keys })
    }

    /// Where the keys of this layer may go, when the model chosen is `provider`'s.
    ///
    /// # Errors
    /// When the provider's usual variable is not an address.
    pub fn bound(&self, provider: Provider, environment: &Environment) -> Result<Bound, ModelError> {
        if let Some(endpoint) = &self.base_url {
            return Ok(Bound::To(endpoint.clone()));
        }
        let (home, otherwise) = match self.layer {
            Layer::Flag | Layer::Environment => match self.provider {
                None => (None, Bound::Anywhere),
                Some(own) => (own.home(environment)?, Bound::Anywhere),
            },
            Layer::User | Layer::Project | Layer::Default => {
                (self.provider.unwrap_or(provider).own_endpoint(), Bound::Nowhere)
            }
        };
        Ok(home.map_or(otherwise, Bound::To))
    }
}

impl KeySource {
    /// The name of the source.
    pub fn name(&self) -> &str {
        match self {
            KeySource::Own => API_KEY,
            KeySource::Named { variable, .. } => variable,
        }
    }

    /// The key itself.
    ///
    /// # Errors
    /// When the named variable is not set or not text.
    pub fn read(&self, environment: &Environment) -> Result<Key, ModelError> {
        let found = environment.text(self.name())?;
        match (self, found) {
            (KeySource::Own | KeySource::Named { .. }, Some(text)) => {
                Ok(Key { secret: Secret::new(text), source: self.name().to_owned() })
            }
            (KeySource::Named { variable, origin }, None) => {
                Err(ModelError::KeyVariableUnset { variable: variable.clone(), origin: origin.clone() })
            }
            (KeySource::Own, None) => {
                Err(ModelError::KeyVariableUnset { variable: API_KEY.to_owned(), origin: Origin::Default })
            }
        }
    }
}

fn given<'a>(settings: &'a Settings, key: &str, layer: Layer) -> Option<&'a Assigned> {
    settings.trail(key).iter().rev().find(|assigned| assigned.origin.layer() == layer)
}

fn text_of(shown: &Shown) -> Option<&str> {
    match shown {
        Shown::Text(text) if !text.is_empty() => Some(text),
        Shown::Text(_)
        | Shown::Unset
        | Shown::Masked
        | Shown::Flag(_)
        | Shown::Whole(_)
        | Shown::List(_)
        | Shown::Table(_) => None,
    }
}
