//! Builds the models that a working verb talks to, and finds them again by route.
//!
//! Which model, where and with which key is decided by the settings; this module only builds what they chose.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use legwork_agent::models::{
    ApiKey, CallLimits, LocalServer, Model, Protocol, Proxies, RemoteModel, RemoteOptions, Script, Scripted,
    SharedHttp, find_local_server,
};
use legwork_agent::worker::ModelSource;
use legwork_core::batch::Route;

use crate::args::CommonArgs;
use crate::embedded;
use crate::failure::{CliError, Kind};
use crate::invocation::Invocation;
use crate::settings::model::{Endpoint, ModelChoice, Provider, places_to_look};
use crate::settings::{ApiMode, Settings};
use crate::stderr;

/// The models of one process.
pub struct Models {
    /// The route of the conversation itself.
    pub main: Route,
    /// The route of its children.
    pub children: Route,
    /// Grows when a conversation changes its model; what was delegated before keeps its own.
    by_route: RwLock<HashMap<String, Arc<dyn Model>>>,
    http: SharedHttp,
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
        let (main_route, child_route) = (route(&main), route(&children));
        let mut by_route: HashMap<String, Arc<dyn Model>> = HashMap::new();
        by_route.insert(key(&main_route), build(invocation, &main, &http)?);
        if child_route != main_route {
            by_route.insert(key(&child_route), build(invocation, &children, &http)?);
        }
        Ok(Models { main: main_route, children: child_route, by_route: RwLock::new(by_route), http })
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
        let (route, model) = (route(&choice), build(&invocation, &choice, &self.http)?);
        let mut by_route = self.by_route.write().unwrap_or_else(PoisonError::into_inner);
        by_route.insert(key(&route), Arc::clone(&model));
        Ok((model, route))
    }
}

impl ModelSource for Models {
    fn model(&self, route: &Route) -> Result<Arc<dyn Model>, String> {
        let by_route = self.by_route.read().unwrap_or_else(PoisonError::into_inner);
        by_route.get(&key(route)).cloned().ok_or_else(|| {
            format!(
                "the model {} is not configured in this process; configure it and start again",
                route.model
            )
        })
    }
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

fn key(route: &Route) -> String {
    format!("{}\n{}\n{}", route.model, route.base_url.as_deref().unwrap_or(""), route.api_mode)
}

/// What is stored of a choice: everything but the key.
fn route(choice: &ModelChoice) -> Route {
    Route {
        model: choice.reference(),
        base_url: choice.base_url.as_ref().map(|endpoint| endpoint.as_str().to_owned()),
        api_mode: choice.api_mode.word().to_owned(),
        key_source: choice.key_source.clone(),
        table: None,
        fallbacks: Vec::new(),
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
        protocol: protocol(choice.api_mode),
        provider: choice.provider.word().to_owned(),
        base_url: endpoint.as_str().to_owned(),
        key: ApiKey::new(choice.key.expose()),
        model: choice.name.clone(),
        window: choice.window,
        limits: CallLimits::default(),
    };
    match RemoteModel::new(options, http) {
        Ok(model) => Ok(Arc::new(model)),
        Err(error) => Err(CliError::new(Kind::Configuration, error.to_string())),
    }
}

fn protocol(mode: ApiMode) -> Protocol {
    match mode {
        ApiMode::ChatCompletions => Protocol::ChatCompletions,
        ApiMode::Responses => Protocol::Responses,
        ApiMode::AnthropicMessages => Protocol::AnthropicMessages,
        ApiMode::Gemini => Protocol::Gemini,
        ApiMode::Ollama => Protocol::Ollama,
    }
}

fn scripted(invocation: &Invocation, name: &str) -> Result<Arc<dyn Model>, CliError> {
    let path: PathBuf = invocation.paths.working_folder().join(name);
    match Script::read(&path) {
        Ok(script) => Ok(Arc::new(Scripted::new(name, script))),
        Err(error) => Err(CliError::new(Kind::Input, error.to_string())),
    }
}
