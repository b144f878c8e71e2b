//! Builds the models that a working verb talks to, and finds them again by route.
//!
//! Which model, where and with which key is decided by the settings; this module only builds what they chose.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use legwork_agent::models::{
    ApiKey, CallLimits, Chain, LocalServer, Model, Protocol, Proxies, RemoteModel, RemoteOptions, Script,
    Scripted, SharedHttp, find_local_server,
};
use legwork_agent::redact;
use legwork_agent::tools::{Advertised, NamedRoutes};
use legwork_agent::worker::ModelSource;
use legwork_core::batch::Route;

use crate::args::CommonArgs;
use crate::embedded;
use crate::failure::{CliError, Kind};
use crate::invocation::Invocation;
use crate::settings::model::{Endpoint, ModelChoice, ModelError, Provider, ROUTES, places_to_look};
use crate::settings::{DelegationSettings, Settings};
use crate::stderr;

/// The models of one process.
pub struct Models {
    /// The route of the conversation itself.
    pub main: Route,
    /// The route of its children.
    pub children: Route,
    /// Grows when a conversation changes its model and when a route is named; what was delegated before keeps its own.
    known: RwLock<HashMap<Route, Known>>,
    invocation: Invocation,
    settings: Settings,
    http: SharedHttp,
}

/// A route that is worked out: what was chosen, and the models of its chain.
#[derive(Clone)]
struct Known {
    choice: ModelChoice,
    links: Arc<[Arc<dyn Model>]>,
}

impl Models {
    /// Builds the model of the conversation and that of its children. Where none is configured, a server on this
    /// machine is looked for, for at most 300 ms.
    ///
    /// # Errors
    /// When no model is configured and none is found, or one of them cannot be built.
    pub async fn resolve(invocation: &Invocation, settings: &Settings) -> Result<Models, CliError> {
        let http = SharedHttp::new(Proxies::read(|name| {
            // A variable that is not text names no address.
            invocation.environment.text(name).ok().flatten().map(str::to_owned)
        }));
        let found = find_local_server(&places_to_look(settings)?, &http).await;
        let main = match found {
            Some(server) => of_server(invocation, settings, server)?,
            None => invocation.model(settings, embedded::AVAILABLE)?,
        };
        let children = main.for_children(settings, &invocation.environment)?;
        let models = Models {
            main: route(&main),
            children: route(&children),
            known: RwLock::new(HashMap::new()),
            invocation: invocation.clone(),
            settings: settings.clone(),
            http,
        };
        models.learn(main)?;
        models.learn(children)?;
        Ok(models)
    }

    /// Builds the model `name` as if the program had been started with it, and keeps it for those that are started with its
    /// route. It may take a while.
    ///
    /// # Errors
    /// When there is no such model, or it cannot be built. Nothing has changed then.
    pub fn add(&self, invocation: &Invocation, name: &str) -> Result<(Arc<dyn Model>, Route), CliError> {
        let common = CommonArgs { model: Some(name.to_owned()), quiet: true, ..invocation.common.clone() };
        let invocation = Invocation { common, ..invocation.clone() };
        let settings = invocation.settings()?;
        let choice = invocation.model(&settings, embedded::AVAILABLE)?;
        let route = route(&choice);
        Ok((self.learn(choice)?.model(), route))
    }

    /// Builds the models of a choice and keeps them.
    fn learn(&self, choice: ModelChoice) -> Result<Known, CliError> {
        let route = route(&choice);
        if let Some(known) = self.known(&route) {
            return Ok(known);
        }
        let chain = std::iter::once(&choice).chain(&choice.fallbacks);
        let links =
            chain.map(|link| build(&self.invocation, link, &self.http)).collect::<Result<Vec<_>, _>>()?;
        let known = Known { choice, links: links.into() };
        let mut all = self.known.write().unwrap_or_else(PoisonError::into_inner);
        Ok(all.entry(route).or_insert(known).clone())
    }

    fn known(&self, route: &Route) -> Option<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(route).cloned()
    }

    /// A route that was stored by another process: found by what it was made of, or made again from the table that it
    /// names, if that still says the same.
    fn found_again(&self, wanted: &Route) -> Option<Known> {
        let Some(table) = &wanted.table else {
            // Routes that were stored before they named their table.
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            let same =
                |route: &&Route| Route { table: None, fallbacks: Vec::new(), ..(*route).clone() } == *wanted;
            return known.keys().find(same).and_then(|route| known.get(route)).cloned();
        };
        let name = table.strip_prefix(ROUTES)?;
        [&self.main, &self.children].into_iter().find_map(|parent| {
            let choice = self.named(name, parent).ok()?;
            if route(&choice) == *wanted { self.learn(choice).ok() } else { None }
        })
    }

    fn named(&self, name: &str, parent: &Route) -> Result<ModelChoice, ModelError> {
        let parent = self.known(parent).or_else(|| self.known(&self.main)).map(|known| known.choice);
        let parent =
            parent.ok_or_else(|| ModelError::UnknownRoute { name: name.to_owned(), known: Vec::new() })?;
        parent.for_route(name, &self.settings, &self.invocation.environment)
    }
}

