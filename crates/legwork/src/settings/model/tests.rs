//! The choice of the model: which address wins, and that no key ever goes to an address it was not configured for.

use std::path::Path;

use super::super::values::ApiMode;
use super::super::{Environment, Settings, Sources, UserFile, load};
use super::error::ModelError;
use super::{Embedded, Endpoint, ModelChoice, Provider, places_to_look};
use crate::failure::CliError;

pub(super) const OWN: &str = "https://api.openai.com/v1";
pub(super) const X: &str = "http://127.0.0.1:7001/v1";
pub(super) const Y: &str = "http://127.0.0.1:7002/v1";

/// A user file, an environment and options.
pub(super) struct Case {
    folder: tempfile::TempDir,
    pub(super) environment: Environment,
    options: Vec<(&'static str, &'static str)>,
}

impl Case {
    pub(super) fn new<const N: usize>(file: &str, environment: [(&str, &str); N]) -> Case {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("config.toml"), file).expect("the file is written");
        Case { folder, environment: Environment::from(environment), options: Vec::new() }
    }

    pub(super) fn with_option(mut self, key: &'static str, text: &'static str) -> Case {
        self.options.push((key, text));
        self
    }

    pub(super) fn settings(&self) -> Settings {
        let sources = Sources {
            user: &UserFile::Named(self.folder.path().join("config.toml")),
            project: Path::new("/does/not/exist/config.toml"),
            environment: &self.environment,
            options: &self.options,
        };
        load(&sources).expect("the configuration is right")
    }

    pub(super) fn choose(&self) -> Result<ModelChoice, ModelError> {
        ModelChoice::resolve(&self.settings(), &self.environment, Embedded::Absent, "the user file")
    }

    pub(super) fn children(&self) -> Result<ModelChoice, ModelError> {
        self.choose()?.for_children(&self.settings(), &self.environment)
    }
}

/// Address, key and the source of the key, in one line.
pub(super) fn line(choice: &ModelChoice) -> String {
    let address = choice.base_url.as_ref().map_or("-", Endpoint::as_str);
    let source = choice.key_source.as_deref().unwrap_or("-");
    format!("{} {address} {} {source}", choice.reference(), choice.key.expose())
}

#[track_caller]
fn chooses(case: &Case, expected: &str) {
    assert_eq!(case.choose().map(|choice| line(&choice)).expect("a model is chosen"), expected);
}

#[track_caller]
pub(super) fn fails(result: Result<ModelChoice, ModelError>, exit: u8, words: &str) {
    let error = CliError::from(result.expect_err("no model can be chosen"));
    assert_eq!(error.exit().code(), exit, "{error}");
    let text = error.to_text(crate::failure::Detail::Brief);
    assert!(text.contains(words), "{words:?} is missing in {text:?}");
}

#[test]
fn our_variables_make_one_bundle() {
    let environment =
        [("LEGWORK_MODEL", "openai/mock"), ("LEGWORK_BASE_URL", X), ("LEGWORK_API_KEY", "dummy")];
    chooses(&Case::new("", environment), &format!("openai/mock {X} dummy LEGWORK_API_KEY"));
}

#[test]
fn the_usual_variables_of_a_provider_make_one_bundle() {
    let case = Case::new("", [("LEGWORK_MODEL", "openai/m"), ("OPENAI_API_KEY", "k")]);
    chooses(&case, &format!("openai/m {OWN} k OPENAI_API_KEY"));
    let environment = [("LEGWORK_MODEL", "openai/m"), ("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", X)];
    chooses(&Case::new("", environment), &format!("openai/m {X} k OPENAI_API_KEY"));
    let environment =
        [("LEGWORK_MODEL", "openai-compatible/m"), ("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", X)];
    chooses(&Case::new("", environment), &format!("openai-compatible/m {X} k OPENAI_API_KEY"));
}

#[test]
fn a_file_names_the_variable_of_its_key() {
    let file = format!("[model]\ndefault = 'openai-compatible/m'\nbase_url = '{X}'\napi_key_env = 'MINE'\n");
    chooses(&Case::new(&file, [("MINE", "k")]), &format!("openai-compatible/m {X} k MINE"));
    fails(Case::new(&file, []).choose(), 3, "names the variable MINE, which is not set");
}

