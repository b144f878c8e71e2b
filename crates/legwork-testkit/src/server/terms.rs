//! The terms of a server: what it asks of every request before a script is looked at.
//!
//! They come from `Scripts` and do not change. What a wire format asks by itself is in the format.

use super::http::Request;
use super::protocol::Protocol;
use super::script::Scripts;
use super::strict::{Alternation, Rule, Violation};
use super::wire::Keys;

/// What every request of a server must keep to.
pub(super) struct Terms {
    pub alternation: Alternation,
    key: Option<String>,
    protocols: Vec<Protocol>,
    pub models: Vec<String>,
}

impl Terms {
    pub(super) fn of(scripts: &Scripts) -> Self {
        Self {
            alternation: scripts.alternation,
            key: scripts.key.clone(),
            protocols: scripts.protocols.clone(),
            models: scripts.models.clone(),
        }
    }

    /// The wire format at this request's path, if this server speaks it.
    pub(super) fn protocol(&self, request: &Request) -> Option<Protocol> {
        Protocol::at(request.route()).filter(|protocol| self.speaks(*protocol))
    }

    pub(super) fn speaks(&self, protocol: Protocol) -> bool {
        self.protocols.contains(&protocol)
    }

    /// Checks the key that a request brought.
    pub(super) fn admit(&self, key: Option<&str>, keys: Keys) -> Result<(), Violation> {
        let missing = || Violation::new(Rule::NoKey, "key", "the request brings no key");
        match (&self.key, key) {
            (Some(wanted), Some(brought)) if wanted != brought => {
                Err(Violation::new(Rule::WrongKey, "key", "the key is not the one that the scripts ask for"))
            }
            (Some(_), None) => Err(missing()),
            (None, None) if keys == Keys::Required => Err(missing()),
            (Some(_) | None, Some(_)) | (None, None) => Ok(()),
        }
    }
}
