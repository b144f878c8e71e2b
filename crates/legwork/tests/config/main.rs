//! The configuration through the built program: layers, wrong input, masks and the forms of the answer.

mod every_key;
mod machine;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use machine::{Machine, code, stderr, with_line};

#[test]
fn without_anything_all_values_are_defaults() {
    let (exit, document) = Machine::new().json(&["config"]);
    assert_eq!(exit, 0);
    let values = document.as_object().expect("an object");
    assert!(values.values().all(|value| value["origin"]["kind"] == "default"));
    assert_eq!(document["delegation.max_iterations"]["value"], 250);
    assert_eq!(document["delegation.default_toolsets"]["value"], Value::Null);
}

#[test]
fn cfg_order_is_default_user_project_environment_option() {
    let machine =
        Machine::new().with_user("[model]\ndefault = \"openai/a\"\n[delegation]\nmax_iterations = 90\n");
    let (value, origin) = machine.shown("delegation.max_iterations");
    assert_eq!((value, origin["kind"].as_str(), origin["line"].as_u64()), (90.into(), Some("user"), Some(4)));

    let machine = machine.with_project("[delegation]\nmax_iterations = 80\n");
    let (value, origin) = machine.shown("delegation.max_iterations");
    assert_eq!(
        (value, origin["kind"].as_str(), origin["line"].as_u64()),
        (80.into(), Some("project"), Some(2))
    );

    let machine = machine.with_variable("LEGWORK_DELEGATION_MAX_ITERATIONS", "120");
    let (value, origin) = machine.shown("delegation.max_iterations");
    assert_eq!((value, origin["kind"].as_str()), (120.into(), Some("environment")));

    let machine = machine.with_variable("LEGWORK_MODEL", "openai/b");
    assert_eq!(machine.shown("model.default").0, "openai/b");
    let (_, document) = machine.json(&["--model", "openai/c", "config"]);
    assert_eq!(document["model.default"]["value"], "openai/c");
    assert_eq!(document["model.default"]["origin"]["name"], "--model");
}

/// Proves RUN-9, CFG-10: the environment fills in for the file.
#[test]
fn old_names_of_variables_work_with_our_prefix() {
    let machine = Machine::new()
        .with_variable("LEGWORK_DELEGATION_MAX_CONCURRENT_CHILDREN", "4")
        .with_variable("LEGWORK_DELEGATION_CHILD_TIMEOUT_SECONDS", "45");
    assert_eq!(machine.shown("delegation.max_concurrent_children").0, 4);
    let (value, origin) = machine.shown("delegation.child_timeout_seconds");
    assert_eq!((value, origin["kind"].as_str()), (45.into(), Some("environment")));
}

#[test]
fn cred_19_files_can_be_ignored() {
    let machine = Machine::new()
        .with_user("[delegation]\nmax_iterations = 90\n")
        .with_project("[delegation]\nqueue_max = 5\n")
        .with_variable("LEGWORK_IGNORE_USER_CONFIG", "1");
    assert_eq!(machine.shown("delegation.max_iterations").0, 250);
    assert_eq!(machine.shown("delegation.queue_max").0, 1000);
    let named = machine.user_file();
    let (_, document) = machine.json(&["--config", named.to_str().expect("plain"), "config"]);
    assert_eq!(document["delegation.max_iterations"]["value"], 90);
    machine.with_variable("LEGWORK_IGNORE_USER_CONFIG", "perhaps").refuses(
        "configuration",
        &["environment variable LEGWORK_IGNORE_USER_CONFIG", "true or false", "\"perhaps\""],
    );
}

#[test]
fn a_syntax_error_has_file_line_and_column() {
    let machine = Machine::new().with_user("[delegation]\nmax_iterations = = 3\n");
    let place = format!("{}:2:18: syntax error", machine.user_file().display());
    machine.refuses("configuration", &[&place]);
}

#[test]
fn an_unknown_key_has_its_place_and_the_nearest_name() {
    let machine = Machine::new().with_user("[delegation]\n  max_iteration = 3\n");
    let place = format!("{}:2:3:", machine.user_file().display());
    machine.refuses(
        "configuration",
        &[&place, "unknown key `delegation.max_iteration`", "did you mean `delegation.max_iterations`?"],
    );
}

#[test]
fn an_unknown_section_and_a_key_without_section_have_their_place() {
    Machine::new()
        .with_user("[delegaton]\n")
        .refuses("configuration", &[":1:2:", "did you mean `delegation`?"]);
    Machine::new()
        .with_user("max_iterations = 3\n")
        .refuses("configuration", &[":1:1:", "did you mean `delegation.max_iterations`?"]);
}