impl Known {
    /// A model for one agent: a chain goes on from where it stands, so no two agents share one.
    fn model(&self) -> Arc<dyn Model> {
        match &*self.links {
            [only] => Arc::clone(only),
            _ => Arc::new(Chain::new(Arc::clone(&self.links))),
        }
    }
}

impl ModelSource for Models {
    fn model(&self, route: &Route) -> Result<Arc<dyn Model>, String> {
        let known = self.known(route).or_else(|| self.found_again(route));
        known.map(|known| known.model()).ok_or_else(|| {
            let key = route
                .key_source
                .as_ref()
                .map(|source| format!(" with the key of {source}"))
                .unwrap_or_default();
            format!(
                "the model {}{key} is not configured in this process; configure it and start again",
                route.model
            )
        })
    }
}

impl NamedRoutes for Models {
    fn advertised(&self) -> Vec<Advertised> {
        advertised(&self.settings.delegation)
    }

    fn resolve(&self, name: &str, parent: &Route) -> Result<Route, String> {
        let choice = self.named(name, parent).map_err(|error| error.to_string())?;
        let route = route(&choice);
        self.learn(choice).map_err(|error| error.to_string())?;
        Ok(route)
    }
}

/// The named routes as models read of them: sorted, and without what looks like a credential.
pub fn advertised(settings: &DelegationSettings) -> Vec<Advertised> {
    let routes = settings.routes.iter();
    let told = routes.map(|(name, route)| Advertised {
        name: name.clone(),
        description: redact(&route.description).into_owned(),
    });
    told.collect()
}

/// The model of a server that was found. Nobody asked for it by name, so it is told.
fn of_server(
    invocation: &Invocation,
    settings: &Settings,
    server: LocalServer,
) -> Result<ModelChoice, CliError> {
    let LocalServer { protocol, base_url, model } = server;
    let provider = match protocol {
        Protocol::Ollama => Provider::Ollama,
        Protocol::ChatCompletions | Protocol::Responses | Protocol::AnthropicMessages | Protocol::Gemini => {
            Provider::OpenAiCompatible
        }
    };
    let at = Endpoint::parse(&base_url).map_err(|error| {
        CliError::new(Kind::Internal, format!("BUG: a server was found at an address that is none: {error}"))
    })?;
    let window = settings.model.window_tokens.map(|tokens| tokens as u64);
    let choice = ModelChoice { window, ..ModelChoice::found(provider, model, at) };
    if !invocation.common.quiet {
        stderr::tell(&format!("no model is configured: {} is used, found at {base_url}", choice.reference()));
    }
    Ok(choice)
}

/// What is stored of a choice: everything but the key.
fn route(choice: &ModelChoice) -> Route {
    Route {
        model: choice.reference(),
        base_url: choice.base_url.as_ref().map(|endpoint| endpoint.as_str().to_owned()),
        api_mode: choice.api_mode.word().to_owned(),
        key_source: choice.key_source.clone(),
        table: choice.table.clone(),
        fallbacks: choice.fallbacks.iter().map(ModelChoice::reference).collect(),
    }
}

fn build(
    invocation: &Invocation,
    choice: &ModelChoice,
    http: &SharedHttp,
) -> Result<Arc<dyn Model>, CliError> {
    match choice.provider {
        Provider::Local => embedded::open(invocation, &choice.name),
        Provider::Scripted => scripted(invocation, &choice.name),
        Provider::OpenAi
        | Provider::OpenAiCompatible
        | Provider::Anthropic
        | Provider::Gemini
        | Provider::Ollama => remote(choice, http),
    }
}

fn remote(choice: &ModelChoice, http: &SharedHttp) -> Result<Arc<dyn Model>, CliError> {
    let Some(endpoint) = &choice.base_url else {
        return Err(CliError::new(Kind::Internal, "BUG: a provider with an address has none"));
    };
    let options = RemoteOptions {
        protocol: choice.api_mode,
        provider: choice.provider.word().to_owned(),
        base_url: endpoint.as_str().to_owned(),
        key: ApiKey::new(choice.key.expose()),
        model: choice.name.clone(),
        window: choice.window,
        effort: choice.reasoning_effort,
        overrides: choice.request_overrides.clone(),
        limits: CallLimits::default(),
    };
    match RemoteModel::new(options, http) {
        Ok(model) => Ok(Arc::new(model)),
        Err(error) => Err(CliError::new(Kind::Configuration, error.to_string())),
    }
}

fn scripted(invocation: &Invocation, name: &str) -> Result<Arc<dyn Model>, CliError> {
    let path: PathBuf = invocation.paths.working_folder().join(name);
    match Script::read(&path) {
        Ok(script) => Ok(Arc::new(Scripted::new(name, script))),
        Err(error) => Err(CliError::new(Kind::Input, error.to_string())),
    }
}
