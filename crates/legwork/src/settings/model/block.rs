//! The model of a table that says what is different from a parent's: `[delegation]`, a named route, a link of a fallback
//! chain. A key goes only where it was configured for, and a parent's only to the parent's own origin (CRED-23).

use super::super::blocks::{EXTRA_BODY, ModelBlock, Overrides};
use super::super::environment::Environment;
use super::super::origin::Origin;
use super::super::secret::Secret;
use super::super::values::{ApiMode, Settings};
use super::bundle::{Key, KeySource};
use super::choice::{ModelChoice, known_provider};
use super::endpoint::Endpoint;
use super::error::ModelError;
use super::provider::Provider;

/// The table of the children's own model.
const DELEGATION: &str = "delegation";
/// What the names of the tables of routes begin with.
pub const ROUTES: &str = "delegation.routes.";

/// What becomes of an address that no key is configured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyless {
    /// It is asked without one, unless the provider is known to need it.
    Asked,
    /// It is refused, unless the table says that none is needed or the provider has no keys at all.
    Refused,
}

/// A block and where it stands.
pub(super) struct Table<'a> {
    pub name: &'a str,
    pub block: &'a ModelBlock,
    pub keyless: Keyless,
    /// The place that errors name.
    pub origin: Origin,
}

impl ModelChoice {
    /// The model that children talk to: this one, with what `[delegation]` changes. Nothing set: the same in all
    /// parts (CRED-1).
    ///
    /// # Errors
    /// When the provider is unknown, has no address or no model, or needs a key that is not there.
    pub fn for_children(
        &self,
        settings: &Settings,
        environment: &Environment,
    ) -> Result<ModelChoice, ModelError> {
        let block = &settings.delegation.block;
        if *block == ModelBlock::default() {
            return Ok(self.clone());
        }
        let origin = settings.origin("delegation.provider").clone();
        let table = Table { name: DELEGATION, block, keyless: Keyless::Asked, origin };
        let mut choice = self.with_block(&table, environment)?;
        choice.table = Some(DELEGATION.to_owned());
        Ok(choice)
    }

    /// The model of a named route, as this one is the caller's. Nothing of the route is shared with another caller
    /// (CRED-24).
    ///
    /// # Errors
    /// As [`ModelChoice::for_children`], and when the route leads to another origin and brings no key of its own.
    pub fn for_route(
        &self,
        name: &str,
        settings: &Settings,
        environment: &Environment,
    ) -> Result<ModelChoice, ModelError> {
        let route = settings.delegation.routes.get(name);
        let route = route.ok_or_else(|| ModelError::UnknownRoute {
            name: super::super::raw::cut(name),
            known: settings.delegation.routes.keys().cloned().collect(),
        })?;
        let table_name = format!("{ROUTES}{name}");
        let origin = settings.origin("delegation.routes").clone();
        let table = Table { name: &table_name, block: &route.block, keyless: Keyless::Refused, origin };
        let mut choice = self.with_block(&table, environment)?;
        choice.table = Some(table_name);
        Ok(choice)
    }

    /// The chain of this model out of its links, each with the key of its own origin only.
    ///
    /// # Errors
    /// As [`ModelChoice::for_route`], for the first link that cannot be used.
    pub(super) fn with_links(
        mut self,
        links: &[ModelBlock],
        name: &str,
        origin: &Origin,
        environment: &Environment,
    ) -> Result<ModelChoice, ModelError> {
        self.fallbacks = Vec::new();
        let chain = links.iter().enumerate().map(|(index, block)| {
            let name = format!("{name}.fallback_providers[{index}]");
            let table = Table { name: &name, block, keyless: Keyless::Refused, origin: origin.clone() };
            self.with_block(&table, environment)
        });
        self.fallbacks = chain.collect::<Result<Vec<_>, _>>()?;
        Ok(self)
    }

    fn with_block(&self, table: &Table<'_>, environment: &Environment) -> Result<ModelChoice, ModelError> {
        let block = table.block;
        let mut choice = if block.provider.is_empty() && block.base_url.is_empty() {
            self.renamed(table)?
        } else {
            self.elsewhere(table, environment)?
        };
        choice.reasoning_effort = block.reasoning_effort.or(self.reasoning_effort);
        choice.request_overrides =
            if choice.is_at(self) { self.request_overrides.clone() } else { Overrides::new() };
        lay_over(&mut choice.request_overrides, &block.request_overrides);
        let pinned = !(block.model.is_empty() && block.provider.is_empty() && block.base_url.is_empty());
        match &block.fallback_providers {
            Some(links) => choice.with_links(links, table.name, &table.origin, environment),
            None if pinned => Ok(ModelChoice { fallbacks: Vec::new(), ..choice }),
            None => Ok(ModelChoice { fallbacks: self.fallbacks.clone(), ..choice }),
        }
    }

