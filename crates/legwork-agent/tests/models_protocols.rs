//! What must hold whatever a provider speaks: the same scripted conversation and the same faults over every protocol,
//! against a server that refuses whatever the provider would refuse.

#[path = "models_support/asking.rs"]
mod models_support;

use legwork_agent::models::{ModelError, ModelRequest, Protocol, RemoteModel, RemoteOptions, ReplyPart};
use legwork_core::message::{Author, Image, ImageSource, Message, Part};
use legwork_core::report::{Cost, FailureReason};
use legwork_core::step::{self, Reply as Said};
use legwork_testkit::server::{
    Call, Entry, Finish, Protocol as Format, ProviderError, Reply, Script, ScriptedServer, Scripts, Usage,
    call, calls, hang, hang_after_headers, hang_up, overloaded, rate_limited, raw_response, reason, say,
    server_error, status, status_page, unauthorized,
};
use models_support::{KEY, ask, failure, model, request, said, spoken, thought};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Every protocol, and what the scripted server calls it.
const SPOKEN: &[(Protocol, Format)] = &[
    (Protocol::ChatCompletions, Format::OpenAiChat),
    (Protocol::Responses, Format::OpenAiResponses),
    (Protocol::AnthropicMessages, Format::Anthropic),
    (Protocol::Gemini, Format::Gemini),
    (Protocol::Ollama, Format::Ollama),
];

/// A server that speaks one format only and asks for the key, and a model at it.
struct Pair {
    server: ScriptedServer,
    model: RemoteModel,
    protocol: Protocol,
}

impl Pair {
    fn new((protocol, format): (Protocol, Format), script: Script) -> Self {
        let scripts = Scripts::default().speaks([format]).key(KEY).otherwise(script);
        let server = ScriptedServer::start(scripts);
        let model = model(named(protocol, &server.base_for(format)));
        Pair { server, model, protocol }
    }

    fn saying(spoken: (Protocol, Format), reply: Reply) -> Self {
        Pair::new(spoken, Script::always(reply))
    }

    async fn ask(&self, request: ModelRequest) -> (Vec<ReplyPart>, Said) {
        let (parts, reply) = ask(&self.model, request).await;
        let name = self.protocol;
        let reply =
            reply.unwrap_or_else(|error| panic!("{name:?}: {error:?} {}", self.server.log().summary()));
        (parts, reply)
    }

    fn check_log(&self) {
        let log = self.server.log();
        assert!(log.violations().is_empty(), "{:?}: {}", self.protocol, log.summary());
    }

    fn request(&self, number: usize) -> Entry {
        self.server.log().entries()[number].clone()
    }
}

/// A route to a model of a name that the provider could have; Gemini's models differ by their names.
fn named(protocol: Protocol, base_url: &str) -> RemoteOptions {
    let name = match protocol {
        Protocol::Gemini => "gemini-3-flash-preview",
        Protocol::ChatCompletions | Protocol::Responses | Protocol::AnthropicMessages | Protocol::Ollama => {
            "test-model"
        }
    };
    RemoteOptions { model: name.into(), ..spoken(protocol, base_url) }
}

fn counted() -> Usage {
    Usage::new(120, 30).cached(100).reasoning(10)
}

const THOUGHT: &str = "I should look at both.";

/// Thinks, says something and calls two tools, then answers.
fn two_steps() -> Script {
    let both = [
        Call::new("read_file", json!({"path": "a.txt", "note": "ä \"quoted\" text ".repeat(20)})),
        Call::new("read_file", json!({"path": "b.txt"})),
    ];
    Script::new()
        .step(reason(THOUGHT).say("Let me see.").calls(both).usage(counted()))
        .step(say("alpha and beta").usage(counted()))
}