#[test]
fn k29_an_option_with_another_address_leaves_the_keys_behind() {
    let file = format!("[model]\ndefault = 'openai-compatible/m'\nbase_url = '{X}'\napi_key_env = 'MINE'\n");
    let case = Case::new(&file, [("MINE", "k"), ("OPENAI_API_KEY", "v")]).with_option("model.base_url", Y);
    let choice = case.choose().expect("a model is chosen");
    assert_eq!(line(&choice), format!("openai-compatible/m {Y}  -"));
    assert_eq!(choice.withheld, ["MINE", "OPENAI_API_KEY"]);
}

#[test]
fn an_address_beside_a_model_of_another_provider_is_passed_over() {
    let file = format!("[model]\ndefault = 'openai-compatible/m'\nbase_url = '{X}'\n");
    let case = Case::new(&file, [("OPENAI_API_KEY", "k")]).with_option("model.default", "openai/gpt");
    chooses(&case, &format!("openai/gpt {OWN} k OPENAI_API_KEY"));
    let case = Case::new(&file, []).with_option("model.default", "openai-compatible/other");
    chooses(&case, &format!("openai-compatible/other {X}  -"));
}

#[test]
fn a_missing_key_is_told_before_any_request() {
    let case = Case::new("", [("LEGWORK_MODEL", "openai/m")]);
    fails(case.choose(), 3, "no key for the provider `openai` at https://api.openai.com/v1");
    fails(case.choose(), 3, "export OPENAI_API_KEY=");
    let environment = [("LEGWORK_MODEL", "openai/m"), ("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", X)];
    let elsewhere = Case::new("", environment).with_option("model.base_url", OWN);
    fails(elsewhere.choose(), 3, "configured for another address: OPENAI_API_KEY");
}

#[test]
fn no_model_is_told_with_the_line_to_set() {
    let case = Case::new("", [("OPENAI_API_KEY", "a key alone chooses no model")]);
    fails(case.choose(), 3, "no model is configured");
    fails(case.choose(), 3, "the user file:\n    [model]\n    default = \"openai/MODEL-NAME\"");
}

#[test]
fn the_embedded_model_answers_only_when_nothing_is_configured() {
    let settings = Case::new("", []).settings();
    let embedded = Embedded::BuiltIn("smollm2-135m");
    let choice =
        ModelChoice::resolve(&settings, &Environment::default(), embedded, "").expect("it is built in");
    assert_eq!(line(&choice), "local/smollm2-135m -  -");
    let case = Case::new("", [("LEGWORK_MODEL", "scripted/a/b.toml")]);
    let choice =
        ModelChoice::resolve(&case.settings(), &case.environment, embedded, "").expect("one is configured");
    assert_eq!((choice.provider, choice.name.as_str()), (Provider::Scripted, "a/b.toml"));
}

#[test]
fn wrong_names_of_models_are_told() {
    let choose = |name| Case::new("", [("LEGWORK_MODEL", name)]).choose();
    fails(
        choose("gpt-5"),
        2,
        "environment LEGWORK_MODEL: the model \"gpt-5\" is not of the form PROVIDER/NAME",
    );
    fails(choose("openai/"), 2, "not of the form");
    fails(choose("antropic/m"), 2, "did you mean `anthropic`?");
    fails(choose("openai-compatible/m"), 2, "has no address of its own");
}

#[test]
fn every_provider_has_its_address_and_its_usual_key() {
    let case = |model, variable| Case::new("", [("LEGWORK_MODEL", model), (variable, "k")]);
    chooses(
        &case("anthropic/m", "ANTHROPIC_API_KEY"),
        "anthropic/m https://api.anthropic.com k ANTHROPIC_API_KEY",
    );
    chooses(
        &case("gemini/m", "GEMINI_API_KEY"),
        "gemini/m https://generativelanguage.googleapis.com k GEMINI_API_KEY",
    );
    chooses(&case("ollama/m", "OPENAI_API_KEY"), "ollama/m http://127.0.0.1:11434  -");
    fails(case("anthropic/m", "OPENAI_API_KEY").choose(), 3, "export ANTHROPIC_API_KEY=");
}

#[test]
fn the_protocol_follows_from_provider_and_address_unless_one_is_named() {
    let mode = |variables| Case::new("", variables).choose().expect("a model is chosen").api_mode;
    let at =
        |model, url| mode([("LEGWORK_MODEL", model), ("LEGWORK_BASE_URL", url), ("LEGWORK_API_KEY", "k")]);
    assert_eq!(at("openai/m", OWN), ApiMode::Responses);
    assert_eq!(at("openai/m", X), ApiMode::ChatCompletions);
    assert_eq!(at("openai-compatible/m", OWN), ApiMode::ChatCompletions);
    assert_eq!(at("anthropic/m", X), ApiMode::AnthropicMessages);
    assert_eq!(at("gemini/m", X), ApiMode::Gemini);
    assert_eq!(at("ollama/m", X), ApiMode::Ollama);
    let named = [("LEGWORK_MODEL", "openai/m"), ("LEGWORK_BASE_URL", X), ("LEGWORK_API_MODE", "gemini")];
    assert_eq!(mode(named), ApiMode::Gemini);
}

