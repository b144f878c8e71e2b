//! Builds the models that a working verb talks to, and finds them again by route.
//!
//! Which model, where and with which key is decided by the settings; this module only builds what they chose.

mod secrets;

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
use serde_json::Value;

use crate::args::CommonArgs;
use crate::embedded;
use crate::failure::{CliError, Kind};
use crate::invocation::Invocation;
use crate::settings::model::{Endpoint, ModelChoice, ModelError, Provider, ROUTES, places_to_look};
use crate::settings::{DelegationSettings, Settings};
use crate::stderr;

/// Stands where a process has no model of its own; it is no name of one.
const NO_MODEL: &str = "none";

/// The models of one process.
pub struct Models {
    /// The route of the conversation itself.
    pub main: Route,
    /// The route of its children.
    pub children: Route,
    /// Grows when a conversation changes its model and when a route is named; what was delegated before keeps its own.
    known: RwLock<HashMap<Route, Known>>,
    /// What was added by name, the last choice last.
    added: RwLock<Vec<(Route, String)>>,
    invocation: Invocation,
    settings: Settings,
    http: SharedHttp,
    /// Why there is none at all, if so.
    why_none: Option<String>,
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
            added: RwLock::default(),
            invocation: invocation.clone(),
            settings: settings.clone(),
            http,
            why_none: None,
        };
        models.learn(main)?;
        models.learn(children)?;
        Ok(models)
    }

    /// The keys of this process, which no tool's result may show.
    pub fn secrets(&self) -> Vec<String> {
        secrets::known(&self.invocation.environment, &self.settings)
    }

    /// As [`Models::resolve`], for a process that only goes on with what others have begun: it may do that without a model of
    /// its own, since what is to go on names its own, and what has been answered needs none.
    ///
    /// # Errors
    /// When a model is configured wrongly.
    pub async fn for_work_of_others(
        invocation: &Invocation,
        settings: &Settings,
    ) -> Result<Models, CliError> {
        match Models::resolve(invocation, settings).await {
            Err(error) if matches!(error.kind(), Kind::NoModel | Kind::NoKey) => {
                Ok(Models::none(invocation, settings, error.in_a_line()))
            }
            resolved => resolved,
        }
    }

    /// No models, for this reason.
    fn none(invocation: &Invocation, settings: &Settings, why: String) -> Models {
        let route = Route {
            model: NO_MODEL.to_owned(),
            base_url: None,
            api_mode: Protocol::ChatCompletions.word().to_owned(),
            key_source: None,
            terms: None,
            table: None,
            fallbacks: Vec::new(),
        };
        Models {
            main: route.clone(),
            children: route,
            known: RwLock::default(),
            added: RwLock::default(),
            invocation: invocation.clone(),
            settings: settings.clone(),
            http: SharedHttp::new(Proxies::read(|_| None)),
            why_none: Some(why),
        }
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
        let model = self.learn(choice)?.model();
        let mut added = self.added.write().unwrap_or_else(PoisonError::into_inner);
        added.retain(|(before, _)| *before != route);
        added.push((route.clone(), name.to_owned()));
        Ok((model, route))
    }

    /// With which model another process is to be started so that it asks what these routes say: by the name under which it was
    /// added here, or as this process was started. Routes of tables are found from any. Where nothing decides, it is the last
    /// that was added.
    ///
    /// # Errors
    /// The models, when there are several: a process is started with one.
    pub fn one_for_all<'a>(
        &self,
        routes: impl IntoIterator<Item = &'a Route>,
    ) -> Result<Option<String>, Vec<String>> {
        let added = self.added.read().unwrap_or_else(PoisonError::into_inner);
        let is_of_a_table =
            |route: &&Route| route.table.as_deref().is_some_and(|table| table.starts_with(ROUTES));
        let mut needed: Vec<(Option<&String>, &str)> = Vec::new();
        for route in routes.into_iter().filter(|route| !is_of_a_table(route)) {
            let name = added.iter().find(|(known, _)| known == route).map(|(_, name)| name);
            if !needed.iter().any(|(other, _)| *other == name) {
                needed.push((name, &route.model));
            }
        }
        match needed.as_slice() {
            [] => Ok(added.last().map(|(_, name)| name.clone())),
            [(name, _)] => Ok(name.cloned()),
            several => Err(several.iter().map(|(_, model)| (*model).to_owned()).collect()),
        }
    }

    /// Whether `--model` leads to what this route asks: this process asks other models, and one that is started with
    /// that of the route asks it in the same place. Whether the key is to be had there is not asked.
    pub fn leads_to(&self, wanted: &Route) -> bool {
        let here = [&self.main, &self.children];
        if here.iter().any(|route| route.model == wanted.model) {
            return false;
        }
        let common =
            CommonArgs { model: Some(wanted.model.clone()), quiet: true, ..self.invocation.common.clone() };
        let invocation = Invocation { common, ..self.invocation.clone() };
        match invocation.settings().and_then(|settings| configured(&invocation, &settings)) {
            Ok(there) => there.iter().any(|route| is_same_place(route, wanted)),
            Err(error) => {
                tracing::debug!(%error, "where that model would be asked cannot be told");
                here.iter().any(|route| route.base_url == wanted.base_url)
            }
        }
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

    /// A route that was stored by another process: made again from the table that it names, if that still says the same, or
    /// else found among those that lead to the same models with the same keys. With what else these are asked may have been
    /// configured anew since.
    fn found_again(&self, wanted: &Route) -> Option<Known> {
        let made = self.made_again(wanted);
        let learnt = |choice: &ModelChoice| self.learn(choice.clone()).ok();
        if let Some(same) = made.iter().find(|choice| route(choice) == *wanted) {
            return learnt(same);
        }
        let alike = made.iter().find(|choice| is_alike(&route(choice), wanted));
        self.known_like(wanted).or_else(|| alike.and_then(learnt))
    }

    /// What the table of a named route gives for the conversation and for its children.
    fn made_again(&self, wanted: &Route) -> Vec<ModelChoice> {
        let name = wanted.table.as_deref().and_then(|table| table.strip_prefix(ROUTES));
        let parents = [&self.main, &self.children];
        let made =
            name.map(|name| parents.into_iter().filter_map(|parent| self.named(name, parent).ok()).collect());
        made.unwrap_or_default()
    }

    fn known_like(&self, wanted: &Route) -> Option<Known> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let like = known.iter().filter(|(route, _)| is_alike(route, wanted) || is_older(wanted, route));
        // There may be several; always the same one of them.
        like.min_by(|(one, _), (other, _)| one.terms.cmp(&other.terms)).map(|(_, known)| known.clone())
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
            let why = self.why_none.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            format!("the model {} is not configured in this process{why}", in_words(route))
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
        terms: Some(terms(choice)),
    }
}

