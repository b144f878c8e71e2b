//! When a model is asked again: only before anything was seen, after growing pauses, within every limit.

use futures::StreamExt;
use futures::stream;
use legwork_agent::models::{
    BegunReply, Chain, Heard, HeardStream, Model, ModelError, ModelFacts, ModelRequest, ReplyPart,
    ReplyStream, RetryPolicy, Retrying, Spent, ask,
};
use legwork_core::message::{Author, Message};
use legwork_core::report::{Cost, FailureReason, Usage};
use legwork_core::step::{Finish, Reply};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

type Part = Result<ReplyPart, ModelError>;

/// A model whose attempts were written down; it notes when each of them began.
struct Attempts {
    planned: Mutex<VecDeque<Vec<Part>>>,
    begun: Mutex<Vec<Instant>>,
}

impl Attempts {
    fn new(planned: impl IntoIterator<Item = Vec<Part>>) -> Arc<Self> {
        Arc::new(Attempts { planned: Mutex::new(planned.into_iter().collect()), begun: Mutex::default() })
    }

    fn count(&self) -> usize {
        self.begun.lock().expect("no panic under the lock").len()
    }

    /// The pauses between the attempts.
    fn gaps(&self) -> Vec<Duration> {
        let begun = self.begun.lock().expect("no panic under the lock");
        begun.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

impl Model for Attempts {
    fn facts(&self) -> ModelFacts {
        ModelFacts { name: "test/attempts".into(), window: None }
    }

    fn respond(&self, _request: ModelRequest) -> ReplyStream {
        self.begun.lock().expect("no panic under the lock").push(Instant::now());
        let parts = self.planned.lock().expect("no panic under the lock").pop_front();
        Box::pin(stream::iter(parts.expect("no more attempts than planned")))
    }
}

fn error(reason: FailureReason, retryable: bool) -> ModelError {
    ModelError {
        reason,
        message: "HTTP 500: oh".into(),
        retryable,
        retry_after: None,
        spent: Spent::default(),
    }
}

fn passing() -> Vec<Part> {
    vec![Err(error(FailureReason::ServerError, true))]
}

fn asked_to_wait(seconds: u64) -> Vec<Part> {
    let retry_after = Some(Duration::from_secs(seconds));
    vec![Err(ModelError { retry_after, ..error(FailureReason::RateLimit, true) })]
}

fn good() -> Vec<Part> {
    let message = Message::text(Author::Assistant, "ok");
    let reply =
        Reply { message, usage: Usage::default(), cost: Cost::Unknown, model: None, finish: Finish::Stop };
    vec![Ok(ReplyPart::Text("ok".into())), Ok(ReplyPart::Done(Box::new(reply)))]
}

fn listen(model: &Arc<Attempts>, policy: RetryPolicy, seed: u64) -> HeardStream {
    let request = ModelRequest { messages: Vec::new(), tools: Arc::from([]) };
    ask(Arc::clone(model) as Arc<dyn Model>, request, policy, seed)
}

async fn heard(model: &Arc<Attempts>) -> Vec<Result<Heard, ModelError>> {
    listen(model, RetryPolicy::default(), 7).collect().await
}

fn retries(heard: &[Result<Heard, ModelError>]) -> Vec<&Retrying> {
    let retry = |heard: &'_ Result<Heard, ModelError>| matches!(heard, Ok(Heard::Retrying(_)));
    heard
        .iter()
        .filter(|heard| retry(heard))
        .map(|heard| match heard {
            Ok(Heard::Retrying(retrying)) => retrying,
            Ok(Heard::Text(_) | Heard::Thinking(_) | Heard::Moved | Heard::StoodIn(_) | Heard::Done(_))
            | Err(_) => {
                unreachable!("it was filtered")
            }
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn k28_failures_that_pass_are_outlived_after_growing_pauses() {
    let model = Attempts::new([passing(), passing(), passing(), good()]);
    let heard = heard(&model).await;
    assert!(matches!(heard.last(), Some(Ok(Heard::Done(_)))), "{heard:?}");
    let gaps = model.gaps();
    assert_eq!(gaps.len(), 3);
    for (gap, floor) in gaps.iter().zip([1, 2, 4]) {
        let floor = Duration::from_secs(floor);
        assert!(*gap >= floor && *gap <= 2 * floor + Duration::from_millis(2), "{gaps:?}");
    }
    let told: Vec<_> =
        retries(&heard).iter().map(|retrying| (retrying.attempt, retrying.attempts_max)).collect();
    assert_eq!(told, [(1, Some(6)), (2, Some(6)), (3, Some(6))]);
}

#[tokio::test(start_paused = true)]
async fn the_pause_that_is_told_is_the_pause_that_is_made() {
    let model = Attempts::new([passing(), good()]);
    let heard = heard(&model).await;
    let (told, made) = (retries(&heard)[0].pause, model.gaps()[0]);
    assert!(made >= told && made < told + Duration::from_millis(2), "told {told:?}, made {made:?}");
}

#[tokio::test(start_paused = true)]
async fn another_seed_makes_other_pauses() {
    let mut gaps = Vec::new();
    for seed in [1, 2, 1] {
        let model = Attempts::new([passing(), good()]);
        let _heard: Vec<_> = listen(&model, RetryPolicy::default(), seed).collect().await;
        gaps.push(model.gaps()[0]);
    }
    assert_eq!(gaps[0], gaps[2]);
    assert_ne!(gaps[0], gaps[1]);
}

#[tokio::test(start_paused = true)]
async fn k28_the_wait_that_the_provider_asks_for_is_kept() {
    let model = Attempts::new([asked_to_wait(100), good()]);
    heard(&model).await;
    assert!(model.gaps()[0] >= Duration::from_secs(100), "{:?}", model.gaps());
}

#[tokio::test(start_paused = true)]
async fn k28_a_wait_beyond_the_limit_is_not_slept_through_in_silence() {
    for (throttled_s, words) in [
        (0, "86400 s, more than the limit of 120 s"),
        (900, "86400 s; it is waited for 900 s in all, `delegation.throttled_seconds`"),
    ] {
        let model = Attempts::new([asked_to_wait(86_400)]);
        let before = Instant::now();
        let heard: Vec<_> = listen(&model, patient(throttled_s), 7).collect().await;
        let [Err(error)] = heard.as_slice() else { panic!("one error: {heard:?}") };
        assert!(error.message.contains(words), "{error:?}");
        assert_eq!(error.reason, FailureReason::RateLimit);
        assert!(before.elapsed() < Duration::from_secs(1));
    }
}

fn patient(throttled_s: u64) -> RetryPolicy {
    RetryPolicy { throttled_max: Duration::from_secs(throttled_s), ..RetryPolicy::default() }
}

fn throttled(reason: FailureReason) -> Vec<Part> {
    vec![Err(error(reason, true))]
}

#[tokio::test(start_paused = true)]
async fn k28_a_model_that_limits_its_callers_for_minutes_is_outlived() {
    for reason in [FailureReason::RateLimit, FailureReason::Overloaded] {
        let model = Attempts::new((0..12).map(|_| throttled(reason)).chain([good()]));
        let before = Instant::now();
        let heard = heard(&model).await;
        assert!(matches!(heard.last(), Some(Ok(Heard::Done(_)))), "{heard:?}");
        assert!(before.elapsed() > Duration::from_secs(180), "{:?}", before.elapsed());
        let gaps = model.gaps();
        assert!(gaps[5..].iter().all(|gap| *gap >= Duration::from_secs(30)), "{gaps:?}");
        let told: Vec<_> = retries(&heard).iter().map(|told| (told.attempt, told.attempts_max)).collect();
        assert_eq!((told[4], told[5], told[11]), ((5, Some(6)), (6, None), (12, None)));
    }
}

#[tokio::test(start_paused = true)]
async fn k28_a_wait_of_minutes_that_a_limiting_provider_asks_for_is_kept() {
    let model = Attempts::new([asked_to_wait(600), good()]);
    let heard = heard(&model).await;
    assert!(matches!(heard.last(), Some(Ok(Heard::Done(_)))), "{heard:?}");
    assert!(model.gaps()[0] >= Duration::from_secs(600), "{:?}", model.gaps());
}

#[tokio::test(start_paused = true)]
async fn k28_the_wait_for_a_model_that_limits_its_callers_ends_at_its_limit_and_names_it() {
    let model = Attempts::new((0..40).map(|_| throttled(FailureReason::RateLimit)));
    let before = Instant::now();
    let heard = heard(&model).await;
    let waited = before.elapsed();
    assert!(waited >= Duration::from_secs(900) && waited < Duration::from_secs(901), "{waited:?}");
    let Some(Err(error)) = heard.last() else { panic!("an error: {heard:?}") };
    let words = format!("given up after {} attempts; it is waited for 900 s in all", model.count());
    assert!(error.message.contains(&words), "{error:?}");
    assert!(error.message.contains("`delegation.throttled_seconds`"), "{error:?}");
}

/// The time in which a limit is waited for takes nothing from the tries of other failures, nor they from it.
#[tokio::test(start_paused = true)]
async fn k28_another_failure_amid_a_limit_has_its_own_tries() {
    let limited = || (0..9).map(|_| throttled(FailureReason::RateLimit));
    let model = Attempts::new(limited().chain([passing(), passing()]).chain([good()]));
    let heard = heard(&model).await;
    assert!(matches!(heard.last(), Some(Ok(Heard::Done(_)))), "{heard:?}");
    let forever = Attempts::new((0..200).map(|turn| match turn % 2 {
        0 => throttled(FailureReason::RateLimit),
        _ => passing(),
    }));
    let before = Instant::now();
    let heard: Vec<_> = listen(&forever, RetryPolicy::default(), 7).collect().await;
    assert!(matches!(heard.last(), Some(Err(_))), "{heard:?}");
    assert!(before.elapsed() < Duration::from_secs(1200), "{:?}", before.elapsed());
}

/// Proves CRED-14: while another may stand in a limit is not waited for; the last of a chain has nobody behind it.
#[tokio::test(start_paused = true)]
async fn cred_14_the_chain_comes_before_the_wait_for_a_model_that_limits_its_callers() {
    let first = failing(FailureReason::RateLimit, 6);
    let limited = (0..9).map(|_| throttled(FailureReason::RateLimit));
    let second = Attempts::new(limited.chain([good()]));
    let links: [Arc<dyn Model>; 2] = [first.clone(), second.clone()];
    let end = end_of(&Arc::new(Chain::new(Arc::from(links)))).await;
    assert!(matches!(end, Ok(Heard::Done(_))), "{end:?}");
    assert_eq!((first.count(), second.count()), (6, 10));
    let both = [failing(FailureReason::RateLimit, 6), failing(FailureReason::RateLimit, 200)];
    let links: [Arc<dyn Model>; 2] = [both[0].clone(), both[1].clone()];
    let Err(error) = end_of(&Arc::new(Chain::new(Arc::from(links)))).await else {
        panic!("it cannot answer")
    };
    assert!(error.message.contains("given up after 6 attempts); "), "each is told of: {error:?}");
    assert!(error.message.contains("delegation.throttled_seconds"), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn k28_what_cannot_pass_is_asked_once() {
    for reason in [FailureReason::Auth, FailureReason::BadRequest, FailureReason::Billing] {
        let model = Attempts::new([vec![Err(error(reason, false))]]);
        let heard = heard(&model).await;
        assert_eq!(heard, [Err(error(reason, false))]);
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_end_at_their_limit_with_the_last_error() {
    let model = Attempts::new([passing(), passing(), passing()]);
    let policy = RetryPolicy { attempts_max: 3, ..RetryPolicy::default() };
    let heard: Vec<_> = listen(&model, policy, 7).collect().await;
    assert_eq!(model.count(), 3);
    let Some(Err(error)) = heard.last() else { panic!("an error: {heard:?}") };
    assert_eq!(error.message, "HTTP 500: oh (given up after 3 attempts)");
}

#[tokio::test(start_paused = true)]
async fn k28_nothing_is_said_twice_a_failure_after_the_first_word_is_final() {
    for first in [ReplyPart::Text("half".into()), ReplyPart::Thinking("hm".into())] {
        let cut = error(FailureReason::Network, true);
        let model = Attempts::new([vec![Ok(first), Err(cut.clone())]]);
        let heard = heard(&model).await;
        assert_eq!(heard.len(), 2);
        assert_eq!(heard[1], Err(cut));
        assert_eq!(model.count(), 1);
    }
}

const UNWATCHED: RetryPolicy = RetryPolicy {
    attempts_max: 6,
    pause_min: Duration::from_secs(1),
    pause_max: Duration::from_secs(30),
    wait_max: Duration::from_secs(120),
    throttled_max: Duration::from_secs(900),
    begun: BegunReply::AskedAgain,
};

#[tokio::test(start_paused = true)]
async fn k28_a_reply_that_nobody_reads_along_is_asked_for_again_when_it_breaks_off() {
    let cut = error(FailureReason::Network, true);
    for first in [ReplyPart::Text("half".into()), ReplyPart::Thinking("hm".into())] {
        let broken = || vec![Ok(first.clone()), Err(cut.clone())];
        for breaks in 1..=2 {
            let model = Attempts::new((0..breaks).map(|_| broken()).chain([good()]));
            let heard: Vec<_> = listen(&model, UNWATCHED, 7).collect().await;
            assert!(matches!(heard.last(), Some(Ok(Heard::Done(_)))), "{heard:?}");
            assert_eq!((retries(&heard).len(), model.count()), (breaks, breaks + 1));
        }
        let model = Attempts::new([broken(), broken(), broken(), good()]);
        let heard: Vec<_> = listen(&model, UNWATCHED, 7).collect().await;
        let Some(Err(error)) = heard.last() else { panic!("an error: {heard:?}") };
        assert!(error.message.ends_with("(given up after 3 attempts)"), "{error:?}");
        assert_eq!(model.count(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn k28_a_refusal_in_mid_reply_is_final() {
    let refused = error(FailureReason::ContentPolicy, false);
    let model = Attempts::new([vec![Ok(ReplyPart::Text("half".into())), Err(refused.clone())], good()]);
    let heard: Vec<_> = listen(&model, UNWATCHED, 7).collect().await;
    assert_eq!(heard.last(), Some(&Err(refused)));
    assert_eq!(model.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn arguments_that_nobody_has_seen_may_be_asked_for_again() {
    let cut = error(FailureReason::Network, true);
    let model = Attempts::new([vec![Ok(ReplyPart::Moved), Err(cut.clone())], good()]);
    let heard = heard(&model).await;
    assert_eq!(heard[0], Ok(Heard::Moved));
    assert_eq!(retries(&heard)[0].error, cut);
    assert!(matches!(heard.last(), Some(Ok(Heard::Done(_)))), "{heard:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_a_word_is_asked_again() {
    let model = Attempts::new([vec![], good()]);
    let heard = heard(&model).await;
    assert_eq!(retries(&heard)[0].error.message, "the model ended without a reply");
    assert_eq!(model.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_heard_part_by_part_and_nothing_follows_it() {
    let model = Attempts::new([good()]);
    let mut stream = listen(&model, RetryPolicy::default(), 7);
    assert_eq!(model.count(), 0, "nothing is asked before the stream is polled");
    assert_eq!(stream.next().await, Some(Ok(Heard::Text("ok".into()))));
    assert!(matches!(stream.next().await, Some(Ok(Heard::Done(_)))));
    assert_eq!(stream.next().await, None);
}

fn failing(reason: FailureReason, times: usize) -> Arc<Attempts> {
    let passes = matches!(
        reason,
        FailureReason::RateLimit
            | FailureReason::Overloaded
            | FailureReason::ServerError
            | FailureReason::Network
            | FailureReason::Timeout
    );
    Attempts::new((0..times).map(|_| vec![Err(error(reason, passes))]))
}

async fn end_of(chain: &Arc<Chain>) -> Result<Heard, ModelError> {
    let request = ModelRequest { messages: Vec::new(), tools: Arc::from([]) };
    let model = Arc::clone(chain) as Arc<dyn Model>;
    let heard: Vec<_> = ask(model, request, RetryPolicy::default(), 7).collect().await;
    heard.into_iter().next_back().expect("it ends with something")
}

#[tokio::test(start_paused = true)]
async fn cred_14_a_chain_goes_on_where_another_model_may_help_after_all_tries_of_one() {
    let cases = [
        (FailureReason::Auth, 1, true),
        (FailureReason::Billing, 1, true),
        (FailureReason::ModelNotFound, 1, true),
        (FailureReason::RateLimit, 6, true),
        (FailureReason::Overloaded, 6, true),
        (FailureReason::ServerError, 6, true),
        (FailureReason::Network, 6, true),
        (FailureReason::Timeout, 6, true),
        (FailureReason::ContentPolicy, 1, false),
        (FailureReason::ContextOverflow, 1, false),
        (FailureReason::BadRequest, 1, false),
    ];
    for (reason, tries, goes_on) in cases {
        let (first, second) = (failing(reason, tries), Attempts::new([good()]));
        let links: [Arc<dyn Model>; 2] = [first.clone(), second.clone()];
        let end = end_of(&Arc::new(Chain::new(Arc::from(links)))).await;
        assert_eq!((first.count(), second.count()), (tries, usize::from(goes_on)), "{reason:?}");
        match end {
            Ok(Heard::Done(reply)) => {
                assert_eq!((goes_on, reply.model.as_deref()), (true, Some("test/attempts")))
            }
            other => assert!(!goes_on, "{reason:?}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cred_14_a_stand_in_stays_for_a_while_and_then_the_first_is_asked_again() {
    let first = Attempts::new([vec![Err(error(FailureReason::Auth, false))], good()]);
    let second = Attempts::new([good(), good()]);
    let links: [Arc<dyn Model>; 2] = [first.clone(), second.clone()];
    let chain = Arc::new(Chain::new(Arc::from(links)));
    for counts in [(1, 1), (1, 2)] {
        assert!(matches!(end_of(&chain).await, Ok(Heard::Done(_))));
        assert_eq!((first.count(), second.count()), counts);
    }
    tokio::time::advance(Duration::from_secs(300)).await;
    assert!(matches!(end_of(&chain).await, Ok(Heard::Done(_))));
    assert_eq!((first.count(), second.count()), (2, 2));
}