#[test]
fn cred_04_the_protocol_of_a_direct_endpoint_is_told_from_its_address() {
    let mode = |line: &str| {
        let file = format!("[delegation]\nmodel = 'm'\n{line}\n");
        let case = Case::new(&file, [("LEGWORK_MODEL", "openai/m"), ("OPENAI_API_KEY", "k")]);
        case.children().expect("children have a model").api_mode
    };
    assert_eq!(mode(""), ApiMode::Responses);
    assert_eq!(mode(&format!("base_url = '{Y}'")), ApiMode::ChatCompletions);
    assert_eq!(mode("base_url = 'https://api.anthropic.com/v1'"), ApiMode::AnthropicMessages);
    assert_eq!(mode("base_url = 'https://host.example/anthropic'"), ApiMode::AnthropicMessages);
    assert_eq!(mode("base_url = 'https://api.kimi.com/coding/'"), ApiMode::AnthropicMessages);
    assert_eq!(mode("base_url = 'https://chatgpt.com/backend-api/codex'"), ApiMode::Responses);
    assert_eq!(mode("base_url = 'https://host.example'\napi_mode = 'responses'"), ApiMode::Responses);
    assert_eq!(mode("provider = 'ollama'"), ApiMode::Ollama);
}

#[test]
fn a_local_server_is_looked_for_only_where_nothing_is_configured() {
    let places = |file: &str, variables: &[(&str, &str)]| {
        let case = Case::new(file, []);
        let mut pairs = [("", ""), ("", "")];
        pairs[..variables.len()].copy_from_slice(variables);
        let case = Case { environment: Environment::from(pairs), ..case };
        places_to_look(&case.settings())
    };
    let usual = ["http://127.0.0.1:11434", "http://127.0.0.1:8080"];
    assert_eq!(places("", &[]).expect("places"), usual);
    let nowhere: [&str; 0] = [];
    assert_eq!(places("", &[("LEGWORK_MODEL", "openai/m")]).expect("none"), nowhere);
    assert_eq!(places("", &[("LEGWORK_BASE_URL", X)]).expect("none"), nowhere);
    assert_eq!(places("[model]\nlocal_servers = []\n", &[]).expect("none"), nowhere);
    assert_eq!(places("", &[("LEGWORK_MODEL_LOCAL_SERVERS", ",")]).expect("none"), nowhere);
    let other = "http://localhost:9";
    assert_eq!(places("", &[("LEGWORK_MODEL_LOCAL_SERVERS", other)]).expect("a place"), [other]);
    let error = places("[model]\nlocal_servers = ['http://10.0.0.1:11434']\n", &[]).map_err(CliError::from);
    let error = error.expect_err("an address elsewhere");
    assert_eq!(error.exit().code(), 2);
    assert!(error.to_string().contains("10.0.0.1"), "{error}");
}

#[test]
fn cred_01_children_inherit_the_whole_route() {
    let case = Case::new("", [("LEGWORK_MODEL", "openai/m"), ("OPENAI_API_KEY", "k")]);
    assert_eq!(case.children().ok(), case.choose().ok());
}

#[test]
fn cred_02_a_model_alone_changes_only_the_model() {
    let case = Case::new(
        "[delegation]\nmodel = 'small'\n",
        [("LEGWORK_MODEL", "openai/m"), ("OPENAI_API_KEY", "k")],
    );
    let choice = case.children().expect("children have a model");
    assert_eq!(line(&choice), format!("openai/small {OWN} k OPENAI_API_KEY"));
}

#[test]
fn cred_03_an_address_is_a_direct_endpoint() {
    let file = format!("[delegation]\nbase_url = '{Y}'\napi_key = 'ky'\n");
    let case = Case::new(&file, [("LEGWORK_MODEL", "openai/m"), ("OPENAI_API_KEY", "k")]);
    let choice = case.children().expect("children have a model");
    assert_eq!(line(&choice), format!("openai-compatible/m {Y} ky delegation.api_key"));
}

