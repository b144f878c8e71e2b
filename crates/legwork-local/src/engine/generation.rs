//! One reply in the making.
//!
//! Owns the tokens of one request and advances by a bounded amount of work at a time, so that several requests can
//! take turns on one thread. It does not decide whose turn it is.

use super::cache::Cache;
use super::grammar::{Form, Grammar, Shape};
use super::network::Network;
use super::vocabulary::Vocabulary;
use super::{EngineError, WINDOW};
use tokio::sync::mpsc;

/// Prompt tokens read in one turn; about a fifth of a second on an old processor.
const READ_MAX: usize = 32;
/// Reply tokens written in one turn.
const WRITE_MAX: usize = 4;

/// Tokens at the end of a text that show whether a sentence has ended.
const TAIL: usize = 4;

/// What to answer, and in what form.
#[derive(Debug, Clone)]
pub struct Request {
    /// The tokens before the reply.
    pub prompt: Vec<u32>,
    /// What the reply must look like.
    pub shape: Shape,
    /// Tokens after which a text ends with its next sentence.
    pub tokens_wanted: usize,
    /// Tokens of the reply at most; where they run out the reply is cut off.
    pub tokens_max: usize,
}

/// What a request brings; the last one is `Done` or `Failed`.
#[derive(Debug)]
pub enum Event {
    /// A piece of the reply.
    Text(String),
    /// The reply is over.
    Done(Tally),
    /// There is no reply.
    Failed(EngineError),
}

/// What a reply took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// How many of them were remembered from an earlier request.
    pub remembered: usize,
    /// Tokens of the reply.
    pub reply: usize,
    /// Why the reply is over.
    pub ending: Ending,
}

/// Why a reply is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The model ended it, or it has the shape that was asked for.
    Complete,
    /// It reached its limit of tokens and is cut off.
    Limit,
}

/// Room in the queue of events, beyond one per token of the reply: the last event, and a margin.
pub(super) const EVENTS_MARGIN: usize = 8;

/// A reply in the making.
pub(super) struct Generation {
    /// Prompt and reply.
    tokens: Vec<u32>,
    prompt: usize,
    remembered: usize,
    tokens_wanted: usize,
    tokens_max: usize,
    form: Form,
    cache: Cache,
    /// Bytes of a character whose rest has not come yet.
    partial: Vec<u8>,
    events: mpsc::Sender<Event>,
}

/// Whether a reply needs another turn.
pub(super) enum Progress {
    Going,
    Over,
}

/// What every reply is made with.
pub(super) struct Means {
    pub(super) network: Network,
    pub(super) vocabulary: std::sync::Arc<Vocabulary>,
    pub(super) grammar: Grammar,
}

impl Generation {
    /// Begins a reply. `cache` remembers a prefix of the prompt, or nothing.
    ///
    /// # Errors
    /// When the prompt fills the window, or the form cannot be compiled.
    pub(super) fn begin(
        means: &Means,
        request: Request,
        cache: Cache,
        events: mpsc::Sender<Event>,
    ) -> Result<Self, EngineError> {
        let prompt = request.prompt.len();
        if prompt == 0 || prompt + request.tokens_max > WINDOW {
            return Err(EngineError::Window { prompt, window: WINDOW });
        }
        Ok(Self {
            prompt,
            remembered: cache.len(),
            tokens: request.prompt,
            tokens_wanted: request.tokens_wanted,
            tokens_max: request.tokens_max,
            form: means.grammar.form(request.shape)?,
            cache,
            partial: Vec::new(),
            events,
        })
    }

    /// Does one turn's work. A reply that nobody waits for is over.
    pub(super) fn advance(&mut self, means: &Means) -> Progress {
        if self.events.is_closed() {
            return Progress::Over;
        }
        if self.tokens.len() - self.cache.len() > READ_MAX {
            let start = self.cache.len();
            means.network.read(&self.tokens[start..start + READ_MAX], &mut self.cache);
            return Progress::Going;
        }
        match self.write(means) {
            Ok(None) => Progress::Going,
            Ok(Some(ending)) => {
                self.send(Event::Done(self.tally(ending)));
                Progress::Over
            }
            Err(error) => {
                self.send(Event::Failed(error));
                Progress::Over
            }
        }
    }

