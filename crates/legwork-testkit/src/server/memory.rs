//! What the server remembers of its own replies: which calls were made after reasoning.
//!
//! Providers that want their reasoning back know it from the ids that they gave out. So does this server, and `strict`
//! asks it. Everything else about a request follows from the request.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// What a call was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Nothing was reasoned before it in its reply.
    Plain,
    /// Reasoning went out before it in its reply.
    Reasoned,
    /// Scripts gave one id to calls of both kinds, so nothing can be asked of it.
    Both,
}

/// The calls made so far.
#[derive(Default)]
pub(super) struct Memory {
    calls: Mutex<HashMap<String, Origin>>,
}

impl Memory {
    pub(super) fn note(&self, call_id: &str, origin: Origin) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let known = calls.entry(call_id.to_owned()).or_insert(origin);
        if *known != origin {
            *known = Origin::Both;
        }
    }

    /// What the call of this id was made with; none where this server did not make it.
    pub(super) fn origin(&self, call_id: &str) -> Option<Origin> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).get(call_id).copied()
    }
}