#[tokio::test]
async fn the_same_conversation_passes_over_every_protocol() {
    for &spoken in SPOKEN {
        let pair = Pair::new(spoken, two_steps());
        let (parts, first) = pair.ask(request("hi")).await;
        let name = pair.protocol;
        assert_eq!(thought(&parts), shown_thought(name), "{name:?}");
        assert_eq!(said(&parts), "Let me see.", "{name:?}");
        assert_eq!(
            (first.message.plain_text().as_str(), first.finish),
            ("Let me see.", step::Finish::ToolUse)
        );
        let made: Vec<_> = first.message.calls().cloned().collect();
        assert_eq!(made.len(), 2, "{name:?}");
        assert_eq!(made[0].arguments["note"], "ä \"quoted\" text ".repeat(20), "{name:?}");
        assert_eq!(made[1].arguments, json!({"path": "b.txt"}), "{name:?}");
        assert_ne!(made[0].id, made[1].id, "{name:?}");
        check_usage(&first, name);

        let mut seals = sealed(&first.message);
        seals.retain(|seal| seal != THOUGHT || !shown_thought(name).is_empty());
        let so_far = models_support::answered(request("hi"), stored_and_read(first.message), "contents");
        let (parts, last) = pair.ask(so_far).await;
        let body = pair.request(1).body.to_string();
        let missing = seals.iter().find(|seal| !body.contains(seal.as_str()));
        assert_eq!(missing, None, "{name:?}: reasoning goes back to its model: {body}");
        assert_eq!((said(&parts).as_str(), last.finish), ("alpha and beta", step::Finish::Stop), "{name:?}");
        pair.check_log();
    }
}

/// What of the reasoning is shown. OpenAI and Gemini show a summary to those who ask for one and may, and refuse the
/// question where a model does not think.
fn shown_thought(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Responses | Protocol::Gemini => "",
        Protocol::ChatCompletions | Protocol::AnthropicMessages | Protocol::Ollama => THOUGHT,
    }
}

fn stored_and_read(message: Message) -> Message {
    let stored = serde_json::to_string(&message).expect("a message can be stored");
    serde_json::from_str(&stored).expect("it can be read again")
}

fn check_usage(reply: &Said, protocol: Protocol) {
    let usage = reply.usage;
    assert_eq!((usage.input, usage.output), (120, 30), "{protocol:?}");
    // Ollama tells neither what it had cached nor what of a reply was reasoning.
    let parts = if protocol == Protocol::Ollama { (0, 0) } else { (100, 10) };
    assert_eq!((usage.cached, usage.reasoning), parts, "{protocol:?}");
    assert_eq!(reply.cost, Cost::Unknown, "{protocol:?}: no price list holds at another address");
}

#[tokio::test]
async fn arguments_in_the_making_are_a_sign_of_life_over_every_protocol() {
    for &spoken in SPOKEN {
        let pair = Pair::saying(spoken, call("read_file", json!({"path": "a".repeat(500)})));
        let (parts, _) = pair.ask(request("hi")).await;
        assert!(parts.contains(&ReplyPart::Moved), "{:?}: {parts:?}", pair.protocol);
    }
}

#[tokio::test]
async fn neighbours_in_the_users_role_and_later_results_keep_to_the_order_that_is_wanted() {
    let texts = |texts: &[&str]| {
        texts.iter().map(|text| Arc::new(Message::text(Author::Completion, *text))).collect::<Vec<_>>()
    };
    for &spoken in SPOKEN {
        let script =
            Script::new().step(call("read_file", json!({"path": "a"}))).step(say("ok")).step(say("yes"));
        let pair = Pair::new(spoken, script);
        let mut so_far = request("hi");
        so_far.messages.extend(texts(&["a result", "another"]));
        let (_, first) = pair.ask(so_far.clone()).await;
        let mut so_far = models_support::answered(so_far, first.message, "contents");
        so_far.messages.extend(texts(&["one more"]));
        let (_, second) = pair.ask(so_far.clone()).await;
        so_far.messages.push(Arc::new(second.message));
        so_far.messages.extend(texts(&["and one", "more"]));
        pair.ask(so_far).await;
        pair.check_log();
        let body = pair.request(2).body.to_string();
        for text in ["a result", "another", "one more", "and one"] {
            assert_eq!(body.matches(text).count(), 1, "{:?}: {body}", pair.protocol);
        }
    }
}