#[test]
fn a_section_that_is_given_a_value_is_told_how_to_be_written() {
    for (line, section, example) in
        [("delegation = 3\n", "delegation", "delegation."), ("model = \"openai/x\"\n", "model", "model.")]
    {
        Machine::new().with_user(line).refuses(
            "configuration",
            &[
                ":1:1:",
                &format!("`{section}` is a section"),
                &format!("`[{section}]`"),
                &format!("`{example}"),
            ],
        );
    }
}

#[test]
fn a_wrong_type_says_what_to_send() {
    let cases = [
        ("max_iterations = \"ten\"", "`delegation.max_iterations` expects a whole number, found \"ten\""),
        ("max_iterations = 1.5", "expects a whole number, found a fraction"),
        ("orchestrator_enabled = 3", "`delegation.orchestrator_enabled` expects true or false, found 3"),
        ("orchestrator_enabled = \"maybe\"", "expects true or false, found \"maybe\""),
        ("at_capacity = \"drop\"", "expects one of queue, sync, reject, found \"drop\""),
        ("reasoning_effort = \"hard\"", "expects one of ultra, max, xhigh"),
        ("default_toolsets = \"a\"", "expects a list of texts"),
        ("routes = 3", "expects a table, found 3"),
        ("model = 3", "expects text in quotes, found 3"),
        ("base_url = \"localhost\"", "expects an http or https address"),
    ];
    for (line, words) in cases {
        let machine = Machine::new().with_user(format!("[delegation]\n{line}\n"));
        let column = line.find("= ").expect("each has a value") + 3;
        machine.refuses("configuration", &[&format!(":2:{column}: "), words]);
    }
}

/// Proves CFG-10, RUN-9: the floor of the inactivity limit.
#[test]
fn values_out_of_bounds_say_the_bounds() {
    let cases = [
        ("max_iterations = 0", "must be at least 1, found 0"),
        ("max_concurrent_children = 0", "must be at least 1, found 0"),
        ("max_spawn_depth = -1", "must be at least 1, found -1"),
        ("child_timeout_seconds = 29", "must be between 30 and 31622400, or 0 (off), found 29"),
        ("compression_threshold_tokens = 15999", "must be at least 16000, or 0 (off), found 15999"),
        ("lease_seconds = 0", "must be between 1 and 3600, found 0"),
    ];
    for (line, words) in cases {
        Machine::new().with_user(format!("[delegation]\n{line}\n")).refuses("configuration", &[":2:", words]);
    }
}

#[test]
fn a_wrong_variable_is_named() {
    Machine::new().with_variable("LEGWORK_DELEGATION_MAX_ITERATIONS", "many").refuses(
        "configuration",
        &["environment variable LEGWORK_DELEGATION_MAX_ITERATIONS", "expects a whole number, found \"many\""],
    );
    Machine::new().with_variable("LEGWORK_DELEGATION_MAX_ITERATION", "3").refuses(
        "configuration",
        &[
            "unknown key `LEGWORK_DELEGATION_MAX_ITERATION`",
            "did you mean `LEGWORK_DELEGATION_MAX_ITERATIONS`?",
        ],
    );
    Machine::new().with_variable("LEGWORK_MODLE", "openai/a").refuses(
        "configuration",
        &["environment variable LEGWORK_MODLE: unknown variable", "did you mean `LEGWORK_MODEL`?"],
    );
    let (exit, document) = Machine::new().with_variable("LEGWORK_NOPE", "1").json(&["config", "check"]);
    let message = document["error"]["message"].as_str().unwrap_or_default();
    assert_eq!((exit, message.contains("unknown variable `LEGWORK_NOPE`")), (2, true), "{document}");
    assert!(!message.contains("did you mean"), "nothing is like it: {message}");
    Machine::new()
        .with_variable("LEGWORK_MODEL", "openai/a")
        .with_variable("LEGWORK_MODEL_DEFAULT", "openai/b")
        .refuses("configuration", &["LEGWORK_MODEL and LEGWORK_MODEL_DEFAULT both set `model.default`"]);
}