#[test]
fn children_of_another_provider_need_a_model_and_a_lone_key_has_no_home() {
    let environment =
        [("LEGWORK_MODEL", "openai-compatible/m"), ("LEGWORK_BASE_URL", X), ("OPENAI_API_KEY", "k")];
    fails(
        Case::new("[delegation]\nprovider = 'openai'\n", environment).children(),
        2,
        "names no model for it",
    );
    fails(
        Case::new("[delegation]\nprovider = 'opena'\n", environment).children(),
        2,
        "did you mean `openai`?",
    );
    fails(
        Case::new("[delegation]\napi_key = 'k'\n", environment).children(),
        2,
        "`delegation.api_key` stands",
    );
    let named = Case::new("[delegation]\nprovider = 'openai'\nmodel = 'gpt'\n", environment);
    let choice = named.children().expect("children have a model");
    assert_eq!(line(&choice), format!("openai/gpt {OWN} k OPENAI_API_KEY"));
}

/// Either nothing or a line of a file.
fn setting(name: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("{name} = '{value}'\n") }
}

/// The origins a key may go to, when the address beside it is `beside` and the provider's own is ours otherwise.
fn belongs(choice: &ModelChoice, beside: &str) -> bool {
    let home = Endpoint::parse(if beside.is_empty() { OWN } else { beside }).expect("an address");
    choice.base_url.as_ref().is_some_and(|endpoint| endpoint.same_origin(&home))
}

#[test]
fn k29_no_combination_of_layers_sends_a_key_to_another_origin() {
    let addresses = ["", X, Y];
    let mut with_key = 0;
    for file_url in addresses {
        for model in ["", "openai/m", "openai-compatible/m"] {
            let file = setting("base_url", file_url) + &setting("default", model);
            for ours in addresses {
                for usual in addresses {
                    for option in addresses {
                        for keys in 0..8 {
                            let key = |bit: u8, name| if keys & (1 << bit) != 0 { name } else { "" };
                            let named = if keys & 1 != 0 { "api_key_env = 'FILE_KEY'\n" } else { "" };
                            let mut case = Case::new(
                                &format!("[model]\n{file}{named}"),
                                [
                                    ("FILE_KEY", "kf"),
                                    ("LEGWORK_BASE_URL", ours),
                                    ("LEGWORK_API_KEY", key(1, "kl")),
                                    ("OPENAI_BASE_URL", usual),
                                    ("OPENAI_API_KEY", key(2, "ko")),
                                ],
                            );
                            if !option.is_empty() {
                                case = case.with_option("model.base_url", option);
                            }
                            let Ok(choice) = case.choose() else { continue };
                            let right = match choice.key.expose() {
                                "" => true,
                                "kf" => belongs(&choice, file_url),
                                // With no address beside it, our own variable was given for whatever is configured.
                                "kl" => ours.is_empty() || belongs(&choice, ours),
                                "ko" => belongs(&choice, usual),
                                other => panic!("a key from nowhere: {other}"),
                            };
                            assert!(right, "{} in {:?} {ours} {usual} {option}", line(&choice), file);
                            with_key += usize::from(!choice.key.is_empty());
                        }
                    }
                }
            }
        }
    }
    assert!(with_key > 300, "only {with_key} cases had a key");
}

#[test]
fn k29_no_child_route_sends_a_key_to_another_origin() {
    for (provider, url, key, named) in (0..16).map(|n| (n & 1 != 0, n & 2 != 0, n & 4 != 0, n & 8 != 0)) {
        let file = format!(
            "[model]\ndefault = 'openai-compatible/m'\nbase_url = '{X}'\napi_key_env = 'KX'\n[delegation]\n{}{}{}{}",
            setting("provider", if provider { "openai" } else { "" }),
            setting("base_url", if url { Y } else { "" }),
            setting("api_key", if key { "ky" } else { "" }),
            setting("model", if named { "small" } else { "" }),
        );
        let case = Case::new(&file, [("KX", "kx"), ("OPENAI_API_KEY", "ko")]);
        let Ok(choice) = case.children() else { continue };
        let home = if url { Y } else { OWN };
        let right = match choice.key.expose() {
            "" => true,
            "kx" => belongs(&choice, X),
            "ko" => belongs(&choice, OWN),
            "ky" => (url || provider) && belongs(&choice, home),
            other => panic!("a key from nowhere: {other}"),
        };
        assert!(right, "{file}: {}", line(&choice));
    }
}
