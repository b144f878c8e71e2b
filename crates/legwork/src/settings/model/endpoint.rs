//! The address of a provider, and when two addresses are the same place.

use std::fmt;

/// Why a text is not the address of a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not an address at all.
    #[error("{text:?}, which is not an address ({reason})")]
    Malformed { text: String, reason: String },
    /// Another scheme than http and https, or no host.
    #[error("{text:?}, which is not an http or https address")]
    NotHttp { text: String },
    /// The address carries a name or password. It is not repeated.
    #[error("an address with a user name or password in it; put the key into a variable instead")]
    Credentials,
    /// The address carries a query or fragment, which may hold a key. It is not repeated.
    #[error("an address with a query or fragment; leave out everything from `?` or `#` on")]
    Query,
}

/// An http or https address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    text: String,
    origin: url::Origin,
}

impl Endpoint {
    /// Reads an address. A slash at its end is dropped.
    ///
    /// # Errors
    /// When it is not http or https with a host, or carries anything that may be a secret.
    pub fn parse(text: &str) -> Result<Endpoint, EndpointError> {
        let text = text.trim().trim_end_matches('/');
        let shown = || super::super::raw::cut(text);
        let has_user = text
            .split_once("://")
            .is_some_and(|(_, rest)| rest.split(['/', '?']).next().is_some_and(|host| host.contains('@')));
        if has_user {
            return Err(EndpointError::Credentials);
        }
        if text.contains(['?', '#']) {
            return Err(EndpointError::Query);
        }
        let url = url::Url::parse(text)
            .map_err(|error| EndpointError::Malformed { text: shown(), reason: error.to_string() })?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(EndpointError::NotHttp { text: shown() });
        }
        Ok(Endpoint { text: text.to_owned(), origin: url.origin() })
    }

    /// Whether both have the same scheme, host and port. Only then may they share a key.
    pub fn same_origin(&self, other: &Endpoint) -> bool {
        self.origin == other.origin
    }

    /// The address as it was written, without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(left: &str, right: &str) -> bool {
        let parse = |text| Endpoint::parse(text).expect("an address");
        parse(left).same_origin(&parse(right))
    }

    #[test]
    fn k29_origins_are_scheme_host_and_port() {
        assert!(same("https://api.openai.com/v1", "https://API.openai.com:443/other/"));
        assert!(!same("https://api.openai.com/v1", "http://api.openai.com/v1"));
        assert!(!same("https://api.openai.com", "https://api.openai.com.evil.example"));
        assert!(!same("http://127.0.0.1:8000", "http://127.0.0.1:8001"));
        assert!(!same("http://127.0.0.1:8000", "http://localhost:8000"));
    }

    #[test]
    fn addresses_that_may_hold_a_secret_are_refused_without_repeating_it() {
        for text in ["https://user:hunter2@host/v1", "https://host/v1?key=hunter2", "https://host/#hunter2"] {
            let error = Endpoint::parse(text).expect_err("it must be refused");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "host:8000", "ftp://host/v1", "localhost", "https://", "file:///etc/passwd"] {
            assert!(Endpoint::parse(text).is_err(), "{text}");
        }
    }
}
