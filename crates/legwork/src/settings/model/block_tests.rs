//! What children, routes and fallback chains are asked with: which part comes from the parent, which from the table.

use super::super::values::{ApiMode, ReasoningEffort};
use super::ModelChoice;
use super::error::ModelError;
use super::tests::{Case, OWN, X, Y, fails, line};
use serde_json::json;

/// A conversation at X with a key for X, and one at OpenAI in the environment.
fn at_x(rest: &str) -> Case {
    let file = format!(
        "{rest}\n[model]\ndefault = 'openai-compatible/m'\nbase_url = '{X}'\napi_key_env = 'KX'\nwindow_tokens = 9000\n"
    );
    Case::new(&file, [("KX", "kx"), ("OPENAI_API_KEY", "ko"), ("FAR", "kf")])
}

fn route(case: &Case, name: &str) -> Result<ModelChoice, ModelError> {
    case.choose()?.for_route(name, &case.settings(), &case.environment)
}

#[track_caller]
fn goes(rest: &str, expected: &str) {
    let case = at_x(&format!("[delegation.routes.r]\n{rest}"));
    assert_eq!(route(&case, "r").map(|choice| line(&choice)).expect("the route can be used"), expected);
}

#[test]
fn cred_20_cred_21_a_route_is_what_its_table_says_and_the_callers_otherwise() {
    goes("model = 'small'", &format!("openai-compatible/small {X} kx KX"));
    goes("model = 'gpt'\nprovider = 'openai'", &format!("openai/gpt {OWN} ko OPENAI_API_KEY"));
    goes(
        &format!("model = 'n'\nbase_url = '{Y}'\napi_key = 'ky'"),
        &format!("openai-compatible/n {Y} ky delegation.routes.r.api_key"),
    );
    goes(
        &format!("model = 'n'\nbase_url = '{Y}'\napi_key_env = 'FAR'"),
        &format!("openai-compatible/n {Y} kf FAR"),
    );
    fails(
        route(&at_x("[delegation.routes.r]\nmodel = 'm'"), "q"),
        2,
        "there is no route \"q\"; the routes are r",
    );
}

#[test]
fn cred_23_sec_05_a_callers_key_goes_along_to_its_own_origin_only() {
    let other_path = X.replace("/v1", "/other");
    goes(
        &format!("model = 'n'\nbase_url = '{other_path}'"),
        &format!("openai-compatible/n {other_path} kx KX"),
    );
    for address in [Y.to_owned(), X.replace("http:", "https:"), X.replace("127.0.0.1", "localhost")] {
        let case = at_x(&format!("[delegation.routes.r]\nmodel = 'n'\nbase_url = '{address}'"));
        fails(
            route(&case, "r"),
            3,
            &format!("`delegation.routes.r` leads to {address} and has no key for it"),
        );
    }
    // Whoever says that no key is needed gets none, and a provider without keys needs none.
    goes(&format!("model = 'n'\nbase_url = '{Y}'\napi_key = ''"), &format!("openai-compatible/n {Y}  -"));
    goes("model = 'n'\nprovider = 'ollama'", "ollama/n http://127.0.0.1:11434  -");
}

#[test]
fn cred_05_what_cannot_be_worked_out_is_told_before_anything_starts() {
    let children = |rest: &str| at_x(&format!("[delegation]\n{rest}")).children();
    fails(children("provider = 'opnai'\nmodel = 'm'"), 2, "`delegation.provider`");
    fails(children("provider = 'anthropic'\nmodel = 'm'"), 3, "no key for the provider `anthropic`");
    fails(children("provider = 'openai-compatible'\nmodel = 'm'"), 2, "has no address of its own");
    fails(children("provider = 'openai'"), 2, "names no model for it");
    let keyless = children("provider = 'ollama'\nmodel = 'm'").expect("it needs no key");
    assert_eq!(line(&keyless), "ollama/m http://127.0.0.1:11434  -");
}

#[test]
fn cred_06_address_and_key_come_from_one_place() {
    let case = at_x(&format!("[delegation]\nbase_url = '{Y}'"));
    assert_eq!(line(&case.children().expect("a model")), format!("openai-compatible/m {Y}  -"));
    let case = at_x("[delegation]\nprovider = 'openai'\nmodel = 'm'");
    assert_eq!(line(&case.children().expect("a model")), format!("openai/m {OWN} ko OPENAI_API_KEY"));
}

#[test]
fn cred_08_another_provider_speaks_its_own_protocol() {
    let mode = |rest: &str| at_x(&format!("[delegation]\n{rest}")).children().expect("a model").api_mode;
    assert_eq!(mode("model = 'n'"), ApiMode::ChatCompletions);
    assert_eq!(mode("provider = 'openai'\nmodel = 'n'"), ApiMode::Responses);
    assert_eq!(mode("provider = 'ollama'\nmodel = 'n'"), ApiMode::Ollama);
    assert_eq!(
        mode("provider = 'ollama'\nmodel = 'n'\napi_mode = 'chat_completions'"),
        ApiMode::ChatCompletions
    );
}

