//! The way to an answer: one GET, and a bounded number of redirects, each of which is judged like the first address.
//!
//! Nothing is sent along: no key, no cookie, no address of where the request comes from. No proxy of the environment is
//! used, because behind one nobody can say which address is connected to.

use super::address::{FetchAddresses, Guard};
use super::shown;
use crate::models::root_cause;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Response, StatusCode, Url};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 5;
/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an address.
const URL_BYTES_MAX: usize = 8 * 1024;

/// Reads the address that a model sent.
///
/// # Errors
/// A sentence for the model.
pub(super) fn read(text: &str) -> Result<Url, String> {
    let text = text.trim();
    if text.len() > URL_BYTES_MAX {
        return Err(format!("the address has {} bytes, and at most {URL_BYTES_MAX} are taken", text.len()));
    }
    let url = Url::parse(text).map_err(|error| {
        format!("`url` is not an address ({error}); send one such as https://example.org/page")
    })?;
    check_form(&url)?;
    Ok(url)
}

fn check_form(url: &Url) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("only http and https are fetched, not {}", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!(
            "the address of {} holds a user name or password, and none is ever sent; leave it out",
            url.host_str().unwrap_or_default()
        ));
    }
    Ok(())
}

/// An answer whose body has not been read.
pub(super) struct Arrived {
    pub(super) url: Url,
    pub(super) status: StatusCode,
    pub(super) redirects: usize,
    pub(super) response: Response,
}

/// The clients, each built when it is first needed: that for `https` loads the certificates that the system trusts.
pub(super) struct Clients {
    addresses: FetchAddresses,
    plain: OnceLock<Result<Client, String>>,
    secure: OnceLock<Result<Client, String>>,
}

impl Clients {
    pub(super) fn new(addresses: FetchAddresses) -> Self {
        Clients { addresses, plain: OnceLock::new(), secure: OnceLock::new() }
    }

    /// Goes to an address and on from there to where the answer is.
    ///
    /// # Errors
    /// A sentence for the model.
    pub(super) async fn go(&self, start: Url) -> Result<Arrived, String> {
        let mut url = start;
        for redirects in 0..=REDIRECTS_MAX {
            let response = self.ask(&url).await?;
            let status = response.status();
            let location = response.headers().get(LOCATION).filter(|_| is_redirect(status));
            let Some(location) = location else {
                return Ok(Arrived { url, status, redirects, response });
            };
            url = next(&url, location)?;
        }
        Err(format!("there are more than {REDIRECTS_MAX} redirects; the last one leads to {}", shown(&url)))
    }

    async fn ask(&self, url: &Url) -> Result<Response, String> {
        self.check_literal(url)?;
        let response = self.client(url)?.get(url.clone()).send().await;
        response.map_err(|error| format!("{}: {}", shown(url), root_cause(&error)))
    }

    /// A host that is written as a number is not resolved, so it is judged here.
    fn check_literal(&self, url: &Url) -> Result<(), String> {
        let host = url.host_str().unwrap_or_default();
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        literal.parse::<IpAddr>().map_or(Ok(()), |address| self.addresses.check(literal, address))
    }

    fn client(&self, url: &Url) -> Result<Client, String> {
        let build = |builder: ClientBuilder| {
            builder.build().map_err(|error| format!("no HTTP client could be built: {}", root_cause(&error)))
        };
        let client = if url.scheme() == "https" {
            self.secure.get_or_init(|| build(builder(self.addresses)))
        } else {
            self.plain.get_or_init(|| build(builder(self.addresses).tls_certs_only([])))
        };
        client.clone()
    }
}

fn builder(addresses: FetchAddresses) -> ClientBuilder {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("text/html, text/*, application/json, */*;q=0.5"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Client::builder()
        .user_agent(concat!("legwork/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .referer(false)
        .redirect(Policy::none())
        .no_proxy()
        // Deadline: a host that drops packets would use up the whole time of the call.
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(0)
        .dns_resolver(Arc::new(Guard(addresses)))
}

/// Where a redirect leads.
fn next(url: &Url, location: &HeaderValue) -> Result<Url, String> {
    let refused = |why: String| format!("{} redirects to where it cannot be followed: {why}", shown(url));
    let text = location.to_str().map_err(|_| refused("its address is not text".to_owned()))?;
    if text.len() > URL_BYTES_MAX {
        return Err(refused(format!("its address has {} bytes", text.len())));
    }
    let next = url.join(text).map_err(|error| refused(format!("its address is wrong ({error})")))?;
    check_form(&next).map_err(refused)?;
    if url.scheme() == "https" && next.scheme() == "http" {
        return Err(refused(format!(
            "{} is not encrypted, and this one is; send it yourself if you want it",
            shown(&next)
        )));
    }
    Ok(next)
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_http_and_names_nobody() {
        let check = |text: &str, words: &str| {
            let message = read(text).expect_err("it is refused");
            assert!(message.contains(words), "{message}");
        };
        check("file:///etc/passwd", "only http and https are fetched, not file");
        check("example.org", "is not an address");
        check("https://me:secret@example.org/", "the address of example.org holds a user name or password");
        check(&format!("https://e.org/{}", "a".repeat(9000)), "at most 8192 are taken");
        assert_eq!(read(" https://example.org ").expect("an address").as_str(), "https://example.org/");
    }

    #[test]
    fn numbers_in_every_spelling_are_judged() {
        let clients = Clients::new(FetchAddresses::Public);
        for host in ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::1]", "[::ffff:10.0.0.1]"] {
            let url = read(&format!("http://{host}:8080/")).expect("an address");
            let words = clients.check_literal(&url).expect_err("it is not public");
            assert!(words.contains("is not a public address"), "{host}: {words}");
        }
        assert_eq!(clients.check_literal(&read("http://1.1.1.1/").expect("an address")), Ok(()));
    }

    #[test]
    fn a_redirect_is_judged_like_an_address_and_never_leaves_encryption() {
        let url = read("https://a.org/x/y").expect("an address");
        let to = |location: &str| next(&url, &HeaderValue::from_str(location).expect("a value"));
        let check = |location: &str, words: &str| {
            let message = to(location).expect_err("it is refused");
            assert!(
                message.starts_with("https://a.org/x/y redirects to where it cannot be followed"),
                "{message}"
            );
            assert!(message.contains(words), "{message}");
        };
        assert_eq!(to("z?q#f").expect("an address").as_str(), "https://a.org/x/z?q#f");
        assert_eq!(to("//b.org").expect("an address").as_str(), "https://b.org/");
        check("http://a.org/", "http://a.org/ is not encrypted, and this one is");
        check("file:///etc/passwd", "not file");
        check("https://me@b.org", "a user name or password");
        check("https://[", "its address is wrong");
        check(&format!("/{}", "a".repeat(9000)), "has 9001 bytes");
        let strange = HeaderValue::from_bytes(b"/\xff").expect("a value");
        assert!(next(&url, &strange).expect_err("it is no text").contains("not text"));
    }
}