/// Also those that are read beside the configuration, that the program sets for what it starts, and in which a
/// configuration has keys.
#[test]
fn every_variable_that_means_something_is_known() {
    let machine = Machine::new()
        .with_user(
            "[model]\napi_key_env = 'LEGWORK_MY_KEY'\n[delegation.routes.far]\nmodel = 'm'\napi_key_env = 'LEGWORK_FAR_KEY'\n\
             fallback_providers = [{ model = 'n', api_key_env = 'LEGWORK_NEXT_KEY' }]\n",
        )
        .with_variable("LEGWORK_API_KEY", "k")
        .with_variable("LEGWORK_STATE_DIR", "/nowhere")
        .with_variable("LEGWORK_STATE_MAX_PAGES", "9000")
        .with_variable("LEGWORK_LOCAL_MODEL", "/nowhere")
        .with_variable("LEGWORK_CHILD", "sa-0-12345678:cmd-1")
        .with_variable("LEGWORK_MY_KEY", "k")
        .with_variable("LEGWORK_FAR_KEY", "k")
        .with_variable("LEGWORK_NEXT_KEY", "k");
    let (exit, document) = machine.json(&["config", "check"]);
    assert_eq!(exit, 0, "{document}");
    let (exit, document) =
        machine.with_variable("LEGWORK_IGNORE_USER_CONFIG", "1").json(&["config", "check"]);
    assert_eq!(exit, 2, "nothing names them then: {document}");
}

#[test]
fn a_wrong_option_is_named() {
    let (exit, document) = Machine::new().json(&["--api-mode", "telepathy", "config", "check"]);
    assert_eq!(exit, 2);
    let message = document["error"]["message"].as_str().expect("there is a message");
    assert!(
        message.contains("option --api-mode: `model.api_mode` expects one of chat_completions"),
        "{message}"
    );
}

#[test]
fn all_problems_are_told_at_once() {
    let machine = Machine::new()
        .with_user("[delegation]\nmax_iterations = 0\nquue_max = 3\n")
        .with_variable("LEGWORK_DELEGATION_LEASE_SECONDS", "x");
    machine.refuses("configuration", &[":2:18:", ":3:1:", "LEGWORK_DELEGATION_LEASE_SECONDS"]);
}

#[test]
fn cfg_05_many_children_are_warned_about_once() {
    let said = |children: u32| {
        let machine = with_line("delegation.max_concurrent_children", &children.to_string());
        stderr(&machine.run(&["config", "check"]))
    };
    assert_eq!(said(10), "");
    assert_eq!(said(11).matches("they are paid for").count(), 1);
}

#[test]
fn cfg_06_the_old_limit_of_units_is_ignored_with_one_word() {
    let machine = with_line("delegation.max_async_children", "99");
    let said = stderr(&machine.run(&["config", "check"]));
    assert_eq!(said.matches("`delegation.max_async_children` has no effect any more").count(), 1, "{said}");
    assert_eq!(machine.shown("delegation.max_concurrent_children").0, 10);
}

#[test]
fn cfg_14_a_set_of_tools_that_does_not_exist_is_told() {
    let machine = with_line("delegation.default_toolsets", "['termnal']");
    machine.refuses(
        "configuration",
        &[":2:", "`delegation.default_toolsets` expects `terminal`, found \"termnal\""],
    );
}

#[test]
fn cred_20_cred_25_a_mistake_within_a_route_has_its_own_place() {
    let cases = [
        (
            "model = 3",
            ":3:9: `delegation.routes` has a mistake: `fast.model` expects text in quotes, found 3",
        ),
        (
            "model = 'm'\nmodle = 'm'",
            ":4:1: `delegation.routes` has a mistake: `fast.modle` is unknown there; did you mean `model`?",
        ),
        ("model = 'm'\nmax_iterations = 9", "`fast.max_iterations` is unknown there"),
        ("provider = 'ollama'", "`fast` expects a table with a `model`"),
        (
            "model = 'm'\nbase_url = 'here'",
            ":4:12: `delegation.routes` has a mistake: `fast.base_url` expects an http",
        ),
        ("model = 'm'\nreasoning_effort = 'much'", "`fast.reasoning_effort` expects one of ultra"),
        (
            "model = 'm'\nrequest_overrides = { stream = false }",
            "`fast.request_overrides.stream` expects another name",
        ),
        (
            "model = 'm'\nfallback_providers = ['gpt']",
            "`fast.fallback_providers.entry 1` expects PROVIDER/NAME",
        ),
        (
            "model = 'm'\nfallback_providers = [{ model = 'm', fallback_providers = [] }]",
            "`fast.fallback_providers.entry 1.fallback_providers` is unknown",
        ),
    ];
    for (lines, words) in cases {
        let machine = Machine::new().with_user(format!("# a comment\n[delegation.routes.fast]\n{lines}\n"));
        machine.refuses("configuration", &[words]);
    }
    let machine = Machine::new().with_user("[delegation.routes.'two words']\nmodel = 'm'\n");
    machine.refuses("configuration", &[":1:20:", "expects a name of at most 64 letters"]);
}