#[test]
fn cred_09_cred_10_fields_of_requests_are_laid_over_the_parents_at_the_same_place_only() {
    let file = |delegation: &str| {
        at_x(&format!(
            "[delegation]\n{delegation}\n[model.request_overrides]\ntop_p = 0.5\nseed = 1\nextra_body = {{ provider = 'a', keep = 1 }}\n"
        ))
    };
    let merged = |delegation: &str| {
        let case = file(delegation);
        serde_json::Value::Object(case.children().expect("a model").request_overrides)
    };
    let all = json!({"top_p": 0.5, "seed": 1, "extra_body": {"provider": "a", "keep": 1}});
    assert_eq!(merged(""), all);
    assert_eq!(merged("model = 'n'"), all);
    assert_eq!(
        merged("request_overrides = { seed = 2, extra_body = { provider = 'b' } }"),
        json!({"top_p": 0.5, "seed": 2, "extra_body": {"provider": "b", "keep": 1}})
    );
    assert_eq!(merged("provider = 'ollama'\nmodel = 'n'"), json!({}));
    assert_eq!(
        merged("provider = 'ollama'\nmodel = 'n'\nrequest_overrides = { seed = 3 }"),
        json!({"seed": 3})
    );
}

#[test]
fn cred_11_what_is_known_of_a_model_is_not_true_of_another() {
    let window = |rest: &str| at_x(&format!("[delegation]\n{rest}")).children().expect("a model").window;
    assert_eq!(window(""), Some(9000));
    assert_eq!(window("reasoning_effort = 'low'"), Some(9000));
    assert_eq!(window("model = 'n'"), None);
    assert_eq!(window(&format!("base_url = '{Y}'")), None);
}

#[test]
fn cred_12_the_effort_of_the_table_counts_before_the_parents() {
    let effort = |rest: &str| {
        let file = format!("[delegation]\n{rest}\n[model]\ndefault = 'ollama/m'\nreasoning_effort = 'low'\n");
        Case::new(&file, []).children().expect("a model").reasoning_effort
    };
    assert_eq!(effort(""), Some(ReasoningEffort::Low));
    assert_eq!(effort("reasoning_effort = ''"), Some(ReasoningEffort::Low));
    assert_eq!(effort("reasoning_effort = 'ultra'"), Some(ReasoningEffort::Ultra));
    for off in ["'none'", "false"] {
        assert_eq!(effort(&format!("reasoning_effort = {off}")), Some(ReasoningEffort::None));
    }
}

#[test]
fn cred_14_who_is_pinned_never_borrows_the_parents_chain() {
    let chain = |rest: &str| {
        let file = format!(
            "[delegation]\n{rest}\n[model]\ndefault = 'ollama/m'\nfallback_providers = ['ollama/second']\n"
        );
        let choice = Case::new(&file, []).children().expect("a model");
        choice.fallbacks.iter().map(ModelChoice::reference).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(chain(""), ["ollama/second"]);
    assert_eq!(chain("reasoning_effort = 'low'"), ["ollama/second"]);
    assert_eq!(chain("fallback_providers = []"), none);
    for pinned in ["model = 'n'", "provider = 'ollama'", "base_url = 'http://127.0.0.1:9'"] {
        assert_eq!(chain(pinned), none, "{pinned}");
        let own = format!(
            "{pinned}\nfallback_providers = ['ollama/own', {{ provider = 'ollama', model = 'two' }}]"
        );
        assert_eq!(chain(&own), ["ollama/own", "ollama/two"]);
    }
}

#[test]
fn cred_14_cred_23_every_link_has_the_key_of_its_own_origin() {
    let links = |links: &str| {
        let case = at_x(&format!("[delegation]\nfallback_providers = [{links}]"));
        Ok::<_, ModelError>(case.children()?.fallbacks.iter().map(line).collect::<Vec<_>>())
    };
    let near = format!("{{ provider = 'openai-compatible', base_url = '{X}', model = 'near' }}");
    let far = format!("{{ base_url = '{Y}', model = 'far', api_key = 'ky' }}");
    let found = links(&format!("'openai/gpt', {near}, {far}")).expect("a chain");
    assert_eq!(
        found,
        [
            format!("openai/gpt {OWN} ko OPENAI_API_KEY"),
            format!("openai-compatible/near {X} kx KX"),
            format!("openai-compatible/far {Y} ky delegation.fallback_providers[2].api_key"),
        ]
    );
    let keyless = links(&format!("{{ base_url = '{Y}', model = 'far' }}"));
    fails(keyless.map(|_| unreachable!()), 3, "`delegation.fallback_providers[0]` leads to");
}