#[tokio::test]
async fn k23_malformed_arguments_never_fail_a_reply_and_go_back_legally() {
    for &spoken in SPOKEN {
        let both = [Call::malformed("read_file", r#"{"path": "a"#), Call::malformed("read_file", "[1, 2]")];
        let pair = Pair::new(spoken, Script::new().step(say("Let me see.").calls(both)).step(say("sorry")));
        let (_, first) = pair.ask(request("hi")).await;
        assert_eq!(first.message.plain_text(), "Let me see.", "{:?}", pair.protocol);
        let made: Vec<_> = first.message.calls().collect();
        // These two do not hand such calls over; they end the reply and say that there was one.
        let is_told = matches!(pair.protocol, Protocol::Gemini | Protocol::Ollama);
        let count = if is_told { 1 } else { 2 };
        assert_eq!(made.len(), count, "{:?}", pair.protocol);
        assert!(made.iter().all(|call| call.malformed.is_some()), "{:?}: {made:?}", pair.protocol);
        pair.ask(models_support::answered(request("hi"), first.message, "not valid JSON")).await;
        pair.check_log();
    }
}

#[tokio::test]
async fn k42_ids_that_are_repeated_or_missing_are_made_unique() {
    for &spoken in SPOKEN {
        let again = || calls([Call::new("read_file", json!({"path": "a"})).id("call_0")]);
        let pair = Pair::new(spoken, Script::new().step(again()).step(again()).step(say("done")));
        let (_, first) = pair.ask(request("hi")).await;
        let so_far = models_support::answered(request("hi"), first.message.clone(), "alpha");
        let (_, second) = pair.ask(so_far.clone()).await;
        let id = |reply: &Message| reply.calls().next().map(|call| call.id.clone()).expect("a call");
        assert!(!id(&first.message).is_empty());
        assert_ne!(id(&first.message), id(&second.message), "{:?}", pair.protocol);
        pair.ask(models_support::answered(so_far, second.message, "beta")).await;
        pair.check_log();
    }
}

/// The picture in a body, however the protocol writes it.
fn holds_picture(body: &Value, data: &str) -> bool {
    match body {
        Value::String(text) => text.ends_with(data),
        Value::Array(values) => values.iter().any(|value| holds_picture(value, data)),
        Value::Object(fields) => fields.values().any(|value| holds_picture(value, data)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[tokio::test]
async fn pictures_reach_every_provider() {
    let data =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    for &spoken in SPOKEN {
        let pair = Pair::saying(spoken, say("a dot"));
        let mut so_far = request("what is this?");
        let source = ImageSource::DataBase64(data.to_owned());
        let picture = Part::Image(Image { media_type: "image/png".to_owned(), source });
        so_far.messages.push(Arc::new(Message { author: Author::User, parts: vec![picture] }));
        pair.ask(so_far).await;
        pair.check_log();
        assert!(holds_picture(&pair.request(0).body, data), "{:?}", pair.protocol);
    }
}

/// What of a reply only the model that gave it may read.
fn sealed(message: &Message) -> Vec<String> {
    let mut secrets = vec![THOUGHT.to_owned()];
    for part in &message.parts {
        if let Part::Reasoning { opaque: Some(opaque), .. } = part {
            collect_seals(opaque, &mut secrets);
        }
    }
    secrets
}

fn collect_seals(value: &Value, secrets: &mut Vec<String>) {
    let names = ["signature", "encrypted_content", "thoughtSignature"];
    match value {
        Value::Object(fields) => {
            let seals = names.iter().filter_map(|name| fields.get(*name)?.as_str());
            secrets.extend(seals.filter(|seal| !seal.is_empty()).map(str::to_owned));
            fields.values().for_each(|value| collect_seals(value, secrets));
        }
        Value::Array(values) => values.iter().for_each(|value| collect_seals(value, secrets)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[tokio::test]
async fn reasoning_stays_with_the_model_that_thought_it() {
    for &thinker in SPOKEN {
        let pair = Pair::new(thinker, two_steps());
        let (_, first) = pair.ask(request("hi")).await;
        let secrets = sealed(&first.message);
        let so_far = models_support::answered(request("hi"), first.message, "contents");
        for &other in SPOKEN {
            let elsewhere = Pair::saying(other, say("done"));
            elsewhere.ask(so_far.clone()).await;
            elsewhere.check_log();
            let body = elsewhere.request(0).body.to_string();
            let leaked = secrets.iter().find(|secret| body.contains(secret.as_str()));
            assert_eq!(leaked, None, "{thinker:?} → {other:?}: {body}");
        }
    }
}

#[tokio::test]
async fn a_reply_says_why_it_ended_over_every_protocol() {
    for &spoken in SPOKEN {
        let pair = Pair::saying(spoken, say("half a sen").finish(Finish::Length));
        let (_, reply) = pair.ask(request("hi")).await;
        assert_eq!(reply.finish, step::Finish::Length, "{:?}", pair.protocol);
        assert_eq!(reply.message.plain_text(), "half a sen", "{:?}", pair.protocol);
    }
}

async fn failed(spoken: (Protocol, Format), reply: Reply) -> ModelError {
    let pair = Pair::saying(spoken, reply);
    let error = failure(&pair.model).await;
    assert_eq!(pair.server.log().entries().len(), 1, "{spoken:?}: the model never tries again by itself");
    error
}

/// A fault over every protocol, and the failure it must be.
async fn check(fault: impl Fn() -> Reply, reason: FailureReason, retryable: bool) {
    for &spoken in SPOKEN {
        let error = failed(spoken, fault()).await;
        assert_eq!((error.reason, error.retryable), (reason, retryable), "{spoken:?}: {error:?}");
        assert!(!error.message.contains(KEY), "{spoken:?}: {error:?}");
    }
}

#[tokio::test]
async fn k28_every_fault_has_its_reason_over_every_protocol() {
    check(unauthorized, FailureReason::Auth, false).await;
    check(|| status(402, "Payment required."), FailureReason::Billing, false).await;
    check(|| status(403, format!("{KEY} may not do this")), FailureReason::Auth, false).await;
    check(|| status(404, "There is no such model."), FailureReason::ModelNotFound, false).await;
    check(|| status(400, "prompt is too long: 9 tokens > 8"), FailureReason::ContextOverflow, false).await;
    check(|| status(400, "odd"), FailureReason::BadRequest, false).await;
    check(|| rate_limited(7), FailureReason::RateLimit, true).await;
    check(server_error, FailureReason::ServerError, true).await;
    check(overloaded, FailureReason::Overloaded, true).await;
    check(|| status_page(502, "text/html", "<h1>Bad Gateway</h1>"), FailureReason::ServerError, true).await;
    check(hang_up, FailureReason::Network, true).await;
}

#[tokio::test]
async fn k28_the_wait_that_a_provider_asks_for_is_read_over_every_protocol() {
    for &spoken in SPOKEN {
        let error = failed(spoken, rate_limited(7)).await;
        // Gemini counts in fractions of a second.
        let seconds = error.retry_after.map(|wait| wait.as_secs());
        assert_eq!(seconds, Some(7), "{spoken:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_never_a_whole_one_over_every_protocol() {
    let arguments = || json!({"path": "a".repeat(100)});
    check(|| say("half a sentence").cut(), FailureReason::Network, true).await;
    check(|| call("read_file", arguments()).cut(), FailureReason::Network, true).await;
    check(|| say("half a sentence").truncate(), FailureReason::Network, true).await;
    check(|| reason("I should").truncate(), FailureReason::Network, true).await;
    for &spoken in SPOKEN.iter().filter(|(protocol, _)| *protocol != Protocol::Ollama) {
        let error = failed(spoken, say("half").finish(Finish::Filtered)).await;
        assert_eq!(error.reason, FailureReason::ContentPolicy, "{spoken:?}: {error:?}");
    }
}

#[tokio::test]
async fn k23_an_error_within_the_stream_is_an_error_over_every_protocol() {
    let overloaded =
        || ProviderError::new("overloaded_error", format!("Overloaded {KEY}")).code("overloaded");
    for &spoken in SPOKEN {
        let error = failed(spoken, say("half").error_chunk(overloaded())).await;
        assert!(error.retryable, "{spoken:?}: {error:?}");
        assert!(error.message.contains("Overloaded [key]"), "{spoken:?}: {error:?}");
    }
}

#[tokio::test]
async fn k08_silence_ends_as_a_timeout_over_every_protocol() {
    for &(protocol, format) in SPOKEN {
        for reply in [hang(), hang_after_headers(), say("half").stall()] {
            let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(reply)));
            let mut options = named(protocol, &server.base_for(format));
            options.limits.idle_max = Duration::from_millis(200);
            let error = failure(&model(options)).await;
            assert_eq!(error.reason, FailureReason::Timeout, "{protocol:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn k29_no_redirect_takes_a_key_to_another_origin() {
    for &spoken in SPOKEN {
        let other = Pair::saying(spoken, say("caught"));
        let location = other.server.origin();
        let moved = format!("HTTP/1.1 307 Moved\r\nlocation: {location}/v1/messages\r\n");
        let reply = raw_response(format!("{moved}connection: close\r\ncontent-length: 0\r\n\r\n"));
        let error = failed(spoken, reply).await;
        assert!(error.message.starts_with("HTTP 307"), "{spoken:?}: {error:?}");
        assert!(other.server.log().entries().is_empty(), "{spoken:?}");
    }
}

#[tokio::test]
async fn k29_the_key_goes_into_its_own_header_and_nowhere_else() {
    for &spoken in SPOKEN {
        let pair = Pair::saying(spoken, say("ok"));
        pair.ask(request("hi")).await;
        let entry = pair.request(0);
        assert_eq!(entry.key.as_deref(), Some(KEY), "{spoken:?}");
        let holders = entry.headers.iter().filter(|(_, value)| value.contains(KEY)).count();
        assert_eq!(holders, 1, "{spoken:?}: {:?}", entry.headers);
        assert!(!entry.path.contains(KEY) && !entry.body.to_string().contains(KEY), "{spoken:?}");
    }
}

#[tokio::test]
async fn nothing_of_a_conversation_stays_with_the_provider() {
    let pair = Pair::saying((Protocol::Responses, Format::OpenAiResponses), say("ok"));
    pair.ask(request("hi")).await;
    let body = pair.request(0).body;
    assert_eq!(body["store"], false);
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(body.get("previous_response_id"), None);
}

#[tokio::test]
async fn k42_calls_of_a_provider_without_ids_get_ids_of_ours() {
    let scripts = Scripts::default().speaks([Format::Gemini]).otherwise(two_steps());
    let server = ScriptedServer::start(scripts);
    let options = spoken(Protocol::Gemini, &server.base_for(Format::Gemini));
    let model = model(RemoteOptions { model: "gemini-2.5-flash".into(), ..options });
    let first = ask(&model, request("hi")).await.1.expect("a reply").message;
    let ids: Vec<_> = first.calls().map(|call| call.id.clone()).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1] && ids.iter().all(|id| !id.is_empty()), "{ids:?}");
    ask(&model, models_support::answered(request("hi"), first, "contents")).await.1.expect("a second reply");
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    let body = log.entries()[1].body.to_string();
    assert!(ids.iter().all(|id| !body.contains(id.as_str())), "an id of ours says nothing there: {body}");
}
