//! Asks a model again after a failure that may pass: how often, after which pause, and when it is no longer allowed.
//!
//! Where somebody reads along it asks again only as long as nothing of a reply was shown, because a reply must not be shown twice.
//! A model that limits its callers is waited for by the clock, not by a number of tries, once no other stands in for it.
//! It knows one call; a pause that all calls of an account share is not its business.

use super::port::{Model, ModelError, ModelRequest, ReplyPart, ReplyStream};
use backon::{BackoffBuilder, ExponentialBuilder};
use futures::stream::{self, Stream, StreamExt};
use legwork_core::report::FailureReason;
use legwork_core::step::Reply;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How often a reply that broke off after its first word is asked for once more: what was written of it is paid for again.
const BROKEN_OFF_MAX: u32 = 2;

/// How failures that may pass are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a model is asked at most, the first time included.
    pub attempts_max: u32,
    /// The first pause; each later one is twice as long. Up to as much again is added at random, so that calls that
    /// failed together do not come back together.
    pub pause_min: Duration,
    /// Where the pauses stop growing.
    pub pause_max: Duration,
    /// The longest wait that a provider may ask for; beyond it the call fails at once and says so. One that limits its
    /// callers may ask for as much as is left of the time below.
    pub wait_max: Duration,
    /// How long a model is asked again in all that limits its callers or is overloaded, and for which no other stands in
    /// (`delegation.throttled_seconds`); with nothing here it has the attempts of any other failure.
    pub throttled_max: Duration,
    /// What a failure after the first word of a reply means.
    pub begun: BegunReply,
}

/// What becomes of a reply that breaks off after its first word, for a reason that may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BegunReply {
    /// The call fails: somebody has read it so far, and would read it twice.
    Fails,
    /// It is forgotten and asked for again, twice at most; after that another model is asked, or the call fails.
    AskedAgain,
}

impl Default for RetryPolicy {
    /// Six attempts within 31 to 62 s of pauses, and waits of at most two minutes; a quarter of an hour for a model that limits
    /// its callers.
    fn default() -> Self {
        RetryPolicy {
            attempts_max: 6,
            pause_min: Duration::from_secs(1),
            pause_max: Duration::from_secs(30),
            wait_max: Duration::from_secs(120),
            throttled_max: Duration::from_secs(900),
            begun: BegunReply::Fails,
        }
    }
}

/// What is heard of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// A piece of visible text.
    Text(String),
    /// A piece of reasoning.
    Thinking(String),
    /// The model goes on writing the arguments of a call.
    Moved,
    /// An attempt failed; the next one follows after the pause. What was heard of it does not count.
    Retrying(Retrying),
    /// A model failed for good; another one stands in for it at once. What was heard of it does not count.
    StoodIn(StoodIn),
    /// The whole reply; always last.
    Done(Box<Reply>),
}

/// An attempt that failed and will be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retrying {
    /// What went wrong.
    pub error: ModelError,
    /// The number of the attempt that failed, from 1.
    pub attempt: u32,
    /// How many there are at most; nothing where time is what ends them.
    pub attempts_max: Option<u32>,
    /// How long it is until the next one.
    pub pause: Duration,
}

/// A model that failed for good, and who is asked instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoodIn {
    /// The model that failed, as `provider/name`.
    pub failed: String,
    /// What went wrong.
    pub error: ModelError,
    /// The model that is asked now.
    pub instead: String,
}

/// What is heard of a call, in order.
pub type HeardStream = Pin<Box<dyn Stream<Item = Result<Heard, ModelError>> + Send>>;

/// Asks the model, again where the policy allows it. `seed` decides the random part of the pauses.
///
/// The stream ends after [`Heard::Done`] or the first error, which is the last attempt's. Nothing is sent before it is
/// polled; dropping it cancels the request or the pause.
pub fn ask(model: Arc<dyn Model>, request: ModelRequest, policy: RetryPolicy, seed: u64) -> HeardStream {
    model.begin();
    let asking = Asking {
        pauses: pauses(policy, seed),
        model,
        request,
        policy,
        seed,
        attempt: 0,
        tries: 0,
        broken_off: 0,
        throttled: Throttled::default(),
        failures: Vec::new(),
        state: State::Due,
    };
    Box::pin(stream::unfold(
        asking,
        |mut asking| async move { asking.next().await.map(|heard| (heard, asking)) },
    ))
}

