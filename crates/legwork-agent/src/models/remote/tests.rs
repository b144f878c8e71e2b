//! The checks of a route and the facts of a model, without any request.

use super::*;
use crate::models::{ApiKey, Proxies};
use reqwest::Url;

fn options(base_url: &str) -> RemoteOptions {
    RemoteOptions {
        protocol: Protocol::ChatCompletions,
        provider: "openai".into(),
        base_url: base_url.into(),
        key: ApiKey::new("sk-secret"),
        model: "gpt-4.1".into(),
        window: None,
        effort: None,
        overrides: serde_json::Map::new(),
        limits: CallLimits::default(),
    }
}

fn route(base_url: &str) -> Result<RemoteModel, RouteError> {
    RemoteModel::new(options(base_url), &SharedHttp::new(Proxies::default()))
}

#[test]
fn a_base_url_that_cannot_be_used_is_refused_with_a_reason() {
    for base in ["", "127.0.0.1:8080", "ftp://host/v1", "http://host/v1?x=1", "/v1"] {
        assert!(matches!(route(base).map(|_| ()), Err(RouteError::BaseUrl(..))), "{base}");
    }
}

#[test]
fn k29_a_password_in_the_base_url_is_refused_and_not_repeated() {
    for base in ["http://me:hunter2@host/v1", "ftp://me:hunter2@host:bad/v1"] {
        let error = route(base).map(|_| ()).expect_err("it must be refused");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn k29_a_key_that_cannot_be_sent_is_refused_and_not_repeated() {
    let wrong = RemoteOptions { key: ApiKey::new("sk\nsecret"), ..options("http://127.0.0.1:1/v1") };
    let error =
        RemoteModel::new(wrong, &SharedHttp::new(Proxies::default())).map(|_| ()).expect_err("a line break");
    assert_eq!(error, RouteError::Key);
    assert!(!error.to_string().contains("secret"));
}

#[test]
fn a_model_without_a_name_is_refused() {
    let wrong = RemoteOptions { model: " ".into(), ..options("http://127.0.0.1:1/v1") };
    let error = RemoteModel::new(wrong, &SharedHttp::new(Proxies::default())).map(|_| ());
    assert_eq!(error, Err(RouteError::Model("openai".into())));
}

#[test]
fn facts_of_the_price_list_hold_at_the_vendors_own_address_only() {
    let window = |protocol, base: &str, name: &str| {
        let options = RemoteOptions { protocol, model: name.into(), ..options(base) };
        RemoteModel::new(options, &SharedHttp::new(Proxies::default())).expect("a route").facts().window
    };
    let known = [
        (Protocol::ChatCompletions, "https://api.openai.com/v1", "gpt-4.1"),
        (Protocol::Responses, "https://api.openai.com/v1", "gpt-4.1-2025-04-14"),
        (Protocol::AnthropicMessages, "https://api.anthropic.com", "claude-opus-5"),
        (Protocol::Gemini, "https://generativelanguage.googleapis.com", "gemini-2.5-flash"),
    ];
    for (protocol, base, name) in known {
        assert!(window(protocol, base, name).is_some(), "{name}");
        assert_eq!(window(protocol, "http://127.0.0.1:1/v1", name), None, "{name}");
        assert_eq!(window(protocol, base, "a-model-of-next-year"), None);
    }
    assert_eq!(window(Protocol::Ollama, "http://127.0.0.1:11434", "qwen3"), None);
}

#[test]
fn a_vendor_is_known_by_its_own_address_only() {
    let vendor =
        |base: &str| wires::openai_vendor(&Url::parse(base).expect("an address")).map(|own| own.name);
    assert_eq!(vendor("https://api.openai.com/v1"), Some("openai"));
    assert_eq!(vendor("https://openrouter.ai/api/v1"), Some("openrouter"));
    assert_eq!(vendor("https://api.deepseek.com"), Some("deepseek"));
    for other in ["http://api.openai.com/v1", "https://api.openai.com:8443/v1", "http://localhost:11434/v1"] {
        assert_eq!(vendor(other), None, "{other}");
    }
}

#[test]
fn the_users_word_about_the_window_counts_first() {
    let options = RemoteOptions { window: Some(5), ..options("https://api.openai.com/v1") };
    let model = RemoteModel::new(options, &SharedHttp::new(Proxies::default())).expect("a route");
    assert_eq!(model.facts(), ModelFacts { name: "openai/gpt-4.1".into(), window: Some(5) });
}
