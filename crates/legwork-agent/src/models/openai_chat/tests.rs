//! The checks of a route and the facts of a model, without any request.

use super::*;
use crate::models::{ApiKey, Proxies};
use reqwest::Url;

fn options(base_url: &str) -> OpenAiChatOptions {
    OpenAiChatOptions {
        provider: "openai".into(),
        base_url: base_url.into(),
        key: ApiKey::new("sk-secret"),
        model: "gpt-4.1".into(),
        window: None,
        limits: CallLimits::default(),
    }
}

fn route(base_url: &str) -> Result<OpenAiChat, RouteError> {
    OpenAiChat::new(options(base_url), &SharedHttp::new(Proxies::default()))
}

#[test]
fn the_endpoint_is_below_the_base_url() {
    let at = |base: &str| endpoint(&Url::parse(base).expect("an address")).to_string();
    assert_eq!(at("http://127.0.0.1:8080/v1"), "http://127.0.0.1:8080/v1/chat/completions");
    assert_eq!(at("http://127.0.0.1:8080/v1/"), "http://127.0.0.1:8080/v1/chat/completions");
    assert_eq!(at("http://host"), "http://host/chat/completions");
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
    let wrong = OpenAiChatOptions { key: ApiKey::new("sk\nsecret"), ..options("http://127.0.0.1:1/v1") };
    let error =
        OpenAiChat::new(wrong, &SharedHttp::new(Proxies::default())).map(|_| ()).expect_err("a line break");
    assert_eq!(error, RouteError::Key);
    assert!(!error.to_string().contains("secret"));
}

#[test]
fn a_model_without_a_name_is_refused() {
    let wrong = OpenAiChatOptions { model: " ".into(), ..options("http://127.0.0.1:1/v1") };
    let error = OpenAiChat::new(wrong, &SharedHttp::new(Proxies::default())).map(|_| ());
    assert_eq!(error, Err(RouteError::Model("openai".into())));
}

#[test]
fn facts_of_the_price_list_hold_at_the_vendors_own_address_only() {
    let window = |base: &str| route(base).expect("a route").facts().window;
    assert!(window("https://api.openai.com/v1").is_some());
    assert_eq!(window("http://127.0.0.1:1/v1"), None);
}

#[test]
fn a_vendor_is_known_by_its_own_address_only() {
    let vendor = |base: &str| dialect_of(&Url::parse(base).expect("an address")).map(|dialect| dialect.name);
    assert_eq!(vendor("https://api.openai.com/v1"), Some("openai"));
    assert_eq!(vendor("https://openrouter.ai/api/v1"), Some("openrouter"));
    assert_eq!(vendor("https://api.deepseek.com"), Some("deepseek"));
    for other in ["http://api.openai.com/v1", "https://api.openai.com:8443/v1", "http://localhost:11434/v1"] {
        assert_eq!(vendor(other), None, "{other}");
    }
}

#[test]
fn the_users_word_about_the_window_counts_first() {
    let options = OpenAiChatOptions { window: Some(5), ..options("https://api.openai.com/v1") };
    let model = OpenAiChat::new(options, &SharedHttp::new(Proxies::default())).expect("a route");
    assert_eq!(model.facts(), ModelFacts { name: "openai/gpt-4.1".into(), window: Some(5) });
}