fn pauses(policy: RetryPolicy, seed: u64) -> Box<dyn Iterator<Item = Duration> + Send> {
    let pauses = ExponentialBuilder::new()
        .with_min_delay(policy.pause_min)
        .with_max_delay(policy.pause_max)
        .without_max_times()
        .with_jitter()
        .with_jitter_seed(seed)
        .build();
    Box::new(pauses)
}

struct Asking {
    model: Arc<dyn Model>,
    request: ModelRequest,
    policy: RetryPolicy,
    seed: u64,
    pauses: Box<dyn Iterator<Item = Duration> + Send>,
    /// Of the model that is asked now.
    attempt: u32,
    /// Those of its attempts that are counted against the most there may be.
    tries: u32,
    /// How many of its attempts broke off after a word.
    broken_off: u32,
    throttled: Throttled,
    /// What became of the models before it.
    failures: Vec<String>,
    state: State,
}

/// How it is with a model that limits its callers.
#[derive(Debug, Clone, Copy, Default)]
struct Throttled {
    /// When it first said so; nothing once a word of a reply came.
    since: Option<Instant>,
    /// Whether it had its attempts, and the clock counts from now on.
    is_waited_for: bool,
}

enum State {
    /// The next attempt begins now.
    Due,
    /// It begins at that instant.
    Pausing(Instant),
    /// Nothing of a reply was shown yet.
    Waiting(ReplyStream),
    /// Something of it was heard.
    Hearing(ReplyStream),
    Ended,
}

