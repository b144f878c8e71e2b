//! Looks for a server of models on this machine, for people who have one running and configured nothing.
//!
//! It asks loopback addresses only, sends no key, and gives up after a moment. What it finds is used or not by whoever
//! asked; it remembers nothing.

use super::http::SharedHttp;
use super::remote::Protocol;
use futures::future::{join, join_all};
use reqwest::{Client, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::timeout;

/// The longest that looking takes, all addresses together.
const LOOK_MAX: Duration = Duration::from_millis(300);
/// The longest list of models that is read.
const LIST_MAX_BYTES: usize = 1 << 20;

/// A server that answers, and the first of its models that can hold a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalServer {
    /// What it speaks: Ollama's own protocol, or chat completions.
    pub protocol: Protocol,
    /// The base URL for a [`super::RemoteModel`].
    pub base_url: String,
    /// The model, as the server names it.
    pub model: String,
}

/// Asks all addresses at once and gives the first one, in their order, at which a server with a model answers within
/// 300 ms. Addresses that are not loopback ones are not asked. Dropping the future gives up.
pub async fn find_local_server(addresses: &[String], http: &SharedHttp) -> Option<LocalServer> {
    let places = addresses.iter().filter_map(|address| loopback(address));
    let found = join_all(places.map(|base| look(base, http))).await;
    found.into_iter().flatten().next()
}

/// Whether an address is an `http` one that only this machine reaches, so that it may be asked unbidden.
pub fn is_loopback(address: &str) -> bool {
    loopback(address).is_some()
}

fn loopback(address: &str) -> Option<Url> {
    let base = Url::parse(address).ok()?;
    let host = base.host_str()?.trim_start_matches('[').trim_end_matches(']');
    let is_own = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    (base.scheme() == "http" && is_own).then_some(base)
}

/// Every server that speaks chat completions lists its models in one way; Ollama does too, and is known by its version.
async fn look(base: Url, http: &SharedHttp) -> Option<LocalServer> {
    let client = http.client_for(&base).ok()?;
    let at = |path: &str| base.join(path).ok();
    let ollama = join(get::<Version>(&client, at("/api/version")), get::<Tags>(&client, at("/api/tags")));
    let listed = get::<Listed>(&client, at("/v1/models"));
    let (version_and_tags, listed) = join(ollama, listed).await;
    let address = base.as_str().trim_end_matches('/');
    if let (Some(_), Some(tags)) = version_and_tags {
        let model = tags.models.into_iter().find(Tag::can_talk)?.name;
        return Some(LocalServer { protocol: Protocol::Ollama, base_url: address.to_owned(), model });
    }
    let model = listed?.data.into_iter().next()?.id;
    Some(LocalServer { protocol: Protocol::ChatCompletions, base_url: format!("{address}/v1"), model })
}

/// What stands at an address, if it comes in time and is what was expected.
async fn get<T: DeserializeOwned>(client: &Client, address: Option<Url>) -> Option<T> {
    let read = async {
        let mut response = client.get(address?).send().await.ok()?.error_for_status().ok()?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.ok()? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > LIST_MAX_BYTES {
                return None;
            }
        }
        serde_json::from_slice(&bytes).ok()
    };
    // Deadline: whoever configured nothing must not wait for what is not there.
    timeout(LOOK_MAX, read).await.ok().flatten()
}

#[derive(Deserialize)]
struct Version {
    #[serde(rename = "version")]
    _version: String,
}

#[derive(Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

/// A model of an Ollama server.
#[derive(Deserialize)]
struct Tag {
    name: String,
    /// Another machine that the server hands the work to.
    #[serde(default)]
    remote_host: String,
    #[serde(default)]
    details: Details,
}

#[derive(Deserialize, Default)]
struct Details {
    #[serde(default)]
    family: String,
}

impl Tag {
    /// Whether it holds conversations, on this machine. A model that only turns text into numbers is told by its name or
    /// family; the list says no more.
    fn can_talk(&self) -> bool {
        let embeds = self.details.family.contains("bert") || self.name.contains("embed");
        !embeds && self.remote_host.is_empty()
    }
}

#[derive(Deserialize)]
struct Listed {
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
}

#[cfg(test)]
#[path = "discovery_tests.rs"]
mod tests;
