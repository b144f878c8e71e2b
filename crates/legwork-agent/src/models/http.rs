//! The HTTP clients that all models of a process share: connection pools, time limits of connecting, proxies.
//!
//! It owns no address and no key, and it never follows a redirect: a key must not travel to another origin.

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, NoProxy, Proxy, Url};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Hosts that are never asked through a proxy.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

/// The proxies of the process, as the usual variables name them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `http` addresses.
    pub http: Option<String>,
    /// For `https` addresses.
    pub https: Option<String>,
    /// Hosts that are asked directly, separated by commas. Loopback always is.
    pub except: Option<String>,
}

impl Proxies {
    /// Reads `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` through `look_up`; lower case wins, as in curl.
    pub fn read(look_up: impl Fn(&str) -> Option<String>) -> Self {
        let either = |name: &str| {
            let value = look_up(&name.to_ascii_lowercase()).or_else(|| look_up(name));
            value.filter(|value| !value.trim().is_empty())
        };
        let all = either("ALL_PROXY");
        Proxies {
            http: either("HTTP_PROXY").or_else(|| all.clone()),
            https: either("HTTPS_PROXY").or(all),
            except: either("NO_PROXY"),
        }
    }
}

/// A handle on the shared clients; a clone shares them.
///
/// There are at most two, each built when it is first needed: one for `https`, which loads the certificates the system
/// trusts (3 to 20 ms), and one for `http`, which does not.
#[derive(Clone)]
pub struct SharedHttp {
    inner: Arc<Inner>,
}

struct Inner {
    proxies: Proxies,
    plain: OnceLock<Result<Client, String>>,
    secure: OnceLock<Result<Client, String>>,
}

impl SharedHttp {
    /// Clients that will use these proxies. Nothing is built and nothing is opened yet.
    pub fn new(proxies: Proxies) -> Self {
        let inner = Inner { proxies, plain: OnceLock::new(), secure: OnceLock::new() };
        SharedHttp { inner: Arc::new(inner) }
    }

    /// The client for this address, or why it could not be built.
    pub(super) fn client_for(&self, url: &Url) -> Result<Client, String> {
        let proxies = &self.inner.proxies;
        let slot = if url.scheme() == "https" {
            self.inner.secure.get_or_init(|| build(builder(), proxies))
        } else {
            self.inner.plain.get_or_init(|| build(builder().tls_certs_only([]), proxies))
        };
        slot.clone()
    }
}

fn builder() -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("legwork/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .pool_max_idle_per_host(usize::MAX)
        .redirect(Policy::none())
        .no_proxy()
}

fn build(builder: ClientBuilder, proxies: &Proxies) -> Result<Client, String> {
    let except =
        proxies.except.as_deref().map_or_else(|| LOOPBACK.to_owned(), |more| format!("{LOOPBACK},{more}"));
    let mut builder = builder;
    let http = proxies.http.as_ref().map(Proxy::http);
    let https = proxies.https.as_ref().map(Proxy::https);
    for proxy in [http, https].into_iter().flatten() {
        // The address may hold a password, so the message does not repeat it.
        let proxy = proxy.map_err(|_| "a proxy variable does not hold an address".to_owned())?;
        builder = builder.proxy(proxy.no_proxy(NoProxy::from_string(&except)));
    }
    builder.build().map_err(|error| format!("the HTTP client could not be built: {}", root_cause(&error)))
}

/// The innermost cause of an error, which is the one that says what happened.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_come_from_the_usual_variables_and_lower_case_wins() {
        let proxies = Proxies::read(|name| match name {
            "http_proxy" => Some("http://a:1".to_owned()),
            "HTTP_PROXY" => Some("http://b:1".to_owned()),
            "ALL_PROXY" => Some("http://c:1".to_owned()),
            "no_proxy" => Some(" ".to_owned()),
            _ => None,
        });
        let expected =
            Proxies { http: Some("http://a:1".into()), https: Some("http://c:1".into()), except: None };
        assert_eq!(proxies, expected);
    }

    #[test]
    fn a_client_is_built_once() {
        let http = SharedHttp::new(Proxies::default());
        let url = Url::parse("http://127.0.0.1:1/v1").expect("an address");
        http.client_for(&url).expect("a client");
        assert!(http.inner.secure.get().is_none(), "an http address must not load certificates");
        assert!(http.inner.plain.get().is_some());
    }

    #[test]
    fn a_wrong_proxy_address_is_an_error_that_does_not_show_it() {
        let proxies = Proxies { http: Some("http://user:secret@[".into()), ..Proxies::default() };
        let url = Url::parse("http://example.com/v1").expect("an address");
        let error = SharedHttp::new(proxies).client_for(&url).expect_err("the address is wrong");
        assert!(!error.contains("secret"), "{error}");
    }
}
