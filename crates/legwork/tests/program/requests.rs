//! What the configuration adds to the requests of children: effort and fields of the user's own, in every protocol.

use legwork_testkit::server::{Protocol, ScriptedServer, Scripts};
use serde_json::{Value, json};

use crate::harness::Home;

const PROTOCOLS: [(&str, Protocol, &str); 5] = [
    ("chat_completions", Protocol::OpenAiChat, "/reasoning_effort"),
    ("responses", Protocol::OpenAiResponses, "/reasoning/effort"),
    ("anthropic_messages", Protocol::Anthropic, "/output_config/effort"),
    ("gemini", Protocol::Gemini, "/generationConfig/thinkingConfig/thinkingLevel"),
    ("ollama", Protocol::Ollama, "/think"),
];

/// The body of the one request that a child makes with this configuration.
#[track_caller]
fn request(mode: &str, protocol: Protocol, effort: &str, config: &str) -> Value {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    home.write("config.toml", config);
    let order = home.legwork(&["--config", "config.toml", "delegate", "--goal", "any"]);
    let order =
        order.env("LEGWORK_DELEGATION_API_MODE", mode).env("LEGWORK_DELEGATION_REASONING_EFFORT", effort);
    let ended = order.env("LEGWORK_DELEGATION_BASE_URL", &server.base_for(protocol)).run();
    assert_eq!(ended.code, 0, "{mode}: {ended}");
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    assert_eq!(log.entries()[0].protocol, Some(protocol));
    (*log.entries()[0].body).clone()
}

#[test]
fn cred_12_cfg_03_the_effort_is_said_in_every_protocol() {
    for (mode, protocol, place) in PROTOCOLS {
        let body = request(mode, protocol, "high", "");
        assert_eq!(body.pointer(place), Some(&json!("high")), "{mode}: {body}");
        assert_eq!(request(mode, protocol, "", "").pointer(place), None, "{mode}");
    }
}

#[test]
fn cred_12_an_effort_that_a_protocol_does_not_know_becomes_the_nearest_that_it_does() {
    let ollama = |effort| request("ollama", Protocol::Ollama, effort, "")["think"].clone();
    assert_eq!([ollama("xhigh"), ollama("none")], [json!("high"), json!(false)]);
    let gemini = request("gemini", Protocol::Gemini, "ultra", "");
    assert_eq!(gemini.pointer("/generationConfig/thinkingConfig/thinkingLevel"), Some(&json!("high")));
}

#[test]
fn cred_09_cfg_02_fields_of_the_user_are_in_the_requests_of_every_protocol() {
    let fields = [
        ("user_field = 'u'", "/user_field", "routing = { order = ['a'] }", "/routing/order/0"),
        ("service_tier = 'flex'", "/service_tier", "metadata = { team = 'a' }", "/metadata/team"),
        ("service_tier = 'auto'", "/service_tier", "metadata = { user_id = 'a' }", "/metadata/user_id"),
        ("serviceTier = 'flex'", "/serviceTier", "safetySettings = []", "/safetySettings"),
        ("keep_alive = '9m'", "/keep_alive", "logprobs = false", "/logprobs"),
    ];
    for ((mode, protocol, _), (plain, place, extra, beside)) in PROTOCOLS.into_iter().zip(fields) {
        let config = format!("[delegation.request_overrides]\n{plain}\nextra_body = {{ {extra} }}\n");
        let body = request(mode, protocol, "", &config);
        assert!(body.pointer(place).is_some() && body.pointer(beside).is_some(), "{mode}: {body}");
        assert!(body.get("extra_body").is_none(), "{mode}: {body}");
    }
}

#[test]
fn build_06_no_request_of_a_child_asks_for_the_long_lifetime_of_a_cache() {
    let body = request("anthropic_messages", Protocol::Anthropic, "", "").to_string();
    assert!(body.contains("cache_control") && !body.contains("\"ttl\":\"1h\""), "{body}");
}
