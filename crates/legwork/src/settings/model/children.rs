//! The model of the children: the parent's, unless `[delegation]` says otherwise.

use super::super::environment::Environment;
use super::super::secret::Secret;
use super::super::values::{ApiMode, Settings};
use super::bundle::Key;
use super::choice::{ModelChoice, known_provider};
use super::endpoint::Endpoint;
use super::error::ModelError;
use super::provider::Provider;

impl ModelChoice {
    /// The model that children talk to: this one, with what `[delegation]` changes. Nothing set: the same in all
    /// parts. Only `model` set: another name at the same place. With `provider` or `base_url` set the place is another
    /// one, and a key goes there only if it stands beside them or belongs to the same origin.
    ///
    /// # Errors
    /// When the provider is unknown, has no address or no model, or needs a key that is not there.
    pub fn for_children(
        &self,
        settings: &Settings,
        environment: &Environment,
    ) -> Result<ModelChoice, ModelError> {
        let wanted = &settings.delegation;
        if wanted.provider.is_empty() && wanted.base_url.is_empty() {
            if !wanted.api_key.is_empty() {
                return Err(ModelError::HomelessKey);
            }
            let mut choice = self.clone();
            if !wanted.model.is_empty() {
                choice.rename(&wanted.model);
            }
            choice.api_mode = wanted.api_mode.unwrap_or(self.api_mode);
            return Ok(choice);
        }
        self.elsewhere(settings, environment)
    }

    fn elsewhere(&self, settings: &Settings, environment: &Environment) -> Result<ModelChoice, ModelError> {
        let wanted = &settings.delegation;
        let provider = self.child_provider(settings)?;
        let mut choice = ModelChoice {
            provider,
            name: self.child_model(settings, provider)?,
            base_url: None,
            api_mode: ApiMode::default(),
            key: Secret::default(),
            key_source: None,
            withheld: Vec::new(),
            window: None,
        };
        if !provider.has_address() {
            return Ok(choice);
        }
        let named = (!wanted.base_url.is_empty()).then(|| Endpoint::parse(&wanted.base_url)).transpose()?;
        let endpoint = named.map_or_else(|| provider.home(environment), |endpoint| Ok(Some(endpoint)))?;
        let endpoint = endpoint.ok_or(ModelError::NoAddress(provider))?;
        if !wanted.api_key.is_empty() {
            choice.take(Key { secret: wanted.api_key.clone(), source: "delegation.api_key".to_owned() });
        } else if self.base_url.as_ref().is_some_and(|own| own.same_origin(&endpoint)) {
            choice.key = self.key.clone();
            choice.key_source.clone_from(&self.key_source);
        } else {
            choice.withheld.extend(self.key_source.clone());
            choice.find_vendor_key(&endpoint, environment)?;
        }
        choice.api_mode = wanted.api_mode.unwrap_or_else(|| provider.usual_mode(&endpoint));
        choice.base_url = Some(endpoint);
        Ok(choice)
    }

    /// What is configured of a model's window is not true of another model.
    fn rename(&mut self, name: &str) {
        if self.name != name {
            name.clone_into(&mut self.name);
            self.window = None;
        }
    }

    /// With an address and no provider it is any server that speaks the usual protocol.
    fn child_provider(&self, settings: &Settings) -> Result<Provider, ModelError> {
        match settings.delegation.provider.as_str() {
            "" => Ok(Provider::OpenAiCompatible),
            word => known_provider(
                word,
                &format!("`delegation.provider` ({})", settings.origin("delegation.provider")),
            ),
        }
    }

    /// A model's name means something only to its provider: another provider needs another name.
    fn child_model(&self, settings: &Settings, provider: Provider) -> Result<String, ModelError> {
        match settings.delegation.model.as_str() {
            "" if provider == self.provider || settings.delegation.provider.is_empty() => {
                Ok(self.name.clone())
            }
            "" => Err(ModelError::NoChildModel(provider)),
            name => Ok(name.to_owned()),
        }
    }
}