    /// Another model at the same place, with the same key (CRED-2).
    fn renamed(&self, table: &Table<'_>) -> Result<ModelChoice, ModelError> {
        let block = table.block;
        if !block.api_key.is_empty() || !block.api_key_env.is_empty() {
            return Err(ModelError::HomelessKey { table: table.name.to_owned() });
        }
        let mut choice = self.clone();
        // What is configured of a model's window is not true of another model (CRED-11).
        if !block.model.is_empty() && choice.name != block.model {
            choice.name.clone_from(&block.model);
            choice.window = None;
        }
        choice.api_mode = block.api_mode.unwrap_or(self.api_mode);
        Ok(choice)
    }

    /// Provider and address are one bundle with their key (CRED-6).
    fn elsewhere(&self, table: &Table<'_>, environment: &Environment) -> Result<ModelChoice, ModelError> {
        let block = table.block;
        let provider = table.provider()?;
        let mut choice = ModelChoice::bare(provider, self.name_in(table, provider)?);
        if !provider.has_address() {
            return Ok(choice);
        }
        let named = (!block.base_url.is_empty()).then(|| Endpoint::parse(&block.base_url)).transpose()?;
        let endpoint = named.map_or_else(|| provider.home(environment), |endpoint| Ok(Some(endpoint)))?;
        let endpoint = endpoint.ok_or(ModelError::NoAddress(provider))?;
        if let Some(key) = table.own_key(environment)? {
            choice.take(key);
        } else if block.needs_no_key {
            choice.withheld.extend(self.key_source.clone());
        } else if self.base_url.as_ref().is_some_and(|own| own.same_origin(&endpoint)) {
            choice.key = self.key.clone();
            choice.key_source.clone_from(&self.key_source);
        } else {
            choice.withheld.extend(self.key_source.clone());
            choice.find_vendor_key(&endpoint, environment)?;
            let keyless = choice.key.is_empty() && provider.vendor().is_some();
            if keyless && table.keyless == Keyless::Refused {
                return Err(ModelError::NoOwnKey { table: table.name.to_owned(), endpoint });
            }
        }
        // Another provider speaks its own way (CRED-8).
        choice.api_mode = block.api_mode.unwrap_or_else(|| provider.usual_mode(&endpoint));
        choice.base_url = Some(endpoint);
        Ok(choice)
    }

    /// A model's name means something only to its provider: another provider needs another name.
    fn name_in(&self, table: &Table<'_>, provider: Provider) -> Result<String, ModelError> {
        match table.block.model.as_str() {
            "" if provider == self.provider || table.block.provider.is_empty() => Ok(self.name.clone()),
            "" => Err(ModelError::NoChildModel(provider)),
            name => Ok(name.to_owned()),
        }
    }

    /// Whether this is asked at the same place as another one, so that what is told to that place holds for both. A
    /// router's fields mean nothing to another provider (CRED-10).
    fn is_at(&self, other: &ModelChoice) -> bool {
        let same_origin = match (&self.base_url, &other.base_url) {
            (Some(own), Some(others)) => own.same_origin(others),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        self.provider == other.provider && same_origin
    }

    /// A model of which nothing but its name is known.
    pub(super) fn bare(provider: Provider, name: String) -> ModelChoice {
        ModelChoice {
            provider,
            name,
            base_url: None,
            api_mode: ApiMode::default(),
            key: Secret::default(),
            key_source: None,
            withheld: Vec::new(),
            window: None,
            reasoning_effort: None,
            request_overrides: Overrides::new(),
            fallbacks: Vec::new(),
            table: None,
        }
    }
}

impl Table<'_> {
    /// With an address and no provider it is any server that speaks the usual protocol.
    fn provider(&self) -> Result<Provider, ModelError> {
        match self.block.provider.as_str() {
            "" => Ok(Provider::OpenAiCompatible),
            word => known_provider(word, &format!("`{}.provider` ({})", self.name, self.origin)),
        }
    }

    fn own_key(&self, environment: &Environment) -> Result<Option<Key>, ModelError> {
        if !self.block.api_key.is_empty() {
            let source = format!("{}.api_key", self.name);
            return Ok(Some(Key { secret: self.block.api_key.clone(), source }));
        }
        if self.block.api_key_env.is_empty() {
            return Ok(None);
        }
        let variable = self.block.api_key_env.clone();
        KeySource::Named { variable, origin: self.origin.clone() }.read(environment).map(Some)
    }
}

/// Lays fields over others: whole values, but those of `extra_body` one by one (CRED-9).
fn lay_over(under: &mut Overrides, over: &Overrides) {
    for (name, value) in over {
        match (under.get_mut(name).and_then(|value| value.as_object_mut()), value.as_object()) {
            (Some(known), Some(fields)) if name == EXTRA_BODY => {
                known.extend(fields.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            (Some(_) | None, Some(_) | None) => {
                under.insert(name.clone(), value.clone());
            }
        }
    }
}
