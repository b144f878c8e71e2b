//! The thread that owns the model.
//!
//! Owns the queue of requests, the fair turn between those that run, and the memories of past conversations. It does
//! not know what the requests are about.

use super::cache::Cache;
use super::file::ModelFile;
use super::generation::{EVENTS_MARGIN, Event, Generation, Means, Progress, Request};
use super::grammar::Grammar;
use super::network::Network;
use super::vocabulary::Vocabulary;
use super::{EngineError, WINDOW};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::mpsc;

/// Requests that take turns; each holds a memory of up to 90 MB when its window is full.
const RUNNING_MAX: usize = 4;
/// Requests that wait in the queue; further callers wait in front of it.
const WAITING_MAX: usize = 64;
/// Tokens of past conversations that are kept, 46 kB each.
const REMEMBERED_MAX: usize = 2 * WINDOW;

/// A handle on the model. Cheap to clone; the thread ends with the last one.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    /// Written by every request, read by the thread. When it is full the caller waits. `None` only while dropping.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    vocabulary: Arc<Vocabulary>,
}

struct Job {
    request: Request,
    events: mpsc::Sender<Event>,
}

/// What a request brings, as it comes. Dropping it cancels the request within one turn.
pub struct Replies {
    events: mpsc::Receiver<Event>,
}

impl Replies {
    /// The next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// The next event, for a caller outside of any async runtime.
    pub fn next_blocking(&mut self) -> Option<Event> {
        self.events.blocking_recv()
    }
}

impl Engine {
    /// Reads the model file and starts the thread. It blocks for about a second.
    ///
    /// # Errors
    /// When the file cannot be read or is no model for this engine.
    pub fn start(path: &Path) -> Result<Self, EngineError> {
        let mut file = ModelFile::open(path)?;
        let vocabulary = Arc::new(Vocabulary::load(&file)?);
        let network = Network::load(&mut file)?;
        if network.tokens() != vocabulary.len() {
            return Err(EngineError::Unsupported(
                "its vocabulary and its matrices differ in size".to_owned(),
            ));
        }
        let grammar = Grammar::new(Arc::clone(&vocabulary))?;
        let means = Means { network, vocabulary: Arc::clone(&vocabulary), grammar };
        let (jobs, queue) = mpsc::channel(WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name("legwork-local".to_owned())
            .spawn(move || Turns::new(means).serve(queue))
            .map_err(|error| EngineError::Read(format!("no thread for the model: {error}")))?;
        Ok(Self { shared: Arc::new(Shared { jobs: Some(jobs), thread: Some(thread), vocabulary }) })
    }

    /// The tokens of the model, to build prompts with.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.shared.vocabulary
    }

    /// Hands a request in; waits while the queue is full.
    ///
    /// # Errors
    /// `EngineError::Stopped` when the thread is gone. Every other failure comes as an event.
    pub async fn ask(&self, request: Request) -> Result<Replies, EngineError> {
        let (events, replies) = mpsc::channel(request.tokens_max + EVENTS_MARGIN);
        let jobs = self.shared.jobs.as_ref().ok_or(EngineError::Stopped)?;
        jobs.send(Job { request, events }).await.map_err(|_| EngineError::Stopped)?;
        Ok(Replies { events: replies })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was shown where it happened, and its requests have failed already.
            drop(thread.join());
        }
    }
}

/// The requests that run, in the order of their turns, and what is remembered of others.
struct Turns {
    means: Means,
    running: VecDeque<Generation>,
    /// The most recent one last.
    remembered: Vec<Cache>,
}

impl Turns {
    fn new(means: Means) -> Self {
        Self { means, running: VecDeque::new(), remembered: Vec::new() }
    }

    fn serve(mut self, mut queue: mpsc::Receiver<Job>) {
        while self.admit(&mut queue) {
            let Some(mut generation) = self.running.pop_front() else { continue };
            match generation.advance(&self.means) {
                Progress::Going => self.running.push_back(generation),
                Progress::Over => self.remember(generation.into_cache()),
            }
        }
    }

    /// Takes new requests while there is room, and waits for one when nothing runs. False when no handle is left.
    fn admit(&mut self, queue: &mut mpsc::Receiver<Job>) -> bool {
        if self.running.is_empty() {
            match queue.blocking_recv() {
                Some(job) => self.begin(job),
                None => return false,
            }
        }
        while self.running.len() < RUNNING_MAX {
            match queue.try_recv() {
                Ok(job) => self.begin(job),
                Err(mpsc::error::TryRecvError::Empty | mpsc::error::TryRecvError::Disconnected) => break,
            }
        }
        true
    }

    fn begin(&mut self, job: Job) {
        let Job { request, events } = job;
        if events.is_closed() {
            return;
        }
        let cache = self.recall(&request.prompt);
        match Generation::begin(&self.means, request, cache, events.clone()) {
            Ok(generation) => self.running.push_back(generation),
            // Nobody may be waiting any more, and then nobody misses the answer.
            Err(error) => drop(events.try_send(Event::Failed(error))),
        }
    }

    /// The memory that shares the longest beginning with the prompt. It is taken when it is mostly that beginning,
    /// and copied when it belongs rather to another conversation.
    fn recall(&mut self, prompt: &[u32]) -> Cache {
        // The last token is always read anew: the network must see it to say what follows.
        let usable = prompt.len().saturating_sub(1);
        let shared = |cache: &Cache| cache.common_prefix(&prompt[..usable]);
        let best = (0..self.remembered.len()).max_by_key(|index| shared(&self.remembered[*index]));
        let Some(best) = best else { return self.means.network.new_cache() };
        let len = shared(&self.remembered[best]);
        if 2 * len < self.remembered[best].len() {
            return self.remembered[best].fork(len);
        }
        let mut cache = self.remembered.remove(best);
        cache.truncate(len);
        cache
    }

    fn remember(&mut self, cache: Cache) {
        self.remembered.push(cache);
        while self.remembered.iter().map(Cache::len).sum::<usize>() > REMEMBERED_MAX {
            self.remembered.remove(0);
        }
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