#[test]
fn cred_20_commands_in_a_route_are_ignored_with_a_word() {
    let machine = Machine::new()
        .with_user("[delegation.routes.fast]\nmodel = 'm'\ncommand = 'claude'\nargs = ['-p']\n");
    let said = stderr(&machine.run(&["config", "check"]));
    for key in ["command", "args"] {
        assert!(said.contains(&format!("`delegation.routes.fast.{key}` has no effect in a route")), "{said}");
    }
}

#[test]
fn k31_secrets_within_tables_are_masked() {
    let machine = Machine::new().with_user(
        "[delegation.routes.far]\nmodel = 'm'\nbase_url = 'http://127.0.0.1:9'\napi_key = 'hunter2'\n\
         [delegation.request_overrides]\nuser_token = 'hunter2'\nmax_tokens = 5\n\
         [[delegation.fallback_providers]]\nmodel = 'm'\nbase_url = 'http://127.0.0.1:9'\napi_key = 'hunter2'\n",
    );
    let output = machine.run(&["config"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
    assert!(!said.contains("hunter2"), "{said}");
    assert_eq!(machine.shown("delegation.routes").0["far"]["api_key"], "********");
    assert_eq!(machine.shown("delegation.request_overrides").0["max_tokens"], 5);
}

#[test]
fn files_that_are_not_text_or_not_there_are_told() {
    Machine::new()
        .with_user(b"[model]\ndefault = \"\xff\"\n")
        .refuses("configuration", &[":2:12:", "not UTF-8"]);
    Machine::new()
        .with_user("#".repeat((1 << 20) + 1))
        .refuses("configuration", &["larger than 1048576 bytes"]);
    let (exit, document) = Machine::new().json(&["--config", "/does/not/exist.toml", "config"]);
    assert_eq!((exit, document["error"]["kind"].as_str()), (2, Some("configuration")));
}

#[test]
fn what_is_not_built_yet_is_refused_by_name() {
    let cases = ["command = \"claude\"", "args = []"];
    for line in cases {
        let machine = Machine::new().with_user(format!("[delegation]\n{line}\n"));
        machine.refuses("not_built", &[":2:", "is not built yet"]);
    }
    Machine::new()
        .with_user("[auxiliary]\nreview = { model = \"m\" }\n")
        .refuses("not_built", &["auxiliary.review"]);
}

#[test]
fn defaults_of_what_is_not_built_may_be_written_out() {
    let machine = Machine::new().with_user(
        "[delegation]\nat_capacity = \"queue\"\nworktree_isolation = false\ncommand = \"\"\nroutes = {}\n\
         reasoning_effort = \"\"\ninherit_mcp_toolsets = true\n[auxiliary]\nreview = {}\n",
    );
    assert_eq!(machine.json(&["config", "check"]).0, 0);
}

#[test]
fn a_project_may_not_set_what_widens_rights_or_spending() {
    let cases = [
        ("[model]\ndefault = \"openai/x\"", "model.default"),
        ("[model]\nbase_url = \"https://evil.example\"", "model.base_url"),
        ("[model]\napi_key_env = \"HOME\"", "model.api_key_env"),
        ("[delegation]\nbase_url = \"https://evil.example\"", "delegation.base_url"),
        ("[delegation]\ncommand = \"sh\"", "delegation.command"),
        ("[delegation]\nretention_days = 1", "delegation.retention_days"),
        ("[delegation]\nat_capacity = \"reject\"", "delegation.at_capacity"),
    ];
    for (text, key) in cases {
        let machine = Machine::new().with_project(text);
        let user = machine.user_file().display().to_string();
        let place = format!("{}:2:1: `{key}` may not be set by a project", machine.project_file().display());
        machine.refuses("configuration", &[&place, &user]);
    }
}

#[test]
fn a_project_tightens_and_never_loosens() {
    let machine = Machine::new()
        .with_user("[delegation]\nmax_concurrent_children = 4\noneshot_max_children = 3\n")
        .with_project(
            "[delegation]\nmax_concurrent_children = 8\noneshot_max_children = 0\nmax_spawn_depth = 1\n",
        );
    let (value, origin) = machine.shown("delegation.max_concurrent_children");
    assert_eq!((value, origin["kind"].as_str()), (4.into(), Some("user")));
    assert_eq!(machine.shown("delegation.oneshot_max_children").0, 3);
    let said = stderr(&machine.run(&["config", "check"]));
    assert!(
        said.contains("a project may only tighten `delegation.max_concurrent_children`; 4 is kept"),
        "{said}"
    );
    assert_eq!(stderr(&machine.run(&["-q", "config", "check"])), "");
}

#[test]
fn k31_secrets_are_masked_everywhere() {
    let machine = Machine::new()
        .with_user("[delegation]\napi_key = \"hunter2\"\nbase_url = \"http://127.0.0.1:9/v1\"\n")
        .with_variable("LEGWORK_API_KEY", "hunter2")
        .with_variable("OPENAI_API_KEY", "hunter2");
    for arguments in
        [&["config", "show"][..], &["--json", "config"], &["-vv", "config", "check"], &["config", "path"]]
    {
        let output = machine.run(arguments);
        assert_eq!(code(output.status), 0, "{}", stderr(&output));
        let all = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&all).contains("hunter2"), "{arguments:?}");
    }
    assert_eq!(machine.shown("delegation.api_key").0, "********");
}

