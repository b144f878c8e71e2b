//! Makes room in a context that is too large for its model's window: a summary stands for earlier messages from then on.
//! Children and sessions do it alike. The messages stay stored; ids, states and addresses of delegations are written by
//! us from the store, so that they survive any number of summaries (K25).
//!
//! When the model cannot summarise, the beginnings of what was said are taken instead: that always shrinks.

mod boundary;
mod digest;
mod ledger;
mod pace;
mod wording;

use super::ask::{Asking, Call};
use super::window::{Press, Window};
use super::{Ahead, Mark, Turn, Way};
use crate::excerpt::head_of;
use crate::journal::{Next, Said};
use crate::models::{ModelError, ModelRequest, renew_used};
use crate::quoted::quote;
use boundary::first_kept;
use legwork_core::message::{Author, Message, Part, Summary};
use legwork_core::pulse::LineEvent;
use legwork_core::report::FailureReason;
use legwork_core::step::{Actor, Reply, Summarised};
pub(super) use pace::Pace;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use wording::Wording;

/// How long a summary may take, with all tries.
const SUMMARY_MAX: Duration = Duration::from_secs(300);
/// Bytes of a token when texts are cut: fewer than most texts have.
const CUT_BYTES_PER_TOKEN: u64 = 3;

/// What a request carries.
#[derive(Clone, Copy)]
pub(super) struct Load {
    messages: usize,
    bytes: usize,
}