/// A digest of what else a choice and its fallbacks are asked with and where, so that two that differ in nothing else are
/// told apart (CRED-24). Nothing can be read back from it.
fn terms(choice: &ModelChoice) -> String {
    // FNV-1a: it must give the same in every build, and only tells alike from unlike.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for link in std::iter::once(choice).chain(&choice.fallbacks) {
        let ModelChoice {
            window, reasoning_effort, request_overrides, base_url, api_mode, key_source, ..
        } = link;
        let address = base_url.as_ref().map(Endpoint::as_str);
        let text = format!(
            "{}|{window:?}|{reasoning_effort:?}|{}|{address:?}|{}|{key_source:?};",
            link.reference(),
            Value::Object(request_overrides.clone()),
            api_mode.word(),
        );
        for byte in text.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

/// What a conversation and its subagents ask that are begun here, as far as the configuration says it and nobody has to
/// be asked.
///
/// # Errors
/// When no model is configured.
pub fn configured(invocation: &Invocation, settings: &Settings) -> Result<[Route; 2], CliError> {
    let main = invocation.model(settings, embedded::AVAILABLE)?;
    let children = main.for_children(settings, &invocation.environment)?;
    Ok([route(&main), route(&children)])
}

/// Whether two routes ask the same model at the same address.
fn is_same_place(one: &Route, other: &Route) -> bool {
    (&one.model, &one.base_url) == (&other.model, &other.base_url)
}

/// Whether two routes lead to the same models with the same keys.
fn is_alike(one: &Route, other: &Route) -> bool {
    Route { terms: other.terms.clone(), ..one.clone() } == *other
}

/// Whether a route was stored before routes named their table, and is this one.
fn is_older(stored: &Route, route: &Route) -> bool {
    Route { table: None, fallbacks: Vec::new(), terms: None, ..route.clone() } == *stored
}

/// A stored route with all that has to be configured for it.
fn in_words(route: &Route) -> String {
    let Route { model, base_url, key_source, table, fallbacks, api_mode: _, terms: _ } = route;
    let part = |words: &str, what: &Option<String>| {
        what.as_ref().map(|what| format!("{words} {what}")).unwrap_or_default()
    };
    let mut words = format!(
        "{model}{}{}{}",
        part(" at", base_url),
        part(" with the key of", key_source),
        part(" from the table", table),
    );
    if !fallbacks.is_empty() {
        words.push_str(&format!(" and its fallbacks {}", fallbacks.join(", ")));
    }
    words
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