#[test]
fn k31_a_key_in_the_wrong_place_is_not_repeated() {
    for line in ["api_key_env = \"sk-hunter2\"", "base_url = \"https://me:hunter2@host/v1\""] {
        let machine = Machine::new().with_user(format!("[model]\n{line}\n"));
        let output = machine.run(&["config", "check"]);
        assert_eq!(code(output.status), 2);
        assert!(!stderr(&output).contains("hunter2"), "{}", stderr(&output));
    }
    let machine = Machine::new().with_user("[delegation]\napi_key = [\"hunter2\"]\n");
    assert!(!stderr(&machine.run(&["config"])).contains("hunter2"));
}

#[test]
fn a_file_with_a_key_that_others_may_read_is_told() {
    let machine =
        Machine::new().with_user("[delegation]\napi_key = \"k\"\nbase_url = \"http://127.0.0.1:9\"\n");
    let warnings = |mode| {
        fs::set_permissions(machine.user_file(), fs::Permissions::from_mode(mode)).expect("it is ours");
        stderr(&machine.run(&["config", "check"]))
    };
    assert!(warnings(0o644).contains("run `chmod 600` on it"));
    assert_eq!(warnings(0o600), "");
}

#[test]
fn the_schema_is_json_and_needs_no_configuration() {
    let machine = Machine::new().with_user("this is not TOML");
    let (exit, schema) = machine.json(&["config", "schema"]);
    assert_eq!(exit, 0);
    let (_, values) = Machine::new().json(&["config"]);
    for name in values.as_object().expect("an object").keys() {
        let (section, key) = name.split_once('.').expect("dotted");
        assert!(schema["properties"][section]["properties"][key].is_object(), "{name}");
    }
}

#[test]
fn config_path_names_the_file_and_needs_no_configuration() {
    let machine = Machine::new().with_user("this is not TOML");
    let output = machine.run(&["config", "path"]);
    let printed = String::from_utf8(output.stdout).expect("a path");
    assert_eq!(printed.trim_end(), machine.user_file().display().to_string());
}

#[test]
fn an_unknown_provider_names_the_known_ones() {
    let (exit, document) = Machine::new().json(&["--model", "opnai/gpt", "config", "check"]);
    let error = &document["error"];
    assert_eq!((exit, error["kind"].as_str()), (2, Some("unknown_provider")), "{document}");
    assert!(
        error["message"].as_str().is_some_and(|text| text.contains("did you mean `openai`?")),
        "{document}"
    );
    assert!(
        error["hint"].as_str().is_some_and(|text| text.contains("openai-compatible, anthropic")),
        "{document}"
    );
}

#[test]
fn usage_errors_are_exit_2_and_a_document_with_json() {
    let machine = Machine::new();
    let output = machine.run(&["config", "--al"]);
    assert_eq!((code(output.status), output.stdout.len()), (2, 0));
    let (exit, document) = machine.json(&["delegate"]);
    assert_eq!((exit, document["error"]["kind"].as_str()), (2, Some("usage")), "{document}");
    let (exit, document) = machine.json(&["--cwd", "/does/not/exist", "config"]);
    assert_eq!((exit, document["error"]["kind"].as_str()), (2, Some("usage")), "{document}");
    assert_eq!(code(machine.run(&["--version"]).status), 0);
    assert_eq!(code(machine.run(&["--help"]).status), 0);
    assert_eq!(code(machine.run(&[]).status), 2);
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = Machine::new().run(&["completions", shell]);
        assert_eq!(code(output.status), 0);
        assert!(String::from_utf8_lossy(&output.stdout).contains("legwork"), "{shell}");
    }
}