    /// The memory, for the next request of the same conversation.
    pub(super) fn into_cache(self) -> Cache {
        self.cache
    }

    fn write(&mut self, means: &Means) -> Result<Option<Ending>, EngineError> {
        for _ in 0..WRITE_MAX {
            let forced = self.form.take_forced();
            self.take(means, &forced);
            if let Some(ending) = self.ending() {
                return Ok(Some(ending));
            }
            let start = self.cache.len();
            let seen = means.network.read(&self.tokens[start..], &mut self.cache);
            match self.form.choose(&mut means.network.next(seen))? {
                Some(token) if !self.ends_before(means, token) => self.take(means, &[token]),
                Some(_) | None => return Ok(Some(Ending::Complete)),
            }
            if let Some(ending) = self.ending() {
                return Ok(Some(ending));
            }
        }
        Ok(None)
    }

    fn ending(&self) -> Option<Ending> {
        if self.form.is_complete() {
            Some(Ending::Complete)
        } else if self.tokens.len() - self.prompt >= self.tokens_max {
            Some(Ending::Limit)
        } else {
            None
        }
    }

    /// Whether the reply is over and `token` no longer belongs to it: the model ends its turn, or a text that is long
    /// enough would begin another sentence.
    fn ends_before(&self, means: &Means, token: u32) -> bool {
        if token == means.vocabulary.turn_end() {
            return true;
        }
        let reply = &self.tokens[self.prompt..];
        if !self.form.is_text() || reply.len() < self.tokens_wanted {
            return false;
        }
        let tail = &reply[reply.len().saturating_sub(TAIL)..];
        let tail: Vec<u8> = tail.iter().flat_map(|token| means.vocabulary.decode(*token)).copied().collect();
        is_between_sentences(&tail, means.vocabulary.decode(token))
    }

    /// Adds tokens to the reply, as far as its limit, and sends their text.
    fn take(&mut self, means: &Means, tokens: &[u32]) {
        let room = self.tokens_max - (self.tokens.len() - self.prompt);
        for token in &tokens[..tokens.len().min(room)] {
            self.tokens.push(*token);
            self.partial.extend_from_slice(means.vocabulary.decode(*token));
        }
        let whole = whole_characters(&self.partial);
        if whole > 0 {
            let rest = self.partial.split_off(whole);
            let text = String::from_utf8_lossy(&self.partial).into_owned();
            self.partial = rest;
            self.send(Event::Text(text));
        }
    }

    fn tally(&self, ending: Ending) -> Tally {
        let reply = self.tokens.len() - self.prompt;
        Tally { prompt: self.prompt, remembered: self.remembered, reply, ending }
    }

    fn send(&self, event: Event) {
        // The queue has room for every token, so the only failure is that nobody waits any more; the next turn
        // sees that.
        drop(self.events.try_send(event));
    }
}

/// Whether a sentence or a paragraph ends with `before`, when `after` comes next.
fn is_between_sentences(before: &[u8], after: &[u8]) -> bool {
    let text = before.trim_ascii_end();
    let space_before = &before[text.len()..];
    let space_after = &after[..after.len() - after.trim_ascii_start().len()];
    let lines = space_before.iter().chain(space_after).filter(|byte| **byte == b'\n').count();
    let sentence_ended = text.last().is_some_and(|byte| matches!(byte, b'.' | b'!' | b'?'));
    let space = space_before.len() + space_after.len() > 0;
    space && (sentence_ended || lines > 1)
}

/// Bytes up to the end of the last whole character; bytes that are no text at all count as whole.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_ends_before_the_space_that_follows_it() {
        assert!(is_between_sentences(b"the end.", b" Another"));
        assert!(is_between_sentences(b"the end!\n", b"Another"));
        assert!(is_between_sentences(b"- an item\n", b"\n"));
        assert!(!is_between_sentences(b"version 1.", b"2"));
        assert!(!is_between_sentences(b"a line that is", b"\nwrapped"));
        assert!(!is_between_sentences(b"in the", b" middle"));
    }

    #[test]
    fn a_character_waits_for_its_last_byte() {
        let text = "né".as_bytes();
        assert_eq!(whole_characters(&text[..2]), 1);
        assert_eq!(whole_characters(text), 3);
    }
}