impl Turn<'_> {
    /// What is done so that the next request fits, with what was said since the mark.
    pub(super) fn fitting(&mut self, said: Option<Said>, mark: Mark) -> Next {
        let window = self.window();
        if self.context.press == Press::Whole && self.tokens() > window.usable() {
            self.context.press = Press::Shared;
        }
        if self.tokens() <= window.full() {
            return self.ask_next(said);
        }
        let place = self.place(self.context.press).or_else(|| self.place(Press::Hard));
        if place.is_some() && !self.pace.is_stuck() {
            self.ahead = Ahead::Compact;
            return Next::Compact(said);
        }
        if self.tokens() > window.usable() {
            self.context.press = Press::Hard;
        }
        if self.tokens() <= window.usable() {
            return self.ask_next(said);
        }
        let way = if place.is_some() { Way::NoProgress(window.tokens) } else { Way::NoRoom(window.tokens) };
        // What was said is not read by anybody any more; it is not stored, and counts as missed.
        self.take_back(mark);
        self.end(way)
    }

    fn ask_next(&mut self, said: Option<Said>) -> Next {
        self.ahead = Ahead::Ask;
        Next::Model(said)
    }

    /// What the model is shown.
    pub(super) fn request(&self) -> ModelRequest {
        let messages = self.context.shown_within(self.shown_max());
        ModelRequest { messages, tools: Arc::clone(&self.agent.offered) }
    }

    /// A request of this load was answered. A model that was not shown all of them
    /// may give a call an id that one of the others has; the id is the key of what the call does, so it gets a new one.
    pub(super) fn counted(&mut self, load: Load, reply: &mut Reply) {
        if self.context.last_summary().is_some() {
            renew_used(&mut reply.message, self.context.messages());
        }
        self.pace.replied(&reply.message);
        self.context.gauge.counted(load.messages, load.bytes, reply.usage.input);
    }

    /// The load of the next request.
    pub(super) fn load(&self) -> Load {
        let bytes = self.context.bytes_within(self.shown_max(), 0) + self.tools_bytes;
        Load { messages: self.context.messages().len(), bytes }
    }

    /// The provider says that the request was too large. The window is smaller than it was taken for: earlier messages
    /// are summarised once more, harder, and the model is asked again.
    pub(super) async fn overflowed(&mut self, error: ModelError) -> Result<(), Way> {
        let place = self.place(Press::Hard);
        let again = error.reason == FailureReason::ContextOverflow
            && self.pace.may_overflow()
            && self.exhausted().is_none()
            && self.stop.now().is_none()
            && place.is_some();
        if !again {
            return Err(self.unanswered(error).await);
        }
        self.pace.overflowed();
        self.context.window_max = Some(self.window().overflowed(self.tokens()));
        self.context.press = Press::Hard;
        self.ahead = Ahead::Compact;
        self.journal.failed(&error.message, &Next::Compact(None)).await?;
        self.settled();
        Ok(())
    }

    /// Writes the summary that the journal holds as begun.
    pub(super) async fn compact(&mut self) -> Result<(), Way> {
        let before = self.tokens();
        let hard = || self.place(Press::Hard);
        let Some(from) = self.place(self.context.press).or_else(hard) else {
            return self.not_compacted().await;
        };
        let first = self.context.shown_from();
        let messages =
            (first..from).filter(|place| self.context.messages()[*place].summary().is_none()).count();
        self.agent.site.line.tell(LineEvent::Note(format!("summarising {messages} earlier messages")));
        let written = self.written(first..from).await?;
        let (usage, cost) = written.as_ref().map(|reply| (reply.usage, reply.cost)).unwrap_or_default();
        self.tally.summarised(usage, cost);
        let text = self.text(first..from, written).await;
        let part = Part::Summary(Summary { text, from: from as u64 });
        let message = Message { author: Author::Summary, parts: vec![part] };
        self.context.push(message.clone());
        self.context.gauge.forget();
        self.pace.compacted();
        let tokens_after = self.tokens();
        self.untold.push(LineEvent::Compacted { messages, tokens_before: before, tokens_after, usage, cost });
        let next = self.onward();
        self.journal.compacted(Summarised { message, usage, cost }, &next).await?;
        self.settled();
        Ok(())
    }

    /// Nothing can be summarised any more.
    async fn not_compacted(&mut self) -> Result<(), Way> {
        let next = self.onward();
        self.journal.failed("there was nothing to summarise", &next).await?;
        self.settled();
        Ok(())
    }

    /// What the model writes for a summary; nothing when it cannot.
    async fn written(&mut self, places: Range<usize>) -> Result<Option<Reply>, Way> {
        let call = Call { request: self.summary_request(places), number: self.tally.model_calls };
        match self.heard(Asking::quietly(self.agent, call, SUMMARY_MAX)).await? {
            Ok(mut reply) => {
                self.tally.charge(&mut reply);
                Ok(Some(reply))
            }
            Err(error) => {
                let note =
                    format!("the model could not summarise, so beginnings are kept: {}", error.message);
                self.agent.site.line.tell(LineEvent::Note(note));
                Ok(None)
            }
        }
    }

    fn summary_request(&self, places: Range<usize>) -> ModelRequest {
        let window = self.window();
        let room = window.full().saturating_sub(window.summary());
        let room =
            (room as f64 * self.context.gauge.bytes_per_token().min(CUT_BYTES_PER_TOKEN as f64)) as usize;
        let system = wording::request(bytes(window.summary()));
        let room = room.saturating_sub(system.len());
        let earlier = self.context.last_summary().map(|(_, summary)| summary.text.as_str());
        let record = digest::whole(earlier, &self.context.messages()[places], room);
        let messages = [Message::text(Author::System, system), Message::text(Author::User, record)];
        ModelRequest { messages: messages.into_iter().map(Arc::new).collect(), tools: Arc::new([]) }
    }

    /// The whole text of the summary: header, task, what the model wrote, and what the store says of delegations.
    async fn text(&mut self, places: Range<usize>, written: Option<Reply>) -> String {
        let room = bytes(self.window().summary());
        let replaced = &self.context.messages()[places];
        let earlier = self.context.last_summary().map(|(_, summary)| summary.text.as_str());
        let said = written.map(|reply| reply.message.plain_text()).filter(|text| !text.trim().is_empty());
        let told = said.unwrap_or_else(|| digest::heads(earlier, replaced, room));
        let task = match self.agent.site.actor {
            Actor::Child(_) => self.context.messages().get(self.context.system_len()),
            Actor::Session(_) => None,
        };
        let task = task.map(|message| quote(head_of(&message.plain_text(), room / 2)));
        let called = ledger::called(&*self.agent.facts, &self.agent.site.actor, replaced).await;
        let earlier = earlier.into_iter().map(str::to_owned).chain(called);
        let ids = ledger::ids(earlier.chain(digest::texts(replaced)));
        let ledger = ledger::lines(&*self.agent.facts, &self.agent.site.lineage, ids).await;
        let told = quote(head_of(told.trim(), room));
        Wording { task: task.as_deref(), told: &told, ledger: &ledger, ledger_bytes_max: room }.text()
    }

    /// Where the kept messages would begin; nothing when none can be replaced.
    fn place(&self, press: Press) -> Option<usize> {
        let kept = bytes(self.window().kept(press));
        first_kept(self.context, kept)
    }

    /// The estimated tokens of the next request.
    fn tokens(&self) -> u64 {
        let max = self.shown_max();
        let bytes = self.context.bytes_within(max, 0) + self.tools_bytes;
        self.context.gauge.tokens(bytes, |messages| self.context.bytes_within(max, messages))
    }

    /// The most bytes that one message is shown with.
    fn shown_max(&self) -> usize {
        match self.context.press {
            Press::Whole => usize::MAX,
            press @ (Press::Shared | Press::Hard) => bytes(self.window().kept(press)),
        }
    }

    fn window(&self) -> Window {
        if self.agent.model.cuts_to_fit() {
            return Window::BOUNDLESS;
        }
        let told = self.agent.model.facts().window.unwrap_or(self.agent.limits.window_default);
        let cap = self.agent.limits.summarise_from;
        let tokens = self.context.window_max.map_or(told, |max| told.min(max.tokens));
        Window { tokens, cap }
    }
}

/// About how many bytes so many tokens are, when texts are cut.
fn bytes(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(CUT_BYTES_PER_TOKEN)).unwrap_or(usize::MAX)
}