impl Asking {
    async fn next(&mut self) -> Option<Result<Heard, ModelError>> {
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Due => {
                    self.attempt += 1;
                    self.tries += 1;
                    self.state = State::Waiting(self.model.respond(self.request.clone()));
                }
                State::Pausing(until) => {
                    // Deadline: the pause that was told to whoever listens.
                    sleep_until(until).await;
                    self.state = State::Due;
                }
                State::Waiting(mut stream) => {
                    let part = stream.next().await;
                    return Some(self.first(part, stream));
                }
                State::Hearing(mut stream) => {
                    let part = stream.next().await?;
                    return Some(match part {
                        Ok(part) => Ok(self.heard(part, stream)),
                        Err(error) => self.broke_off(error),
                    });
                }
                State::Ended => return None,
            }
        }
    }

    /// As long as an attempt showed nothing there may be another one.
    fn first(
        &mut self,
        part: Option<Result<ReplyPart, ModelError>>,
        stream: ReplyStream,
    ) -> Result<Heard, ModelError> {
        match part.unwrap_or_else(|| Err(silent_end())) {
            Ok(ReplyPart::Moved) => {
                self.state = State::Waiting(stream);
                Ok(Heard::Moved)
            }
            Ok(part) => Ok(self.heard(part, stream)),
            Err(error) => self.after(error),
        }
    }

    fn broke_off(&mut self, error: ModelError) -> Result<Heard, ModelError> {
        match self.policy.begun {
            BegunReply::Fails => Err(error),
            BegunReply::AskedAgain if self.broken_off < BROKEN_OFF_MAX => {
                self.broken_off += 1;
                self.after(error)
            }
            BegunReply::AskedAgain => {
                let why = format!("given up after {} attempts", self.attempt);
                self.instead(ending(error, &why)).map(Heard::StoodIn)
            }
        }
    }

    /// What follows a failure that nobody must be spared: another attempt, another model, the wait for one that limits its
    /// callers, or the end.
    fn after(&mut self, error: ModelError) -> Result<Heard, ModelError> {
        let throttled = throttles(&error);
        if throttled {
            self.throttled.since.get_or_insert_with(Instant::now);
        }
        if throttled && self.throttled.is_waited_for {
            return self.waited_for(error).map(Heard::Retrying);
        }
        let ended = match self.again(error.clone()) {
            Ok(retrying) => return Ok(Heard::Retrying(retrying)),
            Err(ended) => ended,
        };
        match self.instead(ended) {
            Err(_all_failed) if throttled && !self.policy.throttled_max.is_zero() => {
                self.throttled.is_waited_for = true;
                self.waited_for(error).map(Heard::Retrying)
            }
            instead => instead.map(Heard::StoodIn),
        }
    }

    fn heard(&mut self, part: ReplyPart, stream: ReplyStream) -> Heard {
        let heard = match part {
            ReplyPart::Text(text) => Heard::Text(text),
            ReplyPart::Thinking(text) => Heard::Thinking(text),
            ReplyPart::Moved => Heard::Moved,
            ReplyPart::Done(reply) => return Heard::Done(reply),
        };
        self.throttled = Throttled::default();
        self.state = State::Hearing(stream);
        heard
    }

    /// Plans the next attempt, or gives the error back with the reason why there is none.
    fn again(&mut self, error: ModelError) -> Result<Retrying, ModelError> {
        if !error.retryable {
            return Err(error);
        }
        let RetryPolicy { attempts_max, wait_max, .. } = self.policy;
        if self.tries >= attempts_max {
            return Err(ending(error, &format!("given up after {} attempts", self.attempt)));
        }
        if let Some(asked) = error.retry_after.filter(|asked| *asked > wait_max) {
            let (asked, limit) = (asked.as_secs_f64(), wait_max.as_secs_f64());
            return Err(ending(
                error,
                &format!("the provider asks to wait {asked} s, more than the limit of {limit} s"),
            ));
        }
        let pause = self.pause(error.retry_after);
        self.state = State::Pausing(Instant::now() + pause);
        Ok(Retrying { error, attempt: self.tries, attempts_max: Some(attempts_max), pause })
    }

    /// Plans the next attempt with a model that limits its callers as long as there is time for it. Failures of another kind
    /// have all their tries from here on.
    fn waited_for(&mut self, error: ModelError) -> Result<Retrying, ModelError> {
        let limit = self.policy.throttled_max;
        let waited = self.throttled.since.map_or(Duration::ZERO, |since| since.elapsed());
        let left = limit.saturating_sub(waited);
        let asked = error.retry_after.unwrap_or_default();
        if left.is_zero() || asked > left {
            let seconds = limit.as_secs_f64();
            let why = match asked > left {
                true => format!("the provider asks to wait {} s", asked.as_secs_f64()),
                false => format!("given up after {} attempts", self.attempt),
            };
            let why = format!("{why}; it is waited for {seconds} s in all, `delegation.throttled_seconds`");
            return Err(self.all_failed(self.model.facts().name, ending(error, &why)));
        }
        let pause = self.pause(error.retry_after).min(left);
        self.tries = 0;
        self.state = State::Pausing(Instant::now() + pause);
        Ok(Retrying { error, attempt: self.attempt, attempts_max: None, pause })
    }

    /// Asks the model that stands in, or gives the error back with what became of all models.
    fn instead(&mut self, error: ModelError) -> Result<StoodIn, ModelError> {
        let failed = self.model.facts().name;
        let Some(instead) = self.model.stand_in(&error) else { return Err(self.all_failed(failed, error)) };
        self.failures.push(format!("{failed}: {}", error.message));
        (self.attempt, self.tries, self.broken_off) = (0, 0, 0);
        self.throttled = Throttled::default();
        self.pauses = pauses(self.policy, self.seed);
        self.state = State::Due;
        Ok(StoodIn { failed, error, instead: instead.name })
    }

    fn all_failed(&self, last: String, error: ModelError) -> ModelError {
        if self.failures.is_empty() {
            return error;
        }
        let before = self.failures.join("; ");
        ModelError { message: format!("{before}; {last}: {}", error.message), ..error }
    }

    /// Never less than the provider asked for; the random part of ours spreads those that were asked for the same.
    fn pause(&mut self, asked: Option<Duration>) -> Duration {
        let ours = self.pauses.next().unwrap_or(self.policy.pause_max);
        asked.map_or(ours, |asked| asked + ours / 4)
    }
}

/// Whether the provider answers others meanwhile, and will answer this call later.
fn throttles(error: &ModelError) -> bool {
    error.retryable && matches!(error.reason, FailureReason::RateLimit | FailureReason::Overloaded)
}

fn ending(error: ModelError, why: &str) -> ModelError {
    ModelError { message: format!("{} ({why})", error.message), ..error }
}

/// A model that ends its stream without a word breaks its promise; asking it again is harmless.
fn silent_end() -> ModelError {
    super::errors::plain(FailureReason::ServerError, "the model ended without a reply")
}
