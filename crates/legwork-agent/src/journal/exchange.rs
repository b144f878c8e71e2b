//! A reply with tool calls and their results so far: the conversation of a session grows by all of them together.
//!
//! It stores nothing; the journal does.

use super::OpenExchange;
use legwork_core::ids::ClaimId;
use legwork_core::message::{Author, Message, Part, ToolResult};

/// A reply whose calls have not all ended; empty between replies.
#[derive(Default)]
pub(super) struct Exchange {
    reply: Option<Message>,
    results: Vec<ToolResult>,
    claims: Vec<ClaimId>,
}

impl Exchange {
    /// The exchange that a reply opens.
    pub(super) fn of(reply: Message) -> Self {
        Exchange { reply: Some(reply), ..Exchange::default() }
    }

    /// The exchange that a crash left open.
    pub(super) fn reopened(open: &OpenExchange) -> Self {
        Exchange { results: open.results.clone(), ..Exchange::of(open.reply.message.clone()) }
    }

    /// Takes results in.
    pub(super) fn ran(&mut self, results: impl Iterator<Item = ToolResult>) {
        self.results.extend(results);
    }

    /// Keeps claims until the results that carry them are part of the conversation.
    pub(super) fn hold(&mut self, claims: Vec<ClaimId>) {
        self.claims.extend(claims);
    }

    /// Whether every call of the reply has its result.
    pub(super) fn is_whole(&self) -> bool {
        self.reply.as_ref().is_none_or(|reply| self.results.len() >= reply.calls().count())
    }

    /// Takes the claims out.
    pub(super) fn let_go(&mut self) -> Vec<ClaimId> {
        std::mem::take(&mut self.claims)
    }

    /// The reply and its results as messages, with the claims they carry.
    pub(super) fn whole(self) -> (Vec<Message>, Vec<ClaimId>) {
        let Exchange { reply, results, claims } = self;
        let parts = results.into_iter().map(Part::Result).collect();
        let results = reply.is_some().then_some(Message { author: Author::Tool, parts });
        (reply.into_iter().chain(results).collect(), claims)
    }
}
